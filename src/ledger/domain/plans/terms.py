"""The terms of a plan: what is charged, how often, and its dunning: the retries of a failed charge (contract N64, N65).

These shapes are stored inside the events of plans and of subscriptions. Add a field only with a default, and never
rename one.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ledger.py311_speedups import fast_members


@fast_members
class Interval(StrEnum):
    """The unit of a billing period. The calendar of subscriptions defines where one ends."""

    DAY = "DAY"
    WEEK = "WEEK"
    HALF_MONTH = "HALF_MONTH"
    MONTH = "MONTH"
    YEAR = "YEAR"


@fast_members
class OnRetriesExhausted(StrEnum):
    """What becomes of a subscription whose last retry failed, or whose card was declined for good."""

    UNPAID = "UNPAID"
    CANCEL = "CANCEL"


@fast_members
class PlanStatus(StrEnum):
    """Whether new subscriptions can be made to the plan."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


PERIODS_MAX: Final[Mapping[Interval, int]] = {
    Interval.DAY: 1096,
    Interval.WEEK: 156,
    Interval.HALF_MONTH: 72,
    Interval.MONTH: 36,
    Interval.YEAR: 3,
}
"""The most units of one billing period: three years, as with other billing services."""

TRIAL_DAYS_MAX: Final = 730
EXPIRY_MAX: Final = 9_999

DUNNING_RETRIES: Final = 4
DUNNING_RETRIES_MAX: Final = 20
"""How often a charge that failed is retried: by default, and at most."""

DUNNING_RETRY_HOURS: Final = 48
DUNNING_RETRY_HOURS_MAX: Final = 720
"""The hours from one attempt to the next: by default, and at most."""


class PlanTerms(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a plan charges and when. `amount` is in minor units of `currency`, for one period.

    A period has `interval_count` intervals. `expiry_count` is the number of periods after which a subscription ends;
    None is without end. A soft decline is retried up to `max_retries` times, each `retry_delay_hours` after the last
    attempt. Events store every field, so that a later change of a default leaves existing plans as they are.
    """

    amount: Decimal
    currency: str
    interval: Interval
    interval_count: int = 1
    trial_period_days: int = 0
    expiry_count: int | None = None
    max_retries: int = DUNNING_RETRIES
    retry_delay_hours: int = DUNNING_RETRY_HOURS
    on_retries_exhausted: OnRetriesExhausted = OnRetriesExhausted.UNPAID


FIXED_ONCE_USED: Final = ("amount", "currency", "interval", "interval_count")
"""The terms that never change once a subscription has used the plan (contract N66)."""


def period_problem(interval: Interval, interval_count: int) -> str | None:
    """Returns what is wrong with a period of so many intervals, None if it has at most three years."""
    most = PERIODS_MAX[interval]
    return None if interval_count <= most else f"must be at most {most} with interval {interval}, which is three years"
