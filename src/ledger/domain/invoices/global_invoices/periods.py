"""The days that a global invoice covers, in the merchant's time zone."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from ledger.domain.orders.invoices.terms import GlobalPeriod, Periodicity
from ledger.domain.rejections import InvalidField

_DAYS: Final = {Periodicity.DAILY: 1, Periodicity.WEEKLY: 7}
_MIDDLE: Final = 16
"""The first day of the second half of a month."""


def days_of(period: GlobalPeriod) -> tuple[date, date]:
    """Returns the first day of a period, and the first one after it. A week ends with its month."""
    first = date(period.year, period.month, period.first_day)
    month_end = date(period.year, period.month, monthrange(period.year, period.month)[1]) + timedelta(days=1)
    match period.periodicity:
        case Periodicity.MONTHLY:
            return first, month_end
        case Periodicity.BIMONTHLY:
            return first, (month_end + timedelta(days=31)).replace(day=1)
        case Periodicity.FORTNIGHTLY:
            return first, month_end if period.first_day == _MIDDLE else first.replace(day=_MIDDLE)
        case _:
            return first, min(first + timedelta(days=_DAYS[period.periodicity]), month_end)


def bounds_of(period: GlobalPeriod, time_zone: str) -> tuple[datetime, datetime]:
    """Returns when a period begins and ends, in UTC."""
    zone = ZoneInfo(time_zone)
    first, after = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in days_of(period))
    return first.astimezone(UTC), after.astimezone(UTC)


def check_period(period: GlobalPeriod, time_zone: str, now: datetime) -> None:
    """Raises InvalidField for a period that SAT does not have, or that has not ended."""
    last = monthrange(period.year, period.month)[1]
    if period.periodicity is Periodicity.FORTNIGHTLY and period.first_day not in {1, _MIDDLE}:
        raise InvalidField("firstDay", f"must be 1 or {_MIDDLE} for a fortnight")
    if period.periodicity in {Periodicity.MONTHLY, Periodicity.BIMONTHLY} and period.first_day != 1:
        raise InvalidField("firstDay", "must be absent for whole months")
    if not 1 <= period.first_day <= last:
        raise InvalidField("firstDay", f"must be a day of the month, 1 to {last}")
    if period.periodicity is Periodicity.BIMONTHLY and period.month % 2 == 0:
        raise InvalidField("month", "must be the first of two months: January, March, May, July, September or November")
    if bounds_of(period, time_zone)[1] > now:
        raise InvalidField("month", "must be a period that has ended")
