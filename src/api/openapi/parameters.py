"""The parameters in paths and headers that several operations share, and the headers of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.decoding.types import TEXT_MAX
from api.operation import Json

ORDER_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the order, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "pedido-2026-000184",
}

CUSTOMER_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the customer, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "cliente-5521",
}

OF_CUSTOMER: Final[Json] = CUSTOMER_ID | {"name": "customerId"}

PRODUCT_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The merchant's id of the product, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "cafe-coatepec-1kg",
}

GLOBAL_INVOICE_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the global invoice.",
    "schema": {"type": "string", "format": "uuid"},
    "example": "01890a5d-ac96-774b-bcce-b302099a8057",
}

AUDIT_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of the audit.",
    "schema": {"type": "string", "format": "uuid"},
    "example": "01890a5d-ac96-774b-bcce-b302099a8057",
}

PLAN_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the plan, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "cafe-del-mes",
}

SUBSCRIPTION_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the subscription, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "suscripcion-5521",
}

INVOICE_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the subscription invoice.",
    "schema": {"type": "string", "format": "uuid"},
}

EVENT_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of the event.",
    "schema": {"type": "string", "format": "uuid"},
}

PAYMENT_METHOD_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the saved payment method.",
    "schema": {"type": "string", "format": "uuid"},
}

IDEMPOTENCY_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Your own key of this request, valid for ever: the same request under the same key gets its first "
    "answer again, and nothing is done twice. Recommended with a charge.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}

REQUEST_HEADERS: Final[Mapping[str, Json]] = {
    "MerchantId": {
        "name": "x-merchant-id",
        "in": "header",
        "description": "A check: must be the id of the key's merchant. Optional, unless the merchant requires it.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "RequestId": {
        "name": "x-request-id",
        "in": "header",
        "description": "Your own id of the request: up to 64 letters, digits and `._:-`. It is returned and "
        "logged; any "
        "other value is replaced by an id that the service generates.",
        "schema": {"type": "string"},
    },
}

ANSWER_HEADERS: Final[Mapping[str, Json]] = {
    "x-request-id": {
        "description": "The request's id. Quote it when you ask for help.",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
    "RateLimit-Limit": {
        "description": "The number of requests that the tighter of the key's two limits allows. Absent for a "
        "key without "
        "limits.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit-Remaining": {
        "description": "The number of these requests that are left.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit-Reset": {
        "description": "The number of seconds until all of these requests are available again.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Ledger-Ignored-Fields": {
        "description": "The names of the body that are unknown at their place and have no effect, "
        "percent-encoded: `customer.shoeSize, lineItems[].colour`. At most twenty; `...` stands for more, and for a name "
        "that may not be repeated.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "The number of seconds after which to send the request again.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotent-Replayed": {
        "description": "`true` where nothing was changed: the order or the payment existed already, or the request had "
        "been answered before.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}

RATE: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
