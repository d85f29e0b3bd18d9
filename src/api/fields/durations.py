"""ISO 8601 durations, and the time that lies one duration after another time.

A month has no fixed number of days. Count months and days by the calendar of the merchant's time zone; in a shorter
month a 31st becomes the last day.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct

from api.errors import invalid

_PARTS: Final = re.compile(
    r"P(?=[0-9]|T[0-9])(?:(?P<years>[0-9]+)Y)?(?:(?P<months>[0-9]+)M)?(?:(?P<weeks>[0-9]+)W)?(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]{1,6})?)S)?)?"
)
_UNITS: Final = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")
_NUMBER_MAX: Final = 1_000_000_000


class Duration(Struct, frozen=True, kw_only=True):
    """Calendar months, calendar days, and a time of fixed length."""

    months: int
    days: int
    time: timedelta

    def after(self, moment: datetime) -> datetime:
        """Returns the time one duration after `moment`, in UTC. `moment` is aware, in the time zone whose calendar
        counts.

        Raises OverflowError or ValueError beyond the last date that Python has.
        """
        month = moment.month - 1 + self.months
        year, month = moment.year + month // 12, month % 12 + 1
        day = min(moment.day, calendar.monthrange(year, month)[1])
        on_that_day = moment.replace(year=year, month=month, day=day) + timedelta(days=self.days)
        return on_that_day.astimezone(UTC) + self.time


def duration(text: str, field: str) -> Duration:
    """Returns the duration in a text such as `P1M` or `PT72H`. Raises ApiError (400)."""
    found = _PARTS.fullmatch(text)
    if found is None:
        raise invalid(field, "must be an ISO 8601 duration such as P1DT12H", "INVALID_FORMAT")
    years, months, weeks, days, hours, minutes, seconds = (Decimal(found[part] or 0) for part in _UNITS)
    if max(years, months, weeks, days, hours, minutes, seconds) > _NUMBER_MAX:
        raise invalid(field, "is out of range", "OUT_OF_RANGE")
    try:
        time = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(seconds * 1_000_000))
    except OverflowError:
        raise invalid(field, "is out of range", "OUT_OF_RANGE") from None
    return Duration(months=int(12 * years + months), days=int(7 * weeks + days), time=time)
