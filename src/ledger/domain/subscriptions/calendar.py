"""The calendar of billing periods: where the n-th period since an anchor begins and ends (contract N64).

Compute a period from the anchor and its number, never from the end of the one before: 31 January, 28 February, 31
March. A period keeps the anchor's local time of day in the merchant's time zone, also across daylight saving.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ledger.domain.plans.terms import TRIAL_DAYS_MAX, Interval

_HALF_DAYS = 15
"""The distance of the two days of a month on which a half-monthly period begins."""


class Period(NamedTuple):
    """A billing period: `start` belongs to it, `end` to the next one. Both aware, in UTC."""

    start: datetime
    end: datetime


def period(anchor: datetime, time_zone: str, interval: Interval, count: int, n: int) -> Period:
    """Returns the n-th period of `count` intervals since `anchor`; n counts from 0."""
    local = anchor.astimezone(ZoneInfo(time_zone))
    return Period(_after(local, interval, n * count), _after(local, interval, (n + 1) * count))


def start_problem(date: datetime, at: datetime) -> str | None:
    """Returns why a request at `at` cannot set this time for a first charge, or None if it can."""
    if date < at:
        return f"must not be before the merchant's clock, which shows {at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"must be within {TRIAL_DAYS_MAX} days" if date > at + timedelta(days=TRIAL_DAYS_MAX) else None


def days_after(start: datetime, time_zone: str, days: int) -> datetime:
    """Returns the same local time of day, `days` days later, in UTC."""
    return _in_utc(start.astimezone(ZoneInfo(time_zone)) + timedelta(days=days))


def _after(anchor: datetime, interval: Interval, intervals: int) -> datetime:
    """Returns the time in UTC that lies so many intervals after a local time."""
    match interval:
        case Interval.DAY:
            return _in_utc(anchor + timedelta(days=intervals))
        case Interval.WEEK:
            return _in_utc(anchor + timedelta(weeks=intervals))
        case Interval.HALF_MONTH:
            return _in_utc(_half_months_after(anchor, intervals))
        case Interval.MONTH:
            return _in_utc(_months_after(anchor, intervals, anchor.day))
        case Interval.YEAR:
            return _in_utc(_months_after(anchor, 12 * intervals, anchor.day))


def _half_months_after(anchor: datetime, halves: int) -> datetime:
    """Returns the local time so many half months later: on the anchor's day, and on the day 15 days away from it.

    An anchor on the 1st gives the 1st and the 16th, one on the 31st the last day of a month and the 16th.
    """
    months, is_odd = divmod(halves, 2)
    if not is_odd:
        return _months_after(anchor, months, anchor.day)
    if anchor.day <= _HALF_DAYS:
        return _months_after(anchor, months, anchor.day + _HALF_DAYS)
    return _months_after(anchor, months + 1, anchor.day - _HALF_DAYS)


def _months_after(anchor: datetime, months: int, day: int) -> datetime:
    """Returns the local time on this day of the month so many months later, or on the month's last day."""
    years, month = divmod(anchor.month - 1 + months, 12)
    year, month = anchor.year + years, month + 1
    return anchor.replace(year=year, month=month, day=min(day, monthrange(year, month)[1]))


def _in_utc(local: datetime) -> datetime:
    """Returns a local time in UTC. A time that a change to summer time skips is an hour later by the clock."""
    return local.replace(fold=0).astimezone(UTC)
