"""The terms of an endpoint of a merchant.

These shapes are stored inside the events of endpoints. Add a field only with a default, and never rename one. Never add
a secret: an event names the sealed secret by an id.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from ledger.py311_speedups import fast_members

ENDPOINTS_MAX: Final = 16
"""How many endpoints a merchant may have."""


@fast_members
class Ordering(StrEnum):
    """How long an event waits for an earlier one of its stream: a minute, or until that one is accepted or FAILED."""

    DEFAULT = "DEFAULT"
    STRICT = "STRICT"


@fast_members
class Payload(StrEnum):
    """Whether a message has `data`."""

    FULL = "FULL"
    THIN = "THIN"


@fast_members
class EndpointStatus(StrEnum):
    """Whether events are posted to an endpoint."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


@fast_members
class DisabledReason(StrEnum):
    """Why an endpoint is disabled: its merchant did it, it answered 410, or it accepted nothing for five days."""

    MERCHANT = "MERCHANT"
    GONE = "GONE"
    FAILING = "FAILING"


@fast_members
class Resume(StrEnum):
    """Where an endpoint that is enabled again goes on: behind its last event, or behind the newest one."""

    MISSED = "MISSED"
    NOW = "NOW"


class EndpointTerms(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a merchant chooses. `events` are kinds; None means all, and those of later releases too."""

    url: str
    events: tuple[str, ...] | None = None
    description: str | None = None
    ordering: Ordering = Ordering.DEFAULT
    payload: Payload = Payload.FULL
