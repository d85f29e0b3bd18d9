"""A merchant's settings: each is declared in `MerchantSettings` alone, with its kind, its default and its description.

The command, the event, the row, the request and the answer of a merchant, the command line and the page of settings
are made from the declarations. Their names and their order are therefore part of the storage format: append a setting
at the end, never rename one, and never take one away.

Treat a default as published: it applies to every merchant that never changed the setting, so that a new one changes
the behaviour for all of them and has to be announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from ledger.domain.merchants.setting_kinds import (
    Address,
    Days,
    Kind,
    Methods,
    OneOf,
    Rate,
    RequestLimit,
    Series,
    Switch,
    TimeZone,
    Whole,
)
from ledger.domain.orders.invoices.terms import InvoiceFolio, InvoiceTrigger, PueRefund
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import InvalidField

_RATE_MAX: Final = 50  # at 50 % a surcharge can round up to the subtotal, and half a capture could cover the order
_REQUESTS_MAX: Final = 1_000_000
_DELAY_MAX_S: Final = 7 * 24 * 3600  # as long as an authorisation is valid (contract 2.1)
_DUE_DAY_MAX: Final = 28  # every month has it

EXCHANGE_RATE_MAX: Final = 1_000_000
"""The largest exchange rate, in pesos for one unit of a foreign currency."""

_SURCHARGE: Final = Rate(
    {"minimum": 0, "exclusiveMaximum": _RATE_MAX, "pattern": r"^[0-4]?[0-9](\.[0-9]{1,4})?$"},
    lambda rate: 0 <= rate < _RATE_MAX and rate == round(rate, 4),
    f"must be a percentage below {_RATE_MAX} with at most four decimals, or none",
)
_PESOS: Final = Rate(
    {"exclusiveMinimum": 0, "maximum": EXCHANGE_RATE_MAX, "pattern": r"^[0-9]{1,7}(\.[0-9]{1,6})?$"},
    lambda rate: 0 < rate <= EXCHANGE_RATE_MAX and rate == round(rate, 6),
    f"must be pesos for one dollar, above 0 and at most {EXCHANGE_RATE_MAX}, with at most six decimals, or none",
)
_REQUESTS: Final = RequestLimit(_REQUESTS_MAX)
_LIMIT: Final = (
    "The requests of a key per {}; 0 means unlimited, `null` the limit of the service. Only the operator changes it."
)


class UnknownFields(StrEnum):
    """What becomes of a field of a request that is unknown, and neither misspelt nor one that moves money elsewhere."""

    WARN = "WARN"
    REJECT = "REJECT"


class CardEntry(StrEnum):
    """How cards come into requests: as tokens of a processor alone, or with their numbers too."""

    TOKENS = "TOKENS"
    NUMBERS = "NUMBERS"


class MerchantSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """A merchant's settings, under the names that merchants and operators use.

    The surcharge rate is None until the merchant sets it: in Mexico a surcharge is unlawful for consumer sales
    (contract 4.1). The capture delay applies to card payments with payer authentication; others are captured at once.
    The due day of payment receipts is contract N47.
    """

    surcharge_rate: Annotated[
        Decimal | None,
        _SURCHARGE,
        Meta(
            description="Surcharge in percent, below 50, with at most four decimals; `null` for none. "
            "Orders keep the one they have.",
            examples=["3.5"],
        ),
    ] = None
    surcharge_methods: Annotated[
        tuple[MethodType, ...], Methods(), Meta(description="The payment methods that carry the surcharge.")
    ] = (MethodType.CARD,)
    payment_methods: Annotated[
        tuple[MethodType, ...],
        Methods(),
        Meta(description="The payment methods that the merchant accepts; another one is 422 METHOD_NOT_ENABLED."),
    ] = tuple(MethodType)
    time_zone: Annotated[
        str,
        TimeZone(),
        Meta(
            description="The time zone of dates without an offset: a name of the IANA database.",
            examples=["America/Tijuana"],
        ),
    ] = "America/Mexico_City"
    require_merchant_header: Annotated[
        bool, Switch(), Meta(description="Whether every request needs the header x-merchant-id.")
    ] = False
    requests_per_minute: Annotated[int | None, _REQUESTS, Meta(description=_LIMIT.format("minute"))] = None
    requests_per_second: Annotated[int | None, _REQUESTS, Meta(description=_LIMIT.format("second"))] = None
    capture_delay_seconds: Annotated[
        int,
        Whole(0, _DELAY_MAX_S),
        Meta(description="The seconds until an authenticated card payment is captured."),
    ] = 5
    invoice_trigger: Annotated[
        InvoiceTrigger,
        OneOf(InvoiceTrigger),
        Meta(description="When the invoice of a split order is stamped."),
    ] = InvoiceTrigger.FIRST_CAPTURE
    refund_overpayment: Annotated[bool, Switch(), Meta(description="Whether the excess of a deposit is refunded.")] = (
        False
    )
    fractional_amounts: Annotated[
        bool,
        Switch(),
        Meta(
            description="Whether amounts may have a fraction of a minor unit; false refuses 150.75 with a hint to 15075."
        ),
    ] = True
    exchange_rate: Annotated[
        Decimal | None,
        _PESOS,
        Meta(
            description="Pesos for one dollar, with at most six decimals: for the invoices of orders in dollars that "
            "bring no `exchangeRate`; `null` for none.",
            examples=["17.2545"],
        ),
    ] = None
    receipt_due_day: Annotated[
        int,
        Whole(1, _DUE_DAY_MAX, "must be a day that every month has:"),
        Meta(description="The day of the next month by which payment receipts (REP) are to be stamped."),
    ] = 5
    reminder_days: Annotated[
        tuple[int, ...],
        Days(count=5, most=90),
        Meta(
            description="How many days before an order's due date its payer is reminded, 0 for the due date itself; "
            "without days, payers get no message about it. Orders keep what applied at their creation.",
            examples=[[3, 0]],
        ),
    ] = (3, 0)
    pue_refund: Annotated[
        PueRefund,
        OneOf(PueRefund),
        Meta(
            description="What states the full refund of an order of one payment in the month of its invoice (PUE): a "
            "credit note, or the cancellation of the invoice. Orders keep what applied when they were invoiced."
        ),
    ] = PueRefund.CREDIT_NOTE
    unknown_fields: Annotated[
        UnknownFields,
        OneOf(UnknownFields),
        Meta(
            description="What becomes of a field of a body that is unknown: WARN accepts it and names it in `warnings`, "
            "REJECT refuses the request."
        ),
    ] = UnknownFields.WARN
    invoice_by_default: Annotated[
        bool,
        Switch(),
        Meta(
            description="Whether orders without `customerFiscalData` are invoiced to their customer if the customer has "
            "`fiscalData`. Renewals of subscriptions always are."
        ),
    ] = False
    invoice_series: Annotated[
        str | None,
        Series(),
        Meta(
            description="The series (SAT's Serie) of the documents, 1 to 20 letters and digits; `null`: that of the "
            "issuer. Orders keep what applied when they were invoiced.",
            examples=["WEB"],
        ),
    ] = None
    invoice_folio: Annotated[
        InvoiceFolio,
        OneOf(InvoiceFolio),
        Meta(
            description="What numbers the documents (SAT's Folio): the order's number, a counter of the series, or the "
            "order's `invoiceNumber`. Orders keep what applied when they were invoiced."
        ),
    ] = InvoiceFolio.ORDER_NUMBER
    card_entry: Annotated[
        CardEntry,
        OneOf(CardEntry),
        Meta(
            description="Whether requests may have card numbers: TOKENS accepts `cardTokens` and saved cards alone, and "
            "refuses a number with 400 CARD_NUMBER_NOT_ACCEPTED. Merchants in production begin with TOKENS."
        ),
    ] = CardEntry.NUMBERS
    alert_email: Annotated[
        str | None,
        Address(),
        Meta(
            description="Where the service writes to the merchant: when a webhook endpoint is disabled. `null`: nowhere.",
            examples=["it@shop.example.com"],
        ),
    ] = None


class Setting(NamedTuple):
    """A declared setting: its field of `MerchantSettings`, its public name, its type, kind, default and texts."""

    field: str
    name: str
    type: Any
    kind: Kind[Any]
    default: Any
    meta: Meta

    @property
    def stored(self) -> Any:
        """The type of the event's field."""
        return self.type if self.kind.stored is None else self.kind.stored

    @property
    def shown(self) -> Any:
        """The type of the member of an answer."""
        return self.type if self.kind.shown is None else self.kind.shown


def _declared() -> Iterable[Setting]:
    for each in msgspec.structs.fields(MerchantSettings):
        type_, kind, meta = get_args(each.type)
        yield Setting(each.name, each.encode_name, type_, kind, each.default, meta)


SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _declared()}
"""Every setting by its public name."""

CHOICES: Final = "; ".join(f"{name} {setting.kind.choices}" for name, setting in SETTINGS.items())
"""The settings with the values that each takes, for the help of a command."""

S = TypeVar("S", bound=Struct)


def with_settings(
    member: Callable[[Setting], tuple[Any, ...]], settings: Iterable[Setting] = SETTINGS.values()
) -> Callable[[type[S]], type[S]]:
    """Returns a decorator that gives a struct a field for each setting, after its own fields.

    `member` returns the type of the setting's field, and its default if it has one.
    """

    def add(struct: type[S]) -> type[S]:
        return msgspec.defstruct(  # type: ignore[return-value] # a struct with this base is of the base's type
            struct.__name__,
            [(setting.field, *member(setting)) for setting in settings],
            bases=(struct,),
            module=struct.__module__,
            namespace={"__doc__": struct.__doc__},
            kw_only=True,
        )

    return add


def from_texts(texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a `ChangeSettings` command from pairs of a public name and an operator's text.

    Raises InvalidField with the public name if the name is unknown or the text cannot be converted.
    """
    fields = {}
    for name, text in texts.items():
        setting = _named(name)
        try:
            fields[setting.field] = _converted(
                setting, lambda kind, text: kind.read(kind.from_text(text)), text.strip()
            )
        except InvalidField as refused:
            raise InvalidField(name, f"cannot be {text!r}: it {refused.problem}") from None
    return fields


def from_json(members: Mapping[str, Raw]) -> dict[str, Any]:
    """Returns the fields of a `ChangeSettings` command from the members of a JSON object. Raises like `from_texts`."""
    fields = {}
    for name, raw in members.items():
        setting = _named(name)
        fields[setting.field] = _converted(
            setting, lambda kind, raw: kind.read(msgspec.json.decode(raw, type=kind.sent)), raw
        )
    return fields


def from_sent(setting: Setting, value: Any) -> Any:
    """Returns a setting's value from a member of a request, which has the type `sent`.

    Raises InvalidField, also for a value that is out of bounds.
    """
    read = _converted(setting, lambda kind, value: kind.read(value), value)
    if not setting.kind.allows(read):
        raise InvalidField(setting.name, setting.kind.choices)
    return read


def given(change: Struct) -> list[tuple[Setting, Any]]:
    """Returns the settings that a command or an event gives, with their values."""
    values = ((setting, getattr(change, setting.field)) for setting in SETTINGS.values())
    return [(setting, value) for setting, value in values if value is not UNSET]


def _named(name: str) -> Setting:
    if name not in SETTINGS:
        meant = get_close_matches(name, SETTINGS, n=1)
        todo = f"did you mean {meant[0]}?" if meant else f"use one of {', '.join(SETTINGS)}"
        raise InvalidField(name, f"is not a setting of a merchant; {todo}")
    return SETTINGS[name]


def _converted(setting: Setting, convert: Callable[[Kind[Any], Any], Any], value: Any) -> Any:
    try:
        return convert(setting.kind, value)
    except (ValueError, KeyError, OSError):  # msgspec's refusals are among the first
        raise InvalidField(setting.name, setting.kind.choices) from None
