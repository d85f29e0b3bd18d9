"""What may be sent beside a body: path, query and headers; and the headers of answers.

The rule a stranger would break: a parameter of the list that `drafting.order_lists` reads and that is not here fails a
test, and the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.fields.types import TEXT_MAX
from api.orders.parse_list import GIVEN_ONCE, LIMIT_DEFAULT, LIMIT_MAX

Json = dict[str, Any]

_WHOLE_MAX: Final = 999_999_999

_DATE: Final[Json] = {
    "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}],
    "examples": ["2026-01-31"],
}

_LIST: Final[Mapping[str, tuple[str, Json]]] = {
    "status": (
        "One status or several, separated by commas.",
        {"type": "array", "items": {"$ref": "#/components/schemas/OrderStatus"}, "minItems": 1},
    ),
    "customerId": (
        "Orders of this customer, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "includeRelatedCustomers": (
        "`true`: of the customers related to it by `sourceId` too.",
        {"type": "boolean", "default": False},
    ),
    "excludeOverdue": (
        "`true`: only orders without a due date or with one to come.",
        {"type": "boolean", "default": False},
    ),
    "search": (
        "Part of the customer's e-mail, the order number, the invoice number or the external id, in any case.",
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    "dateFrom": ("Created from then on. A date alone is that day in the merchant's time zone.", _DATE),
    "dateTo": ("Created until then, inclusive. A date alone includes that day.", _DATE),
    "startDate": ("Accepted for dateFrom.", _DATE),
    "endDate": ("Accepted for dateTo.", _DATE),
    "page": (
        "Which page, from 1. Not together with offset or cursor.",
        {"type": "integer", "minimum": 1, "maximum": _WHOLE_MAX, "default": 1},
    ),
    "limit": (
        f"How many on a page, 1 to {LIMIT_MAX}; default {LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    "offset": ("How many orders to skip.", {"type": "integer", "minimum": 0, "maximum": _WHOLE_MAX}),
    "cursor": ("The `nextCursor` of another page: the fastest way to go on.", {"type": "string", "minLength": 1}),
    "sortField": ("`createdAt`.", {"type": "string", "enum": ["createdAt"], "default": "createdAt"}),
    "sortOrder": ("`desc` (default) or `asc`.", {"type": "string", "enum": ["desc", "asc"], "default": "desc"}),
}

LIST: Final = {name: described for name, described in _LIST.items() if name in GIVEN_ONCE | {"status"}}
"""The query of the order list: what a parameter means, and what may stand there."""

ORDER_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the order, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "pedido-2026-000184",
}

PAYMENT_ID: Final[Json] = {
    "name": "paymentId",
    "in": "path",
    "required": True,
    "description": "The service's id of the payment, or the merchant's own external id of it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
}

REFUND_ID: Final[Json] = {
    "name": "refundId",
    "in": "path",
    "required": True,
    "description": "The service's id of the refund, or the merchant's own external id of it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
}

IDEMPOTENCY_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Your own name of this request, for ever: the same request under the same key is answered as it was the "
    "first time, and nothing happens again. Recommended with a charge.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}

REQUEST_HEADERS: Final[Mapping[str, Json]] = {
    "MerchantId": {
        "name": "x-merchant-id",
        "in": "header",
        "description": "The key's own merchant, as a check. Optional, unless the merchant requires it.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "RequestId": {
        "name": "x-request-id",
        "in": "header",
        "description": "Your own id of the request: up to 64 letters, digits and `._:-`. It comes back and is logged; "
        "anything else is replaced by an id of ours.",
        "schema": {"type": "string"},
    },
}

ANSWER_HEADERS: Final[Mapping[str, Json]] = {
    "x-request-id": {
        "description": "The request's id. Tell it when you ask for help.",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
    "RateLimit-Limit": {
        "description": "How many requests the tighter of the key's two limits allows. Absent for a key without limits.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit-Remaining": {
        "description": "How many of them are left.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit-Reset": {
        "description": "In how many seconds all of them are back.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Retry-After": {
        "description": "After how many seconds to ask again.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotent-Replayed": {
        "description": "`true` where nothing happened: the order or the payment was there, or the request had its answer.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}

RATE: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def list_parameters() -> list[Json]:
    """The parameters of the order list's query."""
    return [_query(name, *described) for name, described in LIST.items()]


def _query(name: str, description: str, schema: Json) -> Json:
    # One without a value, as forms send it, is one that was not given.
    parameter: Json = {
        "name": name,
        "in": "query",
        "description": description,
        "allowEmptyValue": True,
        "schema": schema,
    }
    return parameter | {"style": "form", "explode": False} if schema.get("type") == "array" else parameter
