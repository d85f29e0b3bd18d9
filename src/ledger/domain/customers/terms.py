"""The terms on which messages are sent to a customer: how an attempt to hand one to a notifier ends, when the next one
is, and when there is none any more.

Reminders of orders and messages of subscriptions share them. Each stores its attempts as events of its own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

_MISSED_AFTER: Final = timedelta(hours=24)
_PAUSES: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 360, 720))
"""The pauses between the attempts to send a message, by the merchant's clock: seven attempts in 21 hours."""
_UNKNOWN_MAX: Final = 2
"""How many attempts may end without an answer: so often, at most, a person receives the same message."""


class Accepted(Struct, frozen=True):
    """The notifier accepted the message."""


class Refused(Struct, frozen=True):
    """The notifier refused the message for good."""

    code: str


class NotAccepted(Struct, frozen=True):
    """The notifier did not accept the message now, or, if it is `unknown`, may have accepted it."""

    code: str
    unknown: bool = False


AttemptOutcome = Accepted | Refused | NotAccepted


class GivenUpBecause(StrEnum):
    """Why there is no further attempt. The events of each kind of message store these names too."""

    MISSED = "MISSED"
    REFUSED = "REFUSED"
    UNDELIVERED = "UNDELIVERED"
    UNKNOWN = "UNKNOWN"


class Attempts(Struct, frozen=True, kw_only=True):
    """The attempts to send a message so far.

    `attempts` counts them, `unknown` those without an answer. `deadline_at` ends the running attempt, in real time.
    """

    attempts: int = 0
    unknown: int = 0
    deadline_at: datetime | None = None


M = TypeVar("M", bound=Attempts)


def begun(message: M, deadline_at: datetime) -> M:
    """Returns a message whose next attempt runs until `deadline_at`. One that ran before was interrupted."""
    return replace(
        message,
        attempts=message.attempts + 1,
        unknown=message.unknown + (message.deadline_at is not None),
        deadline_at=deadline_at,
    )


def postponed(message: M, retry_at: datetime, *, unknown: bool) -> M:
    """Returns a message whose attempt ended without success, and that is tried again at `retry_at`."""
    return replace(message, send_at=retry_at, deadline_at=None, unknown=message.unknown + unknown)


def why_not_begun(message: Attempts, send_at: datetime, at: datetime) -> GivenUpBecause | None:
    """Returns why a message that is due since `send_at` is not tried at `at`; None if it is."""
    if message.deadline_at is not None and message.unknown + 1 >= _UNKNOWN_MAX:
        return GivenUpBecause.UNKNOWN
    if message.attempts == 0 and at > send_at + _MISSED_AFTER:
        return GivenUpBecause.MISSED
    return None


def after_failure(message: Attempts, outcome: Refused | NotAccepted) -> timedelta | GivenUpBecause:
    """Returns the pause before the next attempt, or why there is none, after one that ended without success."""
    if isinstance(outcome, Refused):
        return GivenUpBecause.REFUSED
    if outcome.unknown and message.unknown + 1 >= _UNKNOWN_MAX:
        return GivenUpBecause.UNKNOWN
    if message.attempts > len(_PAUSES):
        return GivenUpBecause.UNDELIVERED
    return _PAUSES[message.attempts - 1]
