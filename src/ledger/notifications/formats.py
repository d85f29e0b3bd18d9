"""Formats amounts, dates and third parties' values for messages to people."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from ledger.month_names import MONTHS

_WEEKDAYS: Final = {
    "es": ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"],
    "en": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
}
_LONGEST: Final = 200
_NAME_MAX: Final = 60
_NOT_IN_NAMES: Final = re.compile(r"[/:@<>\\]|www[.\u3002]|[.\u3002]\w", re.IGNORECASE)
"""Mail programs and browsers read U+3002 as a dot too, as IDNA does (UTS 46)."""


def money(amount: Decimal, currency: str) -> str:
    """Returns an amount of minor units as people write it. Both currencies, MXN and USD, have a hundred of them.

    >>> money(Decimal(150000), "MXN"), money(Decimal("150.75"), "USD"), money(Decimal(5), "MXN")
    ('$1,500.00 MXN', '$1.5075 USD', '$0.05 MXN')
    """
    major = amount / 100
    decimals = max(2, -int(major.normalize().as_tuple().exponent))
    return f"${major:,.{decimals}f} {currency}"


def day(at: datetime, time_zone: str, language: str) -> str:
    """Returns the day of a time in a time zone.

    >>> from datetime import UTC
    >>> day(datetime(2026, 2, 11, 5, 59, tzinfo=UTC), "America/Mexico_City", "es")
    'martes 10 de febrero de 2026'
    >>> day(datetime(2026, 2, 11, 5, 59, tzinfo=UTC), "America/Mexico_City", "en")
    'Tuesday, 10 February 2026'
    """
    local: date = at.astimezone(ZoneInfo(time_zone)).date()
    weekday, month = _WEEKDAYS[language][local.weekday()], MONTHS[language][local.month - 1]
    if language == "es":
        return f"{weekday} {local.day} de {month} de {local.year}"
    return f"{weekday}, {local.day} {month} {local.year}"


def short_day(at: datetime, time_zone: str, language: str) -> str:
    """Returns the day of a time in a time zone, without its weekday."""
    return day(at, time_zone, language).split(" " if language == "es" else ", ", 1)[1]


def one_line(value: str, longest: int = _LONGEST) -> str:
    """Returns a third party's value in one line of printable characters: it cannot add a header or a paragraph."""
    line = " ".join("".join(each if each.isprintable() else " " for each in value).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def first_name(value: str | None) -> str | None:
    """Returns a first name for a greeting, or None if the value is not usable as one.

    A payer chooses the value. One that looks like an address could bring a link into a message of the merchant's; other
    spellings of its characters are compared as their usual ones.
    """
    name = one_line(value or "", _NAME_MAX)
    return None if not name or _NOT_IN_NAMES.search(unicodedata.normalize("NFKC", name)) else name
