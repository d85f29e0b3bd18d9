"""What the published description has of one operation, and the error codes that many operations have in common.

Put a code into a table of several operations only if each of them can answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

SANDBOX: Final = "Sandbox"
PAYMENT_METHODS: Final = "Payment methods"
PRODUCTS: Final = "Products"
PLANS: Final = "Plans"
SUBSCRIPTIONS: Final = "Subscriptions"
MERCHANT: Final = "Merchant"
PROCESSORS: Final = "Processor accounts"
EVENTS: Final = "Events"
WEBHOOKS: Final = "Webhook endpoints"
AUDIT: Final = "Audit"
LOG: Final = "Log"
Json = dict[str, Any]
Codes = Mapping[int, tuple[str, ...]]


class OperationSpec(Struct, frozen=True, kw_only=True):
    """The published description of an operation: its name, what it takes, what it answers with which status and codes.

    `takes` is the struct of the body, which may be left out if `optional`. `answers` has the meaning and the struct
    of each status; `text` is the meaning of an answer that is no JSON, of `text_type`; `texts` the other media types in
    which the answer 200 exists. `replays` marks an operation whose answers may be repetitions (header
    Idempotent-Replayed). `has_order` is false if a decline is answered without the payment order.
    """

    name: str
    summary: str
    description: str
    parameters: tuple[Json, ...] = ()
    takes: type[Struct] | None = None
    optional: bool = False
    examples: Mapping[str, Json] = {}
    answers: Mapping[int, tuple[str, type[Struct]]] = {}
    text: str | None = None
    text_type: str = "text/plain"
    texts: tuple[str, ...] = ()
    codes: Codes
    tag: str = "Payment orders"
    replays: bool = False
    has_order: bool = True


ANY: Final[Codes] = {
    400: ("VALIDATION_ERROR", "UNKNOWN_PARAMETER"),
    401: ("INVALID_API_KEY", "KEY_EXPIRED", "KEY_ENVIRONMENT_MISMATCH", "INSUFFICIENT_SCOPE"),
    404: ("MERCHANT_NOT_FOUND",),
    414: ("URI_TOO_LONG",),
    429: ("RATE_LIMIT_EXCEEDED",),
    431: ("HEADERS_TOO_LARGE",),
    500: ("INTERNAL_ERROR",),
    503: ("DATABASE_UNAVAILABLE", "DATA_KEY_UNAVAILABLE", "REQUEST_TIMEOUT"),
}
BODY: Final[Codes] = {
    400: ("UNKNOWN_FIELD", "CONFLICTING_FIELDS", "CARD_NUMBER_NOT_ALLOWED", "SECURITY_CODE_NOT_ALLOWED"),
    408: ("REQUEST_TIMEOUT",),
    413: ("BODY_TOO_LARGE",),
    415: ("UNSUPPORTED_MEDIA_TYPE",),
}
PAYMENT: Final[Codes] = {
    400: ("CARD_NUMBER_NOT_ACCEPTED",),
    404: ("PAYMENT_METHOD_NOT_FOUND", "CUSTOMER_NOT_FOUND"),
    409: (
        "IDEMPOTENCY_MISMATCH",
        "IDEMPOTENCY_KEY_REUSED",
        "REQUEST_IN_PROGRESS",
        "CONCURRENT_UPDATE",
        "PAYMENT_METHOD_LIMIT_REACHED",
    ),
    422: (
        "METHOD_NOT_ENABLED",
        "CARD_TOKEN_INVALID",
        "PAYMENT_METHOD_EXPIRED",
        "AMOUNT_NOT_CHARGEABLE",
        "PAYMENT_DECLINED",
        "RISK_REJECTED",
        "INSTALLMENTS_NOT_AVAILABLE",
    ),
    503: ("PROCESSOR_UNAVAILABLE",),
}
KEYED: Final[Codes] = {
    404: ("ORDER_NOT_FOUND",),
    409: ("IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"),
    503: ("PROCESSOR_UNAVAILABLE",),
}
IDEMPOTENT: Final[Codes] = {409: ("IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE")}
UNREADABLE: Final[Codes] = {408: ("REQUEST_TIMEOUT",), 413: ("BODY_TOO_LARGE",), 415: ("UNSUPPORTED_MEDIA_TYPE",)}
DECLINED: Final[Codes] = {422: ("PAYMENT_DECLINED", "RISK_REJECTED")}
DECLINES: Final = frozenset({"PAYMENT_DECLINED", "RISK_REJECTED", "INSTALLMENTS_NOT_AVAILABLE"})


def codes_of(*tables: Codes) -> Codes:
    """Returns several tables as one, ordered by status."""
    merged: dict[int, tuple[str, ...]] = {}
    for table in tables:
        for status, codes in table.items():
            present = merged.get(status, ())
            merged[status] = (*present, *(code for code in codes if code not in present))
    return dict(sorted(merged.items()))
