"""Single values of a request: aliases, amounts, ids, texts with a format, dates.

Parse money by `parse_amount` only, so that no float is ever made of it.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from email_validator import EmailNotValidError, validate_email
from msgspec import UNSET, Raw, UnsetType
from stdnum.mx import rfc

from api.decoding.field_warnings import WarningCode, warn
from api.errors import ApiError, FieldError, conflicting, invalid, required
from ledger.domain.merchants.settings import MerchantSettings
from ledger.domain.money import AMOUNT_MAX, is_multiple, parse_amount, plain
from ledger.domain.orders.invoices.terms import PUBLIC_IN_GENERAL
from ledger.domain.rejections import sentence

T = TypeVar("T")
OptionalText = TypeVar("OptionalText", bound=str | None)

_CENT: Final = Decimal("0.01")
_MEASURE: Final = re.compile(r"(?:0|[1-9]\d{0,11})(?:\.\d{1,6}0*)?", re.ASCII)
_WITHOUT_CHECK_DIGIT: Final = frozenset({PUBLIC_IN_GENERAL, "XEXX010101000"})
"""SAT's numbers of those who have none: the public in general, and foreigners."""
_DIGITS: Final = frozenset("0123456789")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
# A space before an offset. No part of the pattern before it repeats: a query of 8 KiB would take a second.
_LOST_PLUS: Final = re.compile(r" (\d\d:?\d\d)\Z")
# What every browser reads alike: no space, no quotation mark and no backslash, which some take for a slash.
_PLAIN_URL: Final = re.compile(r"https?://[!#-;=?-\[\]_a-z~]+", re.ASCII | re.IGNORECASE)
LAST_MOMENT: Final = time(23, 59, 59, 999_999)
"""The time of the end of a day."""


def one_of_aliases(name: str, value: T | None, alias: str, other: T | None) -> T | None:
    """Returns the value that came under either of two names. Raises ApiError (CONFLICTING_FIELDS) if they differ."""
    if other is None:
        return value
    if value is None or value == other:
        return other
    raise conflicting(name, alias)


def external_id(value: str | None, alias: str | None) -> str | None:
    """Returns the id that the merchant chose, under either of its names. Raises ApiError (400)."""
    return printable(one_of_aliases("externalId", value, "externalMerchantReference", alias), "externalId")


def return_url(text: str | None, field: str = "returnUrl") -> str | None:
    """Returns the address to which a payer returns, as it was sent: https, or http on this machine, which the sandbox
    alone takes (`require_https`). Raises ApiError (400): a browser must neither run it nor send it a user's name.
    """
    if text is None:
        return None
    wrong = invalid(field, "must be an address like https://shop.example.com/return, without a user", "INVALID_FORMAT")
    if not _PLAIN_URL.fullmatch(text):
        raise wrong
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise wrong from None
    if not host or "@" in url.netloc or (url.scheme != "https" and not _is_loopback(host)):
        raise wrong
    return text


def require_https(text: str | None, environment: str, field: str = "returnUrl") -> None:
    """Raises ApiError (400) for an address without https in production."""
    if text is not None and environment == "production" and not text.lower().startswith("https:"):
        raise invalid(field, "must begin with https:// in production", "INVALID_FORMAT")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def virtual_terminal(value: bool | None, alias: bool | None) -> bool | None:
    """Returns whether 3-D Secure is skipped, under either of the field's names. Raises ApiError (400)."""
    return one_of_aliases("virtualTerminal", value, "isVirtualTerminal", alias)


def amount(raw: Raw | UnsetType, field: str) -> Decimal:
    """Returns the exact amount of a JSON number, in minor units: 0 to 999,999,999,999, up to four decimals (N1, N6).

    Raises ApiError (400).
    """
    if raw is UNSET:
        raise required(field)
    parsed = _amount(str(raw, "ascii", "replace"))
    if parsed is None:
        raise _no_number(raw, field, "up to 999999999999 with at most 4 decimals, written without an exponent")
    return parsed


def positive_amount(raw: Raw | UnsetType, field: str) -> Decimal:
    """Returns what `amount` returns, above zero. Raises ApiError (400)."""
    value = amount(raw, field)
    if not value:
        raise invalid(field, "must be greater than 0", "OUT_OF_RANGE")
    return value


def require_whole(
    settings: MerchantSettings, *amounts: tuple[str, Decimal | None], currency: str | None = None
) -> None:
    """Warns of every one of these amounts that has a fraction of a minor unit, or raises ApiError (400) if the merchant
    refuses them.

    Each amount comes with its field, in `currency` if that is known. The setting `fractionalAmounts` protects merchants
    who send pesos by mistake.
    """
    wrong = [(field, value) for field, value in amounts if value is not None and value != value.to_integral_value()]
    if settings.fractional_amounts:
        for field, value in wrong:
            warn(field, WarningCode.FRACTION_OF_MINOR_UNIT, _in_both_units(value, currency))
        return
    errors = tuple(FieldError(field, _in_minor_units(value), "FRACTION_NOT_ALLOWED") for field, value in wrong)
    if errors:
        message = sentence(errors[0].field, errors[0].message)
        raise ApiError(400, "VALIDATION_ERROR", message, errors=errors)


def _in_minor_units(value: Decimal) -> str:
    meant = value * 100
    hint = f": did you mean {meant.to_integral_value()}?" if meant == meant.to_integral_value() else ""
    return f"must have no fraction; amounts are in centavos{hint}"


def _in_both_units(value: Decimal, currency: str | None) -> str:
    """Returns what an amount with a fraction means, and what to send if it was written in the major unit."""
    unit = "" if currency is None else f"{currency} "
    as_sent = f"{value:.2f}" if is_multiple(value, _CENT) else plain(value)
    problem = f"is in minor units: {as_sent} is {unit}{plain(value / 100)}"
    meant = value * 100
    if meant != meant.to_integral_value():
        return problem if unit else f"{problem} in the major unit"
    if unit:
        return f"{problem}; {unit}{value:,.2f} is {plain(meant)}"
    return f"{problem} in the major unit; {value:,.2f} in the major unit is {plain(meant)}"


def measure(raw: Raw | UnsetType, field: str) -> Decimal:
    """Returns a quantity or a rate: like an amount, but with up to six decimals, as the tax authority writes them
    (0.106667).

    Raises ApiError (400).
    """
    if raw is UNSET:
        raise required(field)
    parsed = _measure(str(raw, "ascii", "replace"))
    if parsed is None:
        raise _no_number(raw, field, "with at most 12 digits and 6 decimals, written without an exponent")
    return parsed


# A merchant's catalogue has few prices, quantities and rates, which recur.
@lru_cache(maxsize=4096)
def _amount(text: str) -> Decimal | None:
    parsed = parse_amount(text)
    return None if parsed is None or parsed > AMOUNT_MAX else parsed


@lru_cache(maxsize=4096)
def _measure(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= 32 and _MEASURE.fullmatch(text) else None


def _no_number(raw: Raw, field: str, bounds: str) -> Exception:
    first = bytes(raw)[:1]
    if first == b"n":
        return required(field)
    if first == b"-":
        return invalid(field, "must not be negative", "OUT_OF_RANGE")
    if not first.isdigit():
        return invalid(field, "must be a number", "INVALID_TYPE")
    return invalid(field, f"must be a number {bounds}", "OUT_OF_RANGE")


def is_given(raw: Raw | UnsetType) -> bool:
    """Returns whether the field came with a value other than null."""
    return raw is not UNSET and bytes(raw) != b"null"


def printable(text: OptionalText, field: str) -> OptionalText:
    """Returns an id that the merchant chose: any printable characters, `/` included (section 8.7), not spaces alone.

    Raises ApiError (400).
    """
    if text is not None:
        if not text.isprintable():
            raise invalid(field, "must consist of printable characters", "INVALID_FORMAT")
        if text.isspace():
            raise invalid(field, "must not be blank", "INVALID_FORMAT")
    return text


def phone(text: str, field: str) -> str:
    """Returns a phone number as it was sent, in any notation that has a digit. Raises ApiError (400)."""
    if _DIGITS.isdisjoint(text):
        raise invalid(field, "must be a phone number, such as +525512345678", "INVALID_FORMAT")
    return text


def email(text: str, field: str) -> str:
    """Returns a valid e-mail address as it was sent. Raises ApiError (400), also for reserved domains such as
    `.test`.
    """
    if not _is_email(text):
        raise invalid(field, "must be an e-mail address", "INVALID_FORMAT")
    return text


@lru_cache(maxsize=4096)
def _is_email(text: str) -> bool:
    try:
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return False
    return True


def tax_id(text: str, field: str) -> str:
    """Returns a Mexican tax number (RFC) of a company (12 characters) or a person (13) in upper case. Raises ApiError
    (400).

    Warns of a check digit that does not fit: SAT has registered a few such numbers.
    """
    compact = _rfc(text)
    if compact is None:
        raise invalid(field, "must be an RFC of 12 or 13 characters", "INVALID_FORMAT")
    if not _fits(compact):
        warn(
            field,
            WarningCode.RFC_CHECK_DIGIT,
            "has a check digit that does not fit: make sure that it is the payer's RFC",
        )
    return compact


@lru_cache(maxsize=4096)
def _rfc(text: str) -> str | None:
    compact = str(rfc.compact(text))
    return compact if len(compact) in (12, 13) and rfc.is_valid(compact) else None


@lru_cache(maxsize=4096)
def _fits(compact: str) -> bool:
    return compact in _WITHOUT_CHECK_DIGIT or compact[-1] == rfc.calc_check_digit(compact[:-1])


_YEARS: Final = "must lie in the years 1 to 9999, also in UTC"


def moment(value: datetime, field: str, now: datetime, bounds: str = _YEARS) -> datetime:
    """Returns a time in UTC. A time without an offset is in the merchant's time zone, which is that of `now`.

    Raises ApiError (400), with `bounds` if no time in UTC is the same.
    """
    try:
        return (value if value.tzinfo else value.replace(tzinfo=now.tzinfo)).astimezone(UTC)
    except (OverflowError, ValueError):
        raise invalid(field, bounds, "OUT_OF_RANGE") from None


def with_plus_sign(text: str) -> str:
    """Returns a time of a query with the plus sign of its offset, which arrives as a space if it was not encoded."""
    return _LOST_PLUS.sub(r"+\1", text) if "T" in text else text


def day_or_moment(text: str, field: str, now: datetime, at: time, bounds: str = _YEARS) -> datetime:
    """Returns the time in a text, in UTC. A day is its time `at`, in the merchant's time zone, which is that of `now`
    (contract N21). Raises ApiError (400), with `bounds` as `moment` does.
    """
    try:
        if _DAY.fullmatch(text):
            return moment(datetime.combine(date.fromisoformat(text), at), field, now, bounds)
        return moment(msgspec.convert(text, datetime), field, now, bounds)
    except (ValueError, msgspec.ValidationError):
        raise invalid(field, "must be a date or an ISO 8601 date-time", "INVALID_FORMAT") from None
