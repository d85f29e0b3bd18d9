"""Converts values to and from Postgres' binary format (see `ledger.journal.inline.Row`).

Keep times in whole microseconds: a float of seconds cannot hold them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY_ZERO: Final = date(2000, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000


def micros(moment: datetime) -> int:
    """Returns an aware time as microseconds since 2000-01-01 UTC."""
    elapsed = moment - _EPOCH
    return elapsed.days * _DAY_US + elapsed.seconds * 1_000_000 + elapsed.microseconds


def from_micros(micros: int) -> datetime:
    """Returns the time that lies so many microseconds after 2000-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def days(day: date) -> int:
    """Returns a calendar day as days since 2000-01-01."""
    return day.toordinal() - _DAY_ZERO


def utc_day(micros: int) -> int:
    """Returns the UTC day, as days since 2000-01-01, of a time in microseconds since then."""
    return micros // _DAY_US


def text(value: str | None) -> bytes | None:
    """Returns a text as UTF-8."""
    return None if value is None else value.encode()
