"""The events of a request under an idempotency key: the storage format of its stream.

Topics and fields are permanent (see `ledger.domain.orders.events`). Store nothing here that a customer typed:
`fingerprint` is a keyed hash of the request without its CVC, and the key itself is part of the stream's id only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct, field


class RequestAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A request under an idempotency key was accepted and is being carried out.

    It is recorded in the commit of the intent that it leads to, so that a crash cannot separate the two. `orderId`
    is the id of the stream that the request is about, which may be no order: a customer, a merchant, saved cards.
    """

    fingerprint: str
    stream_id: UUID = field(name="orderId")
    at: datetime
    payment_id: UUID | None = None
    refund_id: UUID | None = None


class RequestAnswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request was answered with the stream at `orderVersion`; a repetition is answered from it.

    `created`: the answer was for a new order or payment. `replayed`: the request changed nothing.
    """

    stream_version: int = field(name="orderVersion")
    created: bool
    at: datetime
    replayed: bool = False


class RequestRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A rule of the business refused the request. A repetition gets the same `code`, `message` and JSON `facts`."""

    fingerprint: str
    code: str
    message: str
    facts: Raw
    at: datetime


class RequestReleased(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request ended before anything was sent to a processor.

    The same request under the same key is carried out as if it were the first.
    """

    at: datetime


class RequestCompleted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A request that is not about one order was carried out. A repetition gets the same `result`, which is JSON."""

    fingerprint: str
    result: Raw
    at: datetime


RequestEvent = RequestAccepted | RequestAnswered | RequestRefused | RequestReleased | RequestCompleted

TOPICS: Final[dict[str, type[Struct]]] = {
    "request-accepted.v1": RequestAccepted,
    "request-answered.v1": RequestAnswered,
    "request-refused.v1": RequestRefused,
    "request-released.v1": RequestReleased,
    "request-completed.v1": RequestCompleted,
}
