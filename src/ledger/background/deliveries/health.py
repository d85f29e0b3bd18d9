"""How much an endpoint is asked whose attempts fail, and when it is disabled.

After twenty failures in a row it gets one attempt at a time, with pauses; after the first success again ten a second,
and twice as many in each second that follows. A delivery that waits meanwhile uses none of its attempts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ledger.back_off import back_off_s

AT_ONCE: Final = 8
FAILURES_MAX: Final = 20
_PAUSE_FIRST_S, _PAUSE_MAX_S = 5.0, 900.0
_RATE_FIRST: Final = 10.0
_RECOVERY: Final = timedelta(seconds=10)
"""After this, the rate would be 10,000 a second: the attempts at once limit it."""

DISABLED_AFTER: Final = timedelta(days=5)
ENDED_MIN: Final = 10
"""How many attempts must have ended without a success."""


class Health(Struct, frozen=True, kw_only=True):
    """The outcomes of an endpoint's last attempts. How much it is asked follows from the real times; the others are
    by the merchant's clock.
    """

    failures: int = 0
    """How many attempts have ended since the last success."""
    failing_since: datetime | None = None
    last_success_at: datetime | None = None
    paused_until: datetime | None = None
    """Real time."""
    recovering_since: datetime | None = None
    """Real time."""


def after_attempt(health: Health, *, is_delivered: bool, now: datetime, real_now: datetime) -> Health:
    """Returns the health after an attempt that ended at `now` by the merchant's clock."""
    if is_delivered:
        recovering = real_now if health.failures >= FAILURES_MAX else health.recovering_since
        return Health(last_success_at=now, recovering_since=recovering)
    failures = health.failures + 1
    paused_until = None
    if failures >= FAILURES_MAX:
        paused_until = real_now + timedelta(seconds=back_off_s(failures - FAILURES_MAX, _PAUSE_MAX_S, _PAUSE_FIRST_S))
    return replace(health, failures=failures, failing_since=health.failing_since or now, paused_until=paused_until)


def at_once(health: Health) -> int:
    """Returns how many attempts may be under way at once."""
    return AT_ONCE if health.failures < FAILURES_MAX else 1


def next_begin(health: Health, last_begun: datetime | None, real_now: datetime) -> datetime:
    """Returns from when on the next attempt may begin, in real time, after one that began at `last_begun`."""
    if health.paused_until is not None:
        return max(real_now, health.paused_until)
    since = health.recovering_since
    if since is None or last_begun is None or not timedelta() <= real_now - since < _RECOVERY:  # the clock was set back
        return real_now
    rate = _RATE_FIRST * 2 ** int((real_now - since).total_seconds())
    return max(real_now, last_begun + timedelta(seconds=1 / rate))


def is_failing_for_days(health: Health, now: datetime) -> bool:
    """Returns whether an endpoint is to be disabled: no success in five days, in which at least ten attempts ended."""
    since = health.failing_since
    return health.failures >= ENDED_MIN and since is not None and now - since >= DISABLED_AFTER
