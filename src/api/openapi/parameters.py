"""What several operations take beside a body, in the path and in headers; and the headers of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.fields.types import TEXT_MAX
from api.openapi.operation import Json

ORDER_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the order, or the merchant's own external id, percent-encoded.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    "example": "pedido-2026-000184",
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
