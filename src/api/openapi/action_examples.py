"""Requests that act on an order, as they look.

The rule a stranger would break: every example works, on an order that stands where its operation wants it. A test sends each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.openapi.examples import BILLING, CARD

Json = dict[str, Any]

PAY: Final[Mapping[str, Json]] = {
    "card": {
        "summary": "A part by card",
        "value": {
            "amount": 50000,
            "externalId": "pedido-2026-000185-1",
            "paymentMethod": CARD,
            "billingAddress": BILLING,
        },
    },
    "transfer": {
        "summary": "The rest by bank transfer",
        "value": {"externalId": "pedido-2026-000185-2", "paymentMethod": {"type": "spei"}},
    },
}

REFUND: Final[Mapping[str, Json]] = {
    "part": {
        "summary": "A part of it",
        "value": {"amount": 38900, "reason": "Un kilo de café llegó abierto", "externalId": "devolucion-184-1"},
    },
    "payout": {
        "summary": "To an account, where the money came by transfer or in cash",
        "value": {
            "amount": 10000,
            "reason": "Pedido incompleto",
            "destination": {"clabe": "032180000118359719", "accountHolder": "María Fernanda Hernández Ochoa"},
        },
    },
}

CANCEL: Final[Mapping[str, Json]] = {
    "reason": {"summary": "With a reason", "value": {"reason": "El cliente ya no lo quiere"}},
}

CAPTURE: Final[Mapping[str, Json]] = {
    "all": {"summary": "All that is left", "value": {}},
    "part": {"summary": "A part", "value": {"amount": 50000}},
}

DEVICE_DATA: Final[Mapping[str, Json]] = {
    "browser": {
        "summary": "With what the browser told",
        "value": {"deviceInformation": {"ipAddress": "201.141.20.7", "httpBrowserLanguage": "es-MX"}},
    },
}

VALIDATE: Final[Mapping[str, Json]] = {
    "returned": {
        "summary": "The payer is back",
        "value": {"authenticationTransactionId": "8e1c5f0a-6f0b-4f43-9a3e-2f6d7c1b5a90"},
    },
}
