"""The links of an answer with an order: the operations on that order, and which values of the answer they take.

Link every operation on an order: clients that follow links, and the test run that does, reach no others. Give no link a
`requestBody`: OpenAPI 3.1 allows any value, but generators of clients refuse all but a text. What a body takes of the
answer is in the link's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

_ID: Final = "$response.body#/id"
_PAYMENT_ID: Final = "$response.body#/payment/id"
_REFUND_ID: Final = "$response.body#/refund/id"

LINKS: Final[Mapping[str, Json]] = {
    "get": {"operationId": "getPaymentOrder", "parameters": {"id": _ID}},
    "getHistory": {"operationId": "listPaymentOrderEvents", "parameters": {"id": _ID}},
    "explain": {
        "operationId": "explainPaymentOrder",
        "description": "`field` is the name of an amount of the order, or `status`.",
        "parameters": {"id": _ID, "field": "amountPending"},
    },
    "change": {"operationId": "changePaymentOrder", "parameters": {"id": _ID}},
    "charge": {"operationId": "chargePaymentOrder", "parameters": {"id": _ID}},
    "pay": {"operationId": "addPayment", "parameters": {"id": _ID}},
    "refund": {"operationId": "refundPaymentOrder", "parameters": {"id": _ID}},
    "cancel": {"operationId": "cancelPaymentOrder", "parameters": {"id": _ID}},
    "capture": {"operationId": "capturePaymentOrder", "parameters": {"id": _ID}},
    "release": {"operationId": "releasePaymentOrder", "parameters": {"id": _ID}},
    "stamp": {"operationId": "stampPaymentOrder", "parameters": {"id": _ID}},
    "getFiles": {"operationId": "getCfdiUrl", "parameters": {"id": _ID}},
    "getFilesByPost": {"operationId": "createCfdiUrl", "parameters": {"id": _ID}},
    "getSelfInvoiceUrl": {"operationId": "getSelfInvoiceUrl", "parameters": {"id": _ID}},
    "cancelInvoice": {"operationId": "cancelCfdi", "parameters": {"id": _ID}},
    "sendDeviceData": {
        "operationId": "submitDeviceData",
        "description": "`referenceId` is that of `payerAuthentication`.",
        "parameters": {"id": _ID},
    },
    "validate": {
        "operationId": "validatePayerAuthentication",
        "description": "`authenticationTransactionId` is that of `payerAuthentication`.",
        "parameters": {"id": _ID},
    },
    "listPayments": {"operationId": "listPayments", "parameters": {"id": _ID}},
    "getPayment": {"operationId": "getPayment", "parameters": {"id": _ID, "paymentId": _PAYMENT_ID}},
    "listRefunds": {"operationId": "listRefunds", "parameters": {"id": _ID}},
    "contest": {"operationId": "reportDispute", "description": "`paymentId` is `payment.id`."},
}
"""The links of every answer that is an order."""

REFUND_LINKS: Final[Mapping[str, Json]] = {
    "getRefund": {"operationId": "getRefund", "parameters": {"id": _ID, "refundId": _REFUND_ID}},
    "confirmRefund": {"operationId": "confirmRefund", "parameters": {"id": _ID, "refundId": _REFUND_ID}},
    "changeRefundDestination": {
        "operationId": "changeRefundDestination",
        "parameters": {"id": _ID, "refundId": _REFUND_ID},
    },
}
"""The further links of an order that is answered with a refund."""
