"""A merchant's settings as an operator writes and reads them: `surchargeRate=3.5`, `paymentMethods=CARD,SPEI`.

Convert text to values of the right type here; leave the bounds of a value to `decide_settings`. The time zone is the
exception: it is looked up here, because deciders read no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from ledger.domain.merchants.events import InvoiceTrigger
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import InvalidField

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


def parse_settings(texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a `ChangeSettings` command from pairs of a public name and a text.

    Raises InvalidField with the public name where the name is unknown or the text cannot be converted.
    """
    fields = {}
    for name, text in texts.items():
        if name not in SETTINGS:
            raise InvalidField(name, f"is not a setting of a merchant; use one of {', '.join(SETTINGS)}")
        field, parse = SETTINGS[name]
        try:
            fields[field] = parse(text.strip())
        except (ValueError, KeyError, OSError):
            raise InvalidField(name, f"cannot be {text!r}") from None
    return fields


def settings_of(merchant: Merchant) -> dict[str, Any]:
    """Returns the merchant's settings as JSON values under their public names."""
    values = {name: getattr(merchant, field) for name, (field, _) in SETTINGS.items()}
    return msgspec.to_builtins(values)  # type: ignore[no-any-return]


def _rate(text: str) -> Decimal | None:
    if text.lower() in _NOTHING:
        return None
    if not re.fullmatch(r"\d{1,3}(\.\d{1,8})?", text, re.ASCII):
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


def _trigger(text: str) -> InvoiceTrigger:
    return InvoiceTrigger(text.upper())


SETTINGS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "surchargeRate": ("surcharge_rate", _rate),
    "surchargeMethods": ("surcharge_methods", _methods),
    "timeZone": ("time_zone", _zone),
    "paymentMethods": ("payment_methods", _methods),
    "requireMerchantHeader": ("require_merchant_header", _switch),
    "requestsPerMinute": ("requests_per_minute", _whole),
    "requestsPerSecond": ("requests_per_second", _whole),
    "captureDelaySeconds": ("capture_delay_seconds", _whole),
    "invoiceTrigger": ("invoice_trigger", _trigger),
    "refundOverpayment": ("refund_overpayment", _switch),
}
"""Every setting by its public name: the field of `ChangeSettings`, and the function that converts its text."""
