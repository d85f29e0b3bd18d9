"""The events of a request under an idempotency key: the storage format of its stream.

Topics and fields are permanent (see `ledger.domain.orders.events`). Store nothing here that a customer typed:
`fingerprint` is a keyed hash of the request without its CVC, and the key itself is part of the stream's id only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct


class RequestAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request is being carried out: recorded with the intent that it leads to, so that a crash cannot part them."""

    fingerprint: str
    order_id: UUID
    at: datetime
    payment_id: UUID | None = None
    refund_id: UUID | None = None


class RequestAnswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The request's answer is the order as it stood at `order_version`: made again from there whenever it is asked for."""

    order_version: int
    created: bool
    at: datetime
    replayed: bool = False


class RequestRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The business said no, and says so again: the rejection's code, message and facts (a JSON object)."""

    fingerprint: str
    code: str
    message: str
    facts: Raw
    at: datetime


class RequestReleased(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Nothing of the request ever left us: the same request under the same key is carried out as if it were the first."""

    at: datetime


RequestEvent = RequestAccepted | RequestAnswered | RequestRefused | RequestReleased

TOPICS: Final[dict[str, type[Struct]]] = {
    "request-accepted.v1": RequestAccepted,
    "request-answered.v1": RequestAnswered,
    "request-refused.v1": RequestRefused,
    "request-released.v1": RequestReleased,
}
