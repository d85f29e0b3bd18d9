"""Requests and answers as they look, for readers and for programs that try the interface out.

The rule a stranger would break: every example works. A test sends each request to the service and compares the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

_CARD: Final[Json] = {
    "type": "card",
    "cardDetails": {
        "number": "4242424242424242",
        "expiryMonth": "12",
        "expiryYear": "2030",
        "cvc": "123",
        "cardholderName": "MARIA F HERNANDEZ",
    },
}
_BILLING: Final[Json] = {
    "address": "Av. Chapultepec Sur 284, Int. 5",
    "city": "Guadalajara",
    "state": "Jalisco",
    "postalCode": "44140",
    "country": "MX",
}
_CUSTOMER: Final[Json] = {
    "externalId": "cliente-5521",
    "firstName": "María Fernanda",
    "lastName": "Hernández Ochoa",
    "email": "maria.hernandez@example.com",
    "phoneNumber": "+523312345678",
}

_LINES: Final[list[Json]] = [
    {
        "description": "Café de altura Coatepec, grano entero, 1 kg",
        "sku": "CAF-COA-1000",
        "productKey": "50201706",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 3,
        "unitPrice": 38900,
        "taxes": [{"type": "IVA", "rate": 0, "factor": "Tasa"}],
    },
    {
        "description": "Cafetera de prensa francesa, acero, 800 ml",
        "sku": "PRE-FRA-0800",
        "productKey": "52151705",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 1,
        "unitPrice": 89900,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
    {
        "description": "Molino manual de muelas cónicas",
        "sku": "MOL-MAN-0001",
        "productKey": "52151706",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 1,
        "unitPrice": 64900,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
    {
        "description": "Envío estándar a domicilio",
        "sku": "ENV-EST",
        "productKey": "78102203",
        "unitKey": "E48",
        "unitName": "Servicio",
        "quantity": 1,
        "unitPrice": 13370,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
]

CREATE: Final[Mapping[str, Json]] = {
    "paidByCard": {
        "summary": "Paid by card at once",
        "value": {
            "externalId": "pedido-2026-000184",
            "amount": 284870,
            "currency": "MXN",
            "description": "Pedido 184: café de especialidad y accesorios, envío a Guadalajara",
            "invoiceNumber": "A-000184",
            "customer": _CUSTOMER,
            "billingAddress": _BILLING,
            "paymentMethod": _CARD,
            "lineItems": _LINES,
            "metadata": {
                "channel": "web",
                "cartId": "b7e0f3a2-52c4-4b36-9f0a-6d8a2f1f4c11",
                "warehouse": "GDL-02",
                "coupon": None,
                "gift": False,
                "campaign": {"source": "newsletter", "name": "buen-fin-2026", "variant": "B"},
            },
        },
    },
    "pending": {
        "summary": "To be paid later, in parts",
        "value": {
            "externalId": "pedido-2026-000185",
            "amount": 150000,
            "currency": "MXN",
            "pending": True,
            "allowPartials": True,
            "customer": {"externalId": "cliente-5521"},
        },
    },
}

CHARGE: Final[Mapping[str, Json]] = {
    "card": {
        "summary": "All of it by card",
        "value": {"paymentMethod": _CARD, "billingAddress": _BILLING},
    },
    "part": {
        "summary": "A part of a split order by card",
        "value": {
            "amount": 50000,
            "externalId": "pedido-2026-000185-1",
            "paymentMethod": _CARD,
            "billingAddress": _BILLING,
        },
    },
}

ERRORS: Final[Mapping[int, Json]] = {
    400: {
        "message": "amount is required.",
        "code": "VALIDATION_ERROR",
        "errors": [{"field": "amount", "message": "is required", "code": "REQUIRED"}],
    },
    401: {"message": "The API key is not valid.", "code": "INVALID_API_KEY"},
    409: {
        "message": "The order with this externalId has another amount.",
        "code": "IDEMPOTENCY_MISMATCH",
        "field": "amount",
    },
    429: {
        "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": "Too many requests with this API key.",
            "retryAfter": 1,
        },
        "message": "Too many requests with this API key.",
        "code": "RATE_LIMIT_EXCEEDED",
    },
}
"""Answers that are errors, by status, without their request id."""
