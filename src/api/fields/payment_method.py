"""The payment method of a request: its type, and for a card the card's data from either place and spelling (N10, N11).

Pass the number and the CVC on inside `Card` only, which prints as stars. The `CardSummary` is what may be stored of
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace
from stdnum import luhn

from api.decoding.field_errors import FieldErrors
from api.decoding.types import CardNumber, Cvc, Id, Month, Text, Year
from api.errors import invalid, required
from api.fields.values import one_of_aliases, printable
from ledger.domain.orders.terms import CardSummary, MethodType
from ledger.operations.context.inputs import PaymentInput
from ledger.processors.bins import bin_info
from ledger.processors.contract import Card
from ledger.processors.saved_card import SecurityCode

_Type = Literal["card", "payment_method_id", "spei", "paycash", "cie_cash_net"]


class CardDetails(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A card as the payer entered it."""

    number: Annotated[CardNumber | None, Meta(description="13 to 19 digits.", examples=["4242424242424242"])] = None
    expiry_month: Annotated[Month | None, Meta(description="1 or 01 to 12.", examples=["12"])] = None
    exp_month: Annotated[Month | None, Meta(description="Alias of expiryMonth.")] = None
    expiry_year: Annotated[Year | None, Meta(description="Two or four digits.", examples=["30", "2030"])] = None
    exp_year: Annotated[Year | None, Meta(description="Alias of expiryYear.")] = None
    cvc: Annotated[Cvc | None, Meta(description="3 or 4 digits. Never stored.", examples=["123"])] = None
    cardholder_name: Annotated[Text | None, Meta(description="As printed on the card.")] = None
    persist: Annotated[bool | None, Meta(description="Alias of paymentMethod.persist.")] = None

    def __repr__(self) -> str:
        return "CardDetails(***)"


class MethodOptions(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The older way to send the data of a card."""

    card: Annotated[CardDetails | None, Meta(description="Alias of paymentMethod.cardDetails.")] = None
    persist: Annotated[bool | None, Meta(description="Alias of paymentMethod.persist.")] = None


class PaymentMethod(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A payment method. `card` requires cardDetails, `payment_method_id` requires paymentMethodId; the other types
    require no further field.
    """

    type: Annotated[
        _Type,
        Meta(description="A card, a saved card, a bank transfer, or cash by reference."),
    ]
    card_details: Annotated[CardDetails | None, Meta(description="The card, for type card.")] = None
    options: Annotated[MethodOptions | None, Meta(description="Alias of cardDetails, as options.card.")] = None
    persist: Annotated[bool | None, Meta(description="True saves the card for later payments.")] = None
    payment_method_id: Annotated[Id | None, Meta(description="The saved method, for type payment_method_id.")] = None
    cvc: Annotated[Cvc | None, Meta(description="CVC of the saved card. Never stored.")] = None

    def __repr__(self) -> str:
        return f"PaymentMethod({self.type})"


_CARD: Final = "paymentMethod.cardDetails"
_NUMBER: Final = re.compile(r"[0-9]{13,19}")
_CVC: Final = re.compile(r"[0-9]{3,4}")
_REFERENCES: Final = {
    "spei": MethodType.SPEI,
    "paycash": MethodType.PAYCASH,
    "cie_cash_net": MethodType.CIE_CASH_NET,
}
_NO_OPTIONS: Final = MethodOptions()
_RIGHT_CARD: Final = CardDetails(number="4242424242424242", expiry_month=12, expiry_year=2099, cvc="000")


def payment_method(method: PaymentMethod, today: date) -> PaymentInput:
    """Returns the payment that the method describes, before its amount and its order. Raises ApiError (400).

    `today` decides whether a card has expired: a card is valid until the end of its month.
    """
    if method.cvc is not None:
        _cvc(method.cvc, "paymentMethod.cvc")
    if method.type == "card":
        return _card_method(method, today)
    for unused in (method.card_details, method.options and method.options.card):
        if unused:
            _check_unused_card(unused)
    if method.type == "payment_method_id":
        return _saved_method(method)
    return PaymentInput(type=_REFERENCES[method.type])


def check_payment_method(method: PaymentMethod, today: date, errors: FieldErrors) -> None:
    """Adds every error of a payment method, whose type is UNSET where it is wrong."""
    cards = [card for card in (method.card_details, method.options and method.options.card) if card]
    errors.check_alone(lambda alone: payment_method(alone, today), method, PaymentMethod(type="spei"), ("cvc",))
    if method.type == "card" and cards:
        _check_card(method, _merged(cards), today, errors)
        errors.check(_one_card, cards[0], cards[-1])
        return
    for card in cards:
        names = ("number", "cvc", "expiry_month", "exp_month", "expiry_year", "exp_year")
        errors.check_alone(_check_unused_card, card, CardDetails(), *((name,) for name in names))
    if method.type in get_args(_Type):
        errors.check(payment_method, replace(method, cvc=None, card_details=None, options=None), today)


def _check_card(method: PaymentMethod, details: CardDetails, today: date, errors: FieldErrors) -> None:
    months, years = ("expiry_month", "exp_month"), ("expiry_year", "exp_year")
    groups = [("number",), ("cvc",), months, years]
    if errors.has(f"{_CARD}.expMonth"):
        groups.remove(months)
    if errors.has(f"{_CARD}.expYear"):
        groups.remove(years)
    if {months, years}.issubset(groups):
        groups.append((*months, *years))
    errors.check_alone(
        lambda alone: _card_method(PaymentMethod(type="card", card_details=alone), today), details, _RIGHT_CARD, *groups
    )
    options = None if method.options is None else replace(method.options, card=None)
    right = replace(_RIGHT_CARD, persist=details.persist)
    errors.check(_card_method, replace(method, card_details=right, options=options), today)


def _merged(cards: Sequence[CardDetails]) -> CardDetails:
    """Returns the card from both places, the first of them where they differ."""
    sent = [(name, getattr(card, name)) for card in reversed(cards) for name in card.__struct_fields__]
    return CardDetails(**{name: value for name, value in sent if value is not None})


def stored_part(method: PaymentMethod) -> PaymentMethod:
    """Returns the method with the texts that its kind of payment stores."""
    if method.type == "card":
        return replace(method, payment_method_id=None)
    return replace(method, card_details=None, options=None) if method.type in get_args(_Type) else method


def right_method(method: PaymentMethod) -> PaymentMethod:
    """Returns a method of the same kind that is accepted, for what a request needs beside its method."""
    return PaymentMethod(type="card", card_details=_RIGHT_CARD) if method.type == "card" else PaymentMethod(type="spei")


def sent_pan(method: PaymentMethod | None) -> str | None:
    """Returns the card number as the request has it, None where no CVC came with it."""
    if method is None:
        return None
    card = method.card_details or (method.options.card if method.options else None)
    return card.number if card and card.cvc is not None else None


def _saved_method(method: PaymentMethod) -> PaymentInput:
    if method.payment_method_id is None:
        raise required("paymentMethod.paymentMethodId")
    saved = printable(method.payment_method_id, "paymentMethod.paymentMethodId")
    cvc = None if method.cvc is None else SecurityCode(method.cvc)
    return PaymentInput(type=MethodType.CARD, saved_method_id=saved, saved_cvc=cvc)


def _card_method(method: PaymentMethod, today: date) -> PaymentInput:
    options = method.options or _NO_OPTIONS
    details = _one_card(method.card_details, options.card)
    persist = one_of_aliases("paymentMethod.persist", method.persist, f"{_CARD}.persist", details.persist)
    persist = one_of_aliases("paymentMethod.persist", persist, "paymentMethod.options.persist", options.persist)
    number = _number(details.number)
    month, year = _expiry(details, today)
    if details.cvc is None:
        raise required(f"{_CARD}.cvc")
    card = Card(
        number=number,
        exp_month=month,
        exp_year=year,
        cvc=_cvc(details.cvc, f"{_CARD}.cvc"),
        cardholder_name=details.cardholder_name,
    )
    return PaymentInput(type=MethodType.CARD, card=card, card_summary=_summary(card), persist=bool(persist))


def _check_unused_card(card: CardDetails) -> None:
    """Validates a card that came with another method: the payment does not use it, but a malformed one is refused."""
    if card.number is not None:
        _number(card.number)
    if card.cvc is not None:
        _cvc(card.cvc, f"{_CARD}.cvc")
    for month, year in ((card.expiry_month, card.expiry_year), (card.exp_month, card.exp_year)):
        _month(month)
        _year(year)


def _one_card(details: CardDetails | None, option: CardDetails | None) -> CardDetails:
    """Returns the card from `cardDetails` and `options.card`, merged field by field."""
    if option is None:
        if details is None:
            raise required(_CARD)
        return details
    if details is None:
        return option
    merged = {}
    for field, name in zip(CardDetails.__struct_fields__, CardDetails.__struct_encode_fields__, strict=True):
        place, other = f"{_CARD}.{name}", f"paymentMethod.options.card.{name}"
        merged[field] = one_of_aliases(place, getattr(details, field), other, getattr(option, field))
    return CardDetails(**merged)


def _number(typed: str | None) -> str:
    field = f"{_CARD}.number"
    if typed is None:
        raise required(field)
    number = typed.replace(" ", "").replace("-", "")
    if not _NUMBER.fullmatch(number):
        raise invalid(field, "must have 13 to 19 digits", "INVALID_FORMAT")
    if not luhn.is_valid(number):
        raise invalid(field, "is not a valid card number", "INVALID_CARD_NUMBER")
    return number


def _cvc(typed: str, field: str) -> str:
    if not _CVC.fullmatch(typed):
        raise invalid(field, "must have 3 or 4 digits", "INVALID_FORMAT")
    return typed


def _expiry(details: CardDetails, today: date) -> tuple[int, int]:
    """Returns the month (1 to 12) and the four-digit year, from numbers or strings, `1` or `01`, `27` or `2027`."""
    month_at, year_at = f"{_CARD}.expiryMonth", f"{_CARD}.expiryYear"
    month = one_of_aliases(month_at, _month(details.expiry_month), f"{_CARD}.expMonth", _month(details.exp_month))
    year = one_of_aliases(year_at, _year(details.expiry_year), f"{_CARD}.expYear", _year(details.exp_year))
    if month is None:
        raise required(month_at)
    if year is None:
        raise required(year_at)
    if (year, month) < (today.year, today.month):
        raise invalid(
            year_at if year < today.year else month_at, "is in the past: the card has expired", "CARD_EXPIRED"
        )
    return month, year


def _month(typed: str | int | None) -> int | None:
    if typed is None:
        return None
    text = str(typed)
    if len(text) <= 2 and text.isascii() and text.isdigit() and 1 <= int(text) <= 12:
        return int(text)
    raise invalid(f"{_CARD}.expiryMonth", "must be a month from 1 to 12", "INVALID_FORMAT")


def _year(typed: str | int | None) -> int | None:
    if typed is None:
        return None
    text = str(typed)
    if text.isascii() and text.isdigit() and (len(text) == 2 or (len(text) == 4 and text.startswith("20"))):
        return 2000 + int(text[-2:])
    raise invalid(f"{_CARD}.expiryYear", "must be a year of two or four digits", "INVALID_FORMAT")


def _summary(card: Card) -> CardSummary:
    brand, kind, country, issuer_bank = bin_info(card.number)
    return CardSummary(
        bin=card.number[:6],
        last4=card.number[-4:],
        brand=brand,
        type=kind,
        country=country,
        issuer_bank=issuer_bank,
        exp_month=card.exp_month,
        exp_year=card.exp_year,
        cardholder_name=card.cardholder_name,
    )
