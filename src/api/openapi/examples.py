"""Requests and answers as they look, for readers and for programs that try the interface out.

The rule a stranger would break: every example works. A test sends each request to the service and compares the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

CARD: Final[Json] = {
    "type": "card",
    "cardDetails": {
        "number": "4242424242424242",
        "expiryMonth": "12",
        "expiryYear": "2030",
        "cvc": "123",
        "cardholderName": "MARIA F HERNANDEZ",
    },
}
BILLING: Final[Json] = {
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

MOVE_CLOCK: Final[Mapping[str, Json]] = {
    "threeDaysLater": {"summary": "Three days later", "value": {"advanceBy": "P3D"}},
}
"""Requests to move a clock."""

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
            "billingAddress": BILLING,
            "paymentMethod": CARD,
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
        "value": {"paymentMethod": CARD, "billingAddress": BILLING},
    },
    "part": {
        "summary": "A part of a split order by card",
        "value": {
            "amount": 50000,
            "externalId": "pedido-2026-000185-1",
            "paymentMethod": CARD,
            "billingAddress": BILLING,
        },
    },
}

SET_PROCESSOR_MODE: Final[Mapping[str, Json]] = {
    "down": {"summary": "Down for one call", "value": {"mode": "DOWN", "times": 1}},
    "usual": {"summary": "As usual again", "value": {"mode": "OK"}},
}

SEND_DEPOSIT: Final[Mapping[str, Json]] = {
    "transfer": {
        "summary": "A transfer to a CLABE",
        "value": {"clabe": "646180110400000007", "amount": 150000, "messageId": "spei-2026-03-01-1"},
    },
    "store": {"summary": "Cash at a store", "value": {"reference": "93000000000018", "amount": 150000}},
}

REPORT_DISPUTE: Final[Mapping[str, Json]] = {
    "opened": {
        "summary": "Opened",
        "value": {"paymentId": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7", "outcome": "OPENED"},
    },
}

SETTLE: Final[Mapping[str, Json]] = {
    "all": {"summary": "Everything that can be settled", "value": {}},
}

PROCESSOR_MESSAGES: Final[Mapping[str, Json]] = {
    "deposit": {
        "summary": "A transfer arrived",
        "value": {
            "type": "deposit-received",
            "processor": "stp",
            "messageId": "abono-77120934",
            "merchantId": "019a5d0c-7c00-7000-8000-000000000001",
            "occurredAt": "2026-03-01T16:04:05.120Z",
            "reference": "646180110400000007",
            "amount": "150000",
            "currency": "MXN",
            "processorReference": "2026030140014BET0000477120934",
        },
    },
}

MESSAGES: Final[Mapping[str, str]] = {
    "VALIDATION_ERROR": "amount is required.",
    "CONFLICTING_FIELDS": "externalId and externalMerchantReference are the same field and came with different values.",
    "CARD_NUMBER_NOT_ALLOWED": "description must not contain a card number.",
    "INVALID_API_KEY": "The API key is not valid.",
    "KEY_EXPIRED": "The API key has expired.",
    "KEY_ENVIRONMENT_MISMATCH": "The API key belongs to another environment.",
    "INSUFFICIENT_SCOPE": "The API key was not issued for orders:write.",
    "MERCHANT_NOT_FOUND": "Merchant not found",
    "ORDER_NOT_FOUND": "The payment order was not found.",
    "CUSTOMER_NOT_FOUND": "The customer was not found.",
    "PAYMENT_METHOD_NOT_FOUND": "The saved payment method was not found.",
    "ORDER_NOT_PAYABLE": "An order that is COMPLETED cannot be charged.",
    "DUPLICATE_EXTERNAL_ID": "The order with this externalId was cancelled.",
    "IDEMPOTENCY_MISMATCH": "The order with this externalId has another amount.",
    "IDEMPOTENCY_KEY_REUSED": "This Idempotency-Key was used for another request.",
    "REQUEST_IN_PROGRESS": "A request with this Idempotency-Key is being carried out.",
    "CONCURRENT_UPDATE": "The order is being changed by many requests at once.",
    "BODY_TOO_LARGE": "The body must have at most 262144 bytes.",
    "URI_TOO_LONG": "The address must have at most 8192 bytes.",
    "HEADERS_TOO_LARGE": "The headers must have at most 32768 bytes.",
    "UNSUPPORTED_MEDIA_TYPE": "The body must be sent as application/json in UTF-8.",
    "AMOUNT_EXCEEDS_PENDING": "The amount exceeds what is still to be paid.",
    "METHOD_NOT_ENABLED": "Payments by spei are not enabled for this merchant.",
    "AMOUNT_MISMATCH": "The store takes exactly the amount asked for.",
    "PARTIALS_NOT_ALLOWED": "The order does not take several payments.",
    "PAYMENT_NOT_FOUND": "The payment was not found on this order.",
    "REFUND_NOT_FOUND": "The refund was not found on this order.",
    "INVALID_ORDER_STATE": "Nothing is authorised on this order.",
    "ORDER_HAS_CAPTURED_FUNDS": "Money is held on this order.",
    "ORDER_NOT_REFUNDABLE": "Nothing was captured on this order.",
    "REFUND_IN_PROGRESS": "A refund of this payment is in progress.",
    "REFUND_AMOUNT_EXCEEDS_BALANCE": "The amount exceeds what can be refunded.",
    "REFUND_WINDOW_EXPIRED": "The payment was captured too long ago.",
    "CAPTURE_EXCEEDS_AUTHORIZED": "The amount exceeds what was authorised.",
    "PAYER_AUTHENTICATION_FAILED": "The payer could not be authenticated.",
    "RATE_LIMIT_EXCEEDED": "Too many requests with this API key.",
    "INTERNAL_ERROR": "Something went wrong on our side. Tell us the request id if it happens again.",
    "DATABASE_UNAVAILABLE": "The service cannot store anything at the moment. Try again in a moment.",
    "PROCESSOR_UNAVAILABLE": "The payment processor cannot be reached. Try again in a moment.",
}
"""Messages as they come with a code. They are for people and may change; a decline's tells what the bank said."""

_FACTS: Final[Mapping[str, Json]] = {
    "VALIDATION_ERROR": {"errors": [{"field": "amount", "message": "is required", "code": "REQUIRED"}]},
    "IDEMPOTENCY_MISMATCH": {"field": "amount"},
    "DUPLICATE_EXTERNAL_ID": {"field": "externalId"},
    "ORDER_NOT_PAYABLE": {
        "currentStatus": "COMPLETED",
        "allowedStatuses": ["FAILED", "PARTIALLY_PAID", "PENDING", "REFERENCE_GENERATED"],
    },
    "INVALID_ORDER_STATE": {
        "currentStatus": "COMPLETED",
        "allowedStatuses": ["AUTHORIZED", "PARTIALLY_AUTHORIZED"],
    },
    "AMOUNT_MISMATCH": {"expectedAmount": 150000},
    "ORDER_HAS_CAPTURED_FUNDS": {"currentStatus": "COMPLETED"},
    "ORDER_NOT_REFUNDABLE": {"currentStatus": "PENDING"},
    "REFUND_IN_PROGRESS": {"paymentId": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7"},
    "REFUND_AMOUNT_EXCEEDS_BALANCE": {"refundableAmount": 4120},
    "CAPTURE_EXCEEDS_AUTHORIZED": {"authorizedAmount": 50000},
    "AMOUNT_EXCEEDS_PENDING": {"amountPending": 100000, "amountReserved": 50000},
    "RATE_LIMIT_EXCEEDED": {
        "error": {"code": "RATE_LIMIT_EXCEEDED", "message": "Too many requests with this API key.", "retryAfter": 1}
    },
}


def error(code: str) -> Json:
    """The answer with a code of `MESSAGES`."""
    shared = {"message": MESSAGES[code], "code": code, "requestId": "req-710f82784f337f2f-00000004"}
    return {"value": _FACTS.get(code, {}) | shared}


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
