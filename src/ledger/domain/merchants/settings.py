"""A merchant's settings: their public names, their text form (`surchargeRate=3.5`, `paymentMethods=CARD,SPEI`), and
the bounds of their values.

Convert texts to values here only, and check bounds by `out_of_bounds` only: every reader of a setting relies on both.
The time zone is looked up during the conversion, because deciders read no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from ledger.domain.merchants.commands import ChangeSettings
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.invoices.terms import InvoiceTrigger
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import InvalidField

_RATE_MAX: Final = 50  # at 50 % a surcharge can round up to the subtotal, and half a capture could cover the order
_REQUESTS_MAX: Final = 1_000_000

EXCHANGE_RATE_MAX: Final = 1_000_000
"""The largest exchange rate, in pesos for one unit of a foreign currency."""
DUE_DAY_MAX: Final = 28
"""The last day that every month has."""

DELAY_MAX_S: Final = 7 * 24 * 3600
"""The longest delay of a capture: as long as an authorisation is valid (contract 2.1)."""

DAYS_MAX: Final = 90
REMINDERS_MAX: Final = 5
"""How many days before a due date a payer can be reminded, and how often."""

_NOTHING: Final = frozenset({"", "null", "none", "off"})
_SWITCH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Setting(NamedTuple):
    """A setting: the field of `ChangeSettings`, the function that converts its text, and the values that it takes.

    `choices` completes the setting's name, as in "timeZone" "must be …".
    """

    field: str
    parse: Callable[[str], Any]
    choices: str


def parse_settings(texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a `ChangeSettings` command from pairs of a public name and a text.

    Raises InvalidField with the public name where the name is unknown or the text cannot be converted.
    """
    fields = {}
    for name, text in texts.items():
        if name not in SETTINGS:
            raise InvalidField(name, f"is not a setting of a merchant; use one of {', '.join(SETTINGS)}")
        try:
            fields[SETTINGS[name].field] = parse_setting(name, text)
        except InvalidField as refused:
            raise InvalidField(name, f"cannot be {text!r}: it {refused.problem}") from None
    return fields


def parse_setting(name: str, text: str) -> Any:
    """Returns the value of a setting from its text. Raises InvalidField, which does not repeat the text."""
    _, parse, choices = SETTINGS[name]
    try:
        return parse(text.strip())
    except (ValueError, KeyError, OSError):
        raise InvalidField(name, choices) from None


def out_of_bounds(command: ChangeSettings) -> list[InvalidField]:
    """Returns what is wrong with the values of a command, under the settings' public names."""
    wrong = []
    for name, setting in SETTINGS.items():
        value = getattr(command, setting.field)
        if value is not UNSET and not _IS_ALLOWED.get(setting.field, _any)(value):
            wrong.append(InvalidField(name, setting.choices))
    return wrong


def settings_of(merchant: Merchant) -> dict[str, Any]:
    """Returns the merchant's settings as JSON values under their public names."""
    values = {name: getattr(merchant, field) for name, (field, _, _) in SETTINGS.items()}
    return msgspec.to_builtins(values)  # type: ignore[no-any-return]


def _rate(text: str) -> Decimal | None:
    if text.lower() in _NOTHING:
        return None
    if not re.fullmatch(r"\d{1,3}(\.\d{1,8})?", text, re.ASCII):
        raise ValueError(text)
    return Decimal(text)


def _pesos(text: str) -> Decimal | None:
    if text.lower() in _NOTHING:
        return None
    if not re.fullmatch(r"\d{1,7}(\.\d{1,12})?", text, re.ASCII):
        raise ValueError(text)
    return Decimal(text)


def _methods(text: str) -> tuple[MethodType, ...]:
    return tuple(MethodType(word.strip().upper()) for word in text.split(",") if word.strip())


def _zone(text: str) -> str:
    return ZoneInfo(text).key


def _switch(text: str) -> bool:
    return _SWITCH[text.lower()]


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ValueError(text)
    return int(text)


def _days(text: str) -> tuple[int, ...]:
    """Returns the days in the order of the reminders, each once."""
    if text.lower() in _NOTHING:
        return ()
    return tuple(sorted({_whole(word.strip()) for word in text.split(",")}, reverse=True))


def _trigger(text: str) -> InvoiceTrigger:
    return InvoiceTrigger(text.upper())


def _is_rate(rate: Decimal | None) -> bool:
    return rate is None or (rate.is_finite() and 0 <= rate < _RATE_MAX and rate == round(rate, 4))


def _is_exchange_rate(rate: Decimal | None) -> bool:
    return rate is None or (rate.is_finite() and 0 < rate <= EXCHANGE_RATE_MAX and rate == round(rate, 6))


def _are_days(days: tuple[int, ...]) -> bool:
    return len(days) <= REMINDERS_MAX and all(0 <= each <= DAYS_MAX for each in days)


def _any(_: Any) -> bool:
    return True


_METHODS: Final = f"must be a list of one or more of {', '.join(MethodType)}"
_LIMIT: Final = f"must be a whole number from 0 to {_REQUESTS_MAX}; 0 means unlimited"
_TRUE_OR_FALSE: Final = "must be true or false"

SETTINGS: Final[dict[str, Setting]] = {
    "surchargeRate": Setting(
        "surcharge_rate", _rate, f"must be a percentage below {_RATE_MAX} with at most four decimals, or none"
    ),
    "surchargeMethods": Setting("surcharge_methods", _methods, _METHODS),
    "timeZone": Setting("time_zone", _zone, "must be a time zone of the IANA database, such as America/Mexico_City"),
    "paymentMethods": Setting("payment_methods", _methods, _METHODS),
    "requireMerchantHeader": Setting("require_merchant_header", _switch, _TRUE_OR_FALSE),
    "requestsPerMinute": Setting("requests_per_minute", _whole, _LIMIT),
    "requestsPerSecond": Setting("requests_per_second", _whole, _LIMIT),
    "captureDelaySeconds": Setting("capture_delay_seconds", _whole, f"must be a whole number from 0 to {DELAY_MAX_S}"),
    "invoiceTrigger": Setting("invoice_trigger", _trigger, f"must be one of {', '.join(InvoiceTrigger)}"),
    "refundOverpayment": Setting("refund_overpayment", _switch, _TRUE_OR_FALSE),
    "fractionalAmounts": Setting("fractional_amounts", _switch, _TRUE_OR_FALSE),
    "exchangeRate": Setting(
        "exchange_rate",
        _pesos,
        f"must be pesos for one dollar, above 0 and at most {EXCHANGE_RATE_MAX}, with at most six decimals, or none",
    ),
    "receiptDueDay": Setting(
        "receipt_due_day", _whole, f"must be a day that every month has: a whole number from 1 to {DUE_DAY_MAX}"
    ),
    "reminderDays": Setting(
        "reminder_days", _days, f"must be at most {REMINDERS_MAX} whole numbers from 0 to {DAYS_MAX}, or none"
    ),
}
"""Every setting by its public name."""

INVOICE_TRIGGERS: Final = tuple(InvoiceTrigger)

SETTING_FIELDS: Final = tuple(setting.field for setting in SETTINGS.values())

_IS_ALLOWED: Final[dict[str, Callable[[Any], bool]]] = {
    "surcharge_rate": _is_rate,
    "surcharge_methods": bool,
    "payment_methods": bool,
    "requests_per_minute": lambda limit: 0 <= limit <= _REQUESTS_MAX,
    "requests_per_second": lambda limit: 0 <= limit <= _REQUESTS_MAX,
    "reminder_days": _are_days,
    "capture_delay_seconds": lambda seconds: 0 <= seconds <= DELAY_MAX_S,
    "exchange_rate": _is_exchange_rate,
    "receipt_due_day": lambda day: 1 <= day <= DUE_DAY_MAX,
}

CHOICES: Final = "; ".join(f"{name} {setting.choices}" for name, setting in SETTINGS.items())
"""The settings with the values that each takes, for the help of a command."""
