"""Parts of example requests that several operations share, and an example of the answer with each error code.

Every example works: a test sends each request to the service and compares the answers with the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.operation import Json

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
CHALLENGED_CARD: Final[Json] = {
    "type": "card",
    "cardDetails": CARD["cardDetails"] | {"number": "4000000000003220"},
}
BILLING: Final[Json] = {
    "address": "Av. Chapultepec Sur 284, Int. 5",
    "city": "Guadalajara",
    "state": "Jalisco",
    "postalCode": "44140",
    "country": "MX",
}
PART_BY_CARD: Final[Json] = {
    "amount": 50000,
    "externalId": "pedido-2026-000185-1",
    "paymentMethod": CARD,
    "billingAddress": BILLING,
}

_CUSTOMER: Final = {
    "externalId": "cliente-5521",
    "firstName": "María Fernanda",
    "lastName": "Hernández Ochoa",
    "email": "maria.hernandez@example.com",
    "phoneNumber": "+523312345678",
}
_LINES: Final = [
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


def _again(external_id: str, amount: int, **rest: object) -> Json:
    """Returns another request of the same customer, who is named by the id alone. `amount` is in centavos."""
    customer = {"externalId": _CUSTOMER["externalId"]}
    return {"externalId": external_id, "amount": amount, "currency": "MXN", "customer": customer, **rest}


ORDERS: Final[Mapping[str, Json]] = {
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
    "spei": {
        "summary": "By SPEI transfer",
        "description": "Answered REFERENCE_GENERATED with `payment.speiDetails.clabe`, to which the payer transfers the "
        "money. In the sandbox, `POST /sandbox/deposits` sends it.",
        "value": _again("pedido-2026-000186", 150000, paymentMethod={"type": "spei"}),
    },
    "cash": {
        "summary": "In cash at a store",
        "description": "Answered REFERENCE_GENERATED with `payment.cieDetails.reference`, which the payer shows at the "
        "till. In the sandbox, `POST /sandbox/deposits` pays it.",
        "value": _again("pedido-2026-000187", 45000, paymentMethod={"type": "paycash"}),
    },
    "threeDSecure": {
        "summary": "By card with 3-D Secure",
        "description": "Answered PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: show the payer "
        "`payerAuthentication.stepUpUrl`, then send `POST …/payer-authentication/validate`. This card of the sandbox "
        "always asks.",
        "value": _again("pedido-2026-000188", 284870, billingAddress=BILLING, paymentMethod=CHALLENGED_CARD),
    },
    "split": {
        "summary": "Split order, paid in parts",
        "description": "Answered PENDING. Each `POST …/payments` then pays a part, by card, transfer or in cash.",
        "value": _again("pedido-2026-000185", 150000, pending=True, allowPartials=True),
    },
}
"""Requests that create an order."""

MESSAGES: Final[Mapping[str, str]] = {
    "VALIDATION_ERROR": "amount is required.",
    "UNKNOWN_PARAMETER": "stauts is unknown: did you mean status?",
    "CONFLICTING_FIELDS": "externalId and externalMerchantReference are two names of one field and have "
    "different values: "
    "send one of them.",
    "CARD_NUMBER_NOT_ACCEPTED": "paymentMethod.cardDetails.number is not accepted by this merchant: send "
    "paymentMethod.cardTokens, or set settings.cardEntry to NUMBERS with PUT /v1/merchant.",
    "CARD_NUMBER_NOT_ALLOWED": "description must not contain a card number.",
    "SECURITY_CODE_NOT_ALLOWED": "metadata must not contain a card's security code.",
    "INVALID_API_KEY": "The API key is unknown or revoked: use another key.",
    "KEY_EXPIRED": "The API key has expired: use another key.",
    "KEY_ENVIRONMENT_MISMATCH": "The API key belongs to another environment: use a key of this one.",
    "INSUFFICIENT_SCOPE": "The API key was not issued for orders:write: use a key with this scope.",
    "MERCHANT_NOT_FOUND": "The merchant in x-merchant-id was not found: send the merchant of the API key.",
    "ORDER_NOT_FOUND": "The merchant has no payment order with this id or external id.",
    "PAYMENT_METHOD_EXPIRED": "The saved card has expired: ask the payer for the card's new expiry or for another card.",
    "PAYMENT_METHOD_IN_USE": "A subscription is charged to this payment method.",
    "PAYMENT_METHOD_LIMIT_REACHED": "The customer has 100 saved payment methods: delete one that is no longer used, or "
    "send the card without persist.",
    "CARD_DETAILS_IMMUTABLE": "cardDetails cannot be updated: pay with the new card and persist.",
    "CUSTOMER_NOT_FOUND": "The merchant has no customer with this id.",
    "PRODUCT_NOT_FOUND": "The merchant has no product with this id.",
    "PAYMENT_METHOD_NOT_FOUND": "The merchant has no saved payment method with this id.",
    "API_KEY_NOT_FOUND": "The merchant has no such API key.",
    "API_KEY_NOT_ACTIVE": "The API key is revoked or has expired: create another key instead.",
    "MERCHANT_CLOSED": "The merchant is closed: no key is issued for it any more.",
    "API_KEY_LIMIT_REACHED": "The merchant has 100 valid API keys: revoke one that is no longer used.",
    "LAST_API_KEY": "No other API key with the scope keys has every scope in use and is valid for another day: create "
    "such a key first.",
    "ORDER_NOT_PAYABLE": "An order that is COMPLETED cannot be charged.",
    "DUPLICATE_EXTERNAL_ID": "The order with this externalId was cancelled: use another externalId.",
    "IDEMPOTENCY_MISMATCH": "The order with this externalId has another amount: repeat that amount or "
    "use another externalId.",
    "IDEMPOTENCY_KEY_REUSED": "This Idempotency-Key was used for another request: use another key.",
    "REQUEST_IN_PROGRESS": "A request with this Idempotency-Key is being carried out: send the request "
    "again after a second.",
    "CONCURRENT_UPDATE": "Too many requests change this at once. Send the request again.",
    "BODY_TOO_LARGE": "The body must have at most 262144 bytes.",
    "URI_TOO_LONG": "The address must have at most 8192 bytes.",
    "HEADERS_TOO_LARGE": "The headers must have at most 32768 bytes.",
    "UNSUPPORTED_MEDIA_TYPE": "The body must be JSON in UTF-8: send it with the header content-type: application/json.",
    "AMOUNT_EXCEEDS_PENDING": "The amount exceeds what is unpaid and not reserved by other payments.",
    "CARD_TOKEN_INVALID": "paymentMethod.cardTokens[0].token is no token of a card that can be charged: let the payer "
    "enter the card again.",
    "METHOD_NOT_ENABLED": "Payments by spei are not enabled for this merchant: use card, or add SPEI to "
    "settings.paymentMethods with PUT /v1/merchant.",
    "PROCESSOR_ACCOUNT_NOT_FOUND": "The merchant has no simulated account named backup.",
    "AMOUNT_MISMATCH": "The store accepts only the exact amount of the reference: send expectedAmount.",
    "PARTIALS_NOT_ALLOWED": "The order does not allow partial payments: charge all of it instead.",
    "PAYMENT_NOT_FOUND": "The order has no payment with this id.",
    "REFUND_NOT_FOUND": "The order has no refund with this id.",
    "INVALID_ORDER_STATE": "The order has no authorised payment to capture.",
    "ORDER_HAS_CAPTURED_FUNDS": "Money is held on this order: refund it instead.",
    "ORDER_NOT_REFUNDABLE": "Nothing was captured on this order to be refunded.",
    "REFUND_IN_PROGRESS": "A refund of this payment is in progress: try later.",
    "REFUND_AMOUNT_EXCEEDS_BALANCE": "The amount exceeds what can be refunded: refund at most refundableAmount.",
    "REFUND_WINDOW_EXPIRED": "The payment was captured too long ago for a refund to its card.",
    "CAPTURE_EXCEEDS_AUTHORIZED": "The amount exceeds the rest of the authorisation: capture at most authorizedAmount.",
    "PAYER_AUTHENTICATION_FAILED": "The payer could not be authenticated.",
    "RATE_LIMIT_EXCEEDED": "Too many requests with this API key: wait for the seconds in Retry-After.",
    "INTERNAL_ERROR": "The service failed because of an error of its own. If it happens again, report the request id.",
    "DATABASE_UNAVAILABLE": "The service cannot store anything at the moment. Try again in a moment.",
    "PROCESSOR_UNAVAILABLE": "The payment processor cannot be reached; nothing was charged. Try again in a moment.",
}
"""The message of each code. Messages are for people and may change; a decline has the bank's reason instead."""

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
        "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": "Too many requests with this API key: wait for the seconds in Retry-After.",
            "retryAfter": 1,
        }
    },
}


def error(code: str) -> Json:
    """Returns an example of the answer with a code of `MESSAGES`."""
    shared = {"message": MESSAGES[code], "code": code, "requestId": "req-710f82784f337f2f-00000004"}
    shared["docUrl"] = f"http://127.0.0.1:8000/docs/errors#{code}"
    return {"value": _FACTS.get(code, {}) | shared}
