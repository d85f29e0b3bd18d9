"""How times, amounts and numbers are written in answers (contract N1, N2, N21).

The rule a stranger would break: one amount has one spelling. Order amounts are JSON numbers and payment amounts decimal
strings, both in minor units and in the shortest form, whatever arithmetic they come from.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

from ledger.domain.money import shortest

_iso: Final = msgspec.json.Encoder().encode


def moment(value: datetime) -> str:
    """A time in UTC to the millisecond: `2026-01-31T12:00:00.000Z`. What is finer is cut off, not rounded."""
    assert value.tzinfo is UTC, "times are in UTC"
    return _moment(value)


@lru_cache(maxsize=4096)
def _moment(value: datetime) -> str:
    iso = _iso(value)  # `"2026-01-31T12:00:00Z"` or `"2026-01-31T12:00:00.123456Z"`, six times as fast as isoformat
    return (iso[1:24] if len(iso) == 29 else iso[1:20] + b".000").decode() + "Z"


def moment_or_null(value: datetime | None) -> str | None:
    return None if value is None else moment(value)


def number_or_null(amount: Decimal | None) -> Decimal | None:
    """An amount as it goes into a JSON number: `10000`, `150.75`; one that is known is written by `shortest` itself."""
    return None if amount is None else shortest(amount)


def for_people(amount: str, currency: str) -> str:
    """A plain amount in minor units as people read it, in major units, and never for reckoning.

    Both supported currencies, MXN and USD, have a hundred minor units.

    >>> for_people("10000", "MXN"), for_people("150.75", "USD"), for_people("5", "MXN")
    ('MXN 100.00', 'USD 1.5075', 'MXN 0.05')
    """
    whole, _, fraction = amount.partition(".")
    whole = whole.rjust(3, "0")
    return f"{currency} {whole[:-2]}.{whole[-2:]}{fraction}"
