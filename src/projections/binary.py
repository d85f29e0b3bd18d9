"""Values in the form in which Postgres sends and takes them in binary (see `ledger.journal.inline.Row`), and back.

The rule a stranger would break: times are whole microseconds, never seconds in a float; a float cannot hold them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY_ZERO: Final = date(2000, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000


def micros(moment: datetime) -> int:
    """An aware moment as microseconds since 2000-01-01 UTC."""
    since = moment - _EPOCH
    return since.days * _DAY_US + since.seconds * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """The moment that lies so many microseconds after 2000-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def days(day: date) -> int:
    """A calendar day as days since 2000-01-01."""
    return day.toordinal() - _DAY_ZERO


def utc_day(micros: int) -> int:
    """The UTC day, as days since 2000-01-01, on which a moment given in microseconds lies."""
    return micros // _DAY_US


def text(value: str | None) -> bytes | None:
    """A text value as UTF-8."""
    return None if value is None else value.encode()
