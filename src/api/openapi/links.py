"""Where an answer with an order leads: what can be done with that order, and what of the answer the next request needs.

The rule a stranger would break: an operation on an order that no link leads to is never reached by those who follow links,
neither people nor the test run that walks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

_ID: Final = "$response.body#/id"
_PAYMENT_ID: Final = "$response.body#/payment/id"
_ASKED: Final = "$response.body#/payerAuthentication"

LINKS: Final[Mapping[str, Json]] = {
    "get": {"operationId": "getPaymentOrder", "parameters": {"id": _ID}},
    "charge": {"operationId": "chargePaymentOrder", "parameters": {"id": _ID}},
    "pay": {"operationId": "addPayment", "parameters": {"id": _ID}},
    "refund": {"operationId": "refundPaymentOrder", "parameters": {"id": _ID}},
    "cancel": {"operationId": "cancelPaymentOrder", "parameters": {"id": _ID}},
    "capture": {"operationId": "capturePaymentOrder", "parameters": {"id": _ID}},
    "sendDeviceData": {
        "operationId": "submitDeviceData",
        "parameters": {"id": _ID},
        "requestBody": {"referenceId": f"{_ASKED}/referenceId"},
    },
    "validate": {
        "operationId": "validatePayerAuthentication",
        "parameters": {"id": _ID},
        "requestBody": {"authenticationTransactionId": f"{_ASKED}/authenticationTransactionId"},
    },
    "listPayments": {"operationId": "listPayments", "parameters": {"id": _ID}},
    "getPayment": {"operationId": "getPayment", "parameters": {"id": _ID, "paymentId": _PAYMENT_ID}},
    "listRefunds": {"operationId": "listRefunds", "parameters": {"id": _ID}},
    "contest": {"operationId": "reportDispute", "requestBody": {"paymentId": _PAYMENT_ID, "outcome": "OPENED"}},
}
"""Every answer that is an order has these."""

REFUND_LINKS: Final[Mapping[str, Json]] = {
    "getRefund": {"operationId": "getRefund", "parameters": {"id": _ID, "refundId": "$response.body#/refund/id"}},
}
"""An order that is answered with a refund has these as well."""
