"""The payment method of a request: its type, and for a card its tokens, or the card's data from either place and
spelling (N10, N11).

Pass the number and the CVC on inside `Card` only, which prints as stars. The `CardSummary` is what may be stored of
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from api.decoding.field_errors import FieldErrors
from api.decoding.types import CARD_TOKENS_MAX, CardNumber, Cvc, Id, Month, Text, Token, Year, alias_of
from api.errors import card_number_not_accepted, conflicting, invalid, required
from api.fields.values import one_of_aliases, printable
from ledger.domain.merchants.settings import CardEntry, MerchantSettings
from ledger.domain.orders.terms import CardSummary, MethodType
from ledger.operations.context.inputs import AccountToken, PaymentInput
from ledger.processors.bins import bin_info
from ledger.processors.contract import Card, CardToken
from ledger.processors.pan_detection import passes_luhn
from ledger.processors.saved_card import SecurityCode

_Type = Literal["card", "payment_method_id", "spei", "paycash", "cie_cash_net"]


class CardDetails(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A card as the payer entered it."""

    number: Annotated[CardNumber | None, Meta(description="13 to 19 digits.", examples=["4242424242424242"])] = None
    expiry_month: Annotated[Month | None, Meta(description="1 or 01 to 12.", examples=["12"])] = None
    exp_month: Annotated[Month | None, alias_of("expiryMonth")] = None
    expiry_year: Annotated[Year | None, Meta(description="Two or four digits.", examples=["30", "2030"])] = None
    exp_year: Annotated[Year | None, alias_of("expiryYear")] = None
    cvc: Annotated[Cvc | None, Meta(description="3 or 4 digits. Never stored.", examples=["123"])] = None
    cardholder_name: Annotated[Text | None, Meta(description="As printed on the card.")] = None
    persist: Annotated[bool | None, alias_of("paymentMethod.persist")] = None

    def __repr__(self) -> str:
        return "CardDetails(***)"


class MethodOptions(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The older way to send the data of a card."""

    card: Annotated[CardDetails | None, alias_of("paymentMethod.cardDetails")] = None
    persist: Annotated[bool | None, alias_of("paymentMethod.persist")] = None


class TokenOfCard(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A card by a token: the payer's browser gives the number to the processor alone."""

    account: Annotated[
        Id,
        Meta(description="The account whose processor made the token, by its name.", examples=["sandbox"]),
    ]
    token: Annotated[Token, Meta(description="The token. It is in no event and no answer.")]

    def __repr__(self) -> str:
        return "TokenOfCard(***)"


class PaymentMethod(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A payment method. `card` requires cardTokens or cardDetails, `payment_method_id` requires paymentMethodId; the
    other types require no further field.
    """

    type: Annotated[
        _Type,
        Meta(description="A card, a saved card, a bank transfer, or cash by reference."),
    ]
    card_details: Annotated[CardDetails | None, Meta(description="The card by its number, for type card.")] = None
    card_tokens: Annotated[
        Annotated[list[TokenOfCard], Meta(max_length=CARD_TOKENS_MAX)] | None,
        Meta(
            description="The card by tokens, for type card: one for each account that may be asked to charge it. The "
            "first connected account that can take the payment is asked."
        ),
    ] = None
    options: Annotated[MethodOptions | None, Meta(description="Alias of cardDetails, as options.card.")] = None
    persist: Annotated[
        bool | None,
        Meta(
            description="True saves the card for later payments: its number, or in the case of cardTokens with the "
            "processor that approves the payment."
        ),
    ] = None
    installments: Annotated[
        Literal[3, 6, 9, 12, 18, 24] | None,
        Meta(
            description="In how many months the payer pays without interest (meses sin intereses): pesos and Mexican "
            "credit cards. The card's bank has to offer it."
        ),
    ] = None
    payment_method_id: Annotated[Id | None, Meta(description="The saved method, for type payment_method_id.")] = None
    cvc: Annotated[Cvc | None, Meta(description="CVC of the saved card. Never stored.")] = None

    def __repr__(self) -> str:
        return f"PaymentMethod({self.type})"


_METHOD: Final = "paymentMethod"
_CARD: Final = "paymentMethod.cardDetails"
_NUMBER: Final = re.compile(r"[0-9]{13,19}")
_TOKENS: Final = "paymentMethod.cardTokens"
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+")
_CVC: Final = re.compile(r"[0-9]{3,4}")
_REFERENCES: Final = {
    "spei": MethodType.SPEI,
    "paycash": MethodType.PAYCASH,
    "cie_cash_net": MethodType.CIE_CASH_NET,
}


def payment_method(method: PaymentMethod, today: date, errors: FieldErrors) -> PaymentInput | None:
    """Returns the payment that the method describes, before its amount and its order; None if the method is wrong.

    Adds the errors of its fields. `today` decides whether a card has expired: a card is valid until the end of its
    month.
    """
    if method.cvc is not None:
        errors.check(_cvc, method.cvc, "paymentMethod.cvc")
    if method.installments is not None and method.type in _REFERENCES:
        errors.add(invalid(f"{_METHOD}.installments", "is for cards alone: leave it out"))
    parsed = _parsed(method, today, errors)
    months = None if errors.has(f"{_METHOD}.installments") else method.installments
    return None if parsed is None else replace(parsed, installments=months)


def _parsed(method: PaymentMethod, today: date, errors: FieldErrors) -> PaymentInput | None:
    if method.card_tokens is not None:
        return _by_tokens(method, method.card_tokens, errors)
    if method.type == "card":
        return _card_method(method, today, errors)
    for unused in (method.card_details, method.options and method.options.card):
        if unused:
            _check_unused_card(unused, errors)
    if method.type == "payment_method_id":
        return _saved_method(method, errors)
    kind = _REFERENCES.get(method.type)  # the type is UNSET if it is wrong
    return None if kind is None else PaymentInput(type=kind)


def require_card_entry(settings: MerchantSettings, payment: PaymentInput | None) -> None:
    """Raises ApiError (400) for a card number or a security code if the merchant's cards come as tokens alone."""
    if settings.card_entry is CardEntry.NUMBERS or payment is None:
        return
    if isinstance(payment.card, Card):
        raise card_number_not_accepted(f"{_CARD}.number")
    if payment.saved_cvc is not None:
        raise card_number_not_accepted("paymentMethod.cvc")


def stored_part(method: PaymentMethod) -> PaymentMethod:
    """Returns the method with the texts that its kind of payment stores."""
    if method.type == "card":
        return replace(method, payment_method_id=None)
    if method.type == "payment_method_id":
        return replace(method, card_details=None, options=None)
    return PaymentMethod(type=method.type) if method.type in _REFERENCES else method


def sent_pan(method: PaymentMethod | None) -> str | None:
    """Returns the card number as the request has it, or None if no CVC came with it."""
    if method is None:
        return None
    card = method.card_details or (method.options.card if method.options else None)
    return card.number if card and card.cvc is not None else None


def _saved_method(method: PaymentMethod, errors: FieldErrors) -> PaymentInput | None:
    if method.payment_method_id is None:
        errors.add(required("paymentMethod.paymentMethodId"))
        return None
    saved = errors.check(printable, method.payment_method_id, "paymentMethod.paymentMethodId")
    cvc = None if method.cvc is None else SecurityCode(method.cvc)
    return PaymentInput(type=MethodType.CARD, saved_method_id=saved, saved_cvc=cvc)


def _by_tokens(method: PaymentMethod, sent: Sequence[TokenOfCard], errors: FieldErrors) -> PaymentInput | None:
    before = len(errors)
    if method.type != "card" and not errors.has("paymentMethod.type"):
        errors.add(invalid(_TOKENS, "is for the type card alone: leave it out"))
    if method.card_details is not None or method.options is not None:
        number = _CARD if method.card_details is not None else "paymentMethod.options"
        errors.add(conflicting(_TOKENS, number, "exclude each other: send the card once"))
    _refuse_saved(method, _TOKENS, errors)
    if method.cvc is not None:
        errors.add(invalid(f"{_METHOD}.cvc", "is for a saved card alone: the token has it, so leave it out"))
    if not sent:
        errors.add(invalid(_TOKENS, "must have a token"))
    tokens = dict[str, AccountToken]()
    for n, each in enumerate(sent):
        place = f"{_TOKENS}[{n}]"
        if errors.has(place):
            continue
        if not _TOKEN.fullmatch(each.token):
            errors.add(invalid(f"{place}.token", "must have letters, digits, _ and - alone", "INVALID_FORMAT"))
        if each.account in tokens:
            errors.add(invalid(f"{place}.account", "has a token already: send one for each account"))
        tokens[each.account] = AccountToken(account=each.account, token=CardToken(token=each.token))
    if len(errors) != before:
        return None
    return PaymentInput(type=MethodType.CARD, card_tokens=tuple(tokens.values()), persist=bool(method.persist))


def _refuse_saved(method: PaymentMethod, other: str, errors: FieldErrors) -> None:
    """Adds the error of a saved card beside another one: the ledger does not choose between them."""
    if method.type == "card" and method.payment_method_id is not None:
        why = "exclude each other: send one card, a saved one with the type payment_method_id"
        errors.add(conflicting(f"{_METHOD}.paymentMethodId", other, why))


def _card_method(method: PaymentMethod, today: date, errors: FieldErrors) -> PaymentInput | None:
    option = None if method.options is None else method.options.card
    details = method.card_details or option
    if details is None:
        if method.payment_method_id is not None:
            errors.add(invalid(f"{_METHOD}.type", "must be payment_method_id to charge a saved card"))
        elif not errors.has(_TOKENS):
            errors.add(invalid(_TOKENS, "is required, or cardDetails if settings.cardEntry is NUMBERS", "REQUIRED"))
        return None
    if option is not None and option is not details:
        details = _merged(details, option)
    _refuse_saved(method, _CARD if method.card_details is not None else f"{_METHOD}.options", errors)
    number = errors.check(_number, details.number)
    cvc = errors.check(_card_cvc, details.cvc)
    expiry = _expiry(details, today, errors)
    persist = method.persist
    if details.persist is not None or method.options is not None:
        persist = errors.check(_persist, method, details)
    if option is not None and method.card_details is not None:
        _require_one_card(method.card_details, option, errors)
    if number is None or cvc is None or expiry is None or errors.has(f"{_METHOD}.paymentMethodId"):
        return None
    month, year = expiry
    card = Card(number=number, exp_month=month, exp_year=year, cvc=cvc, cardholder_name=details.cardholder_name)
    return PaymentInput(type=MethodType.CARD, card=card, card_summary=_summary(card), persist=bool(persist))


def _persist(method: PaymentMethod, details: CardDetails) -> bool | None:
    persist = one_of_aliases("paymentMethod.persist", method.persist, f"{_CARD}.persist", details.persist)
    option = None if method.options is None else method.options.persist
    return one_of_aliases("paymentMethod.persist", persist, "paymentMethod.options.persist", option)


def _check_unused_card(card: CardDetails, errors: FieldErrors) -> None:
    """Adds the errors of a card that came with another method: the payment does not use it, but it is refused."""
    if card.number is not None:
        errors.check(_number, card.number)
    if card.cvc is not None:
        errors.check(_card_cvc, card.cvc)
    for month, year in ((card.expiry_month, card.expiry_year), (card.exp_month, card.exp_year)):
        errors.check(_month, month)
        errors.check(_year, year)


def _merged(details: CardDetails, option: CardDetails) -> CardDetails:
    """Returns the card from `cardDetails` and `options.card`; where they differ, that of `cardDetails`."""
    both = {name: (getattr(details, name), getattr(option, name)) for name in CardDetails.__struct_fields__}
    return CardDetails(**{name: other if one is None else one for name, (one, other) in both.items()})


def _require_one_card(details: CardDetails, option: CardDetails, errors: FieldErrors) -> None:
    """Adds an error for each field that `cardDetails` and `options.card` have with different values."""
    for field, name in zip(CardDetails.__struct_fields__, CardDetails.__struct_encode_fields__, strict=True):
        place, other = f"{_CARD}.{name}", f"paymentMethod.options.card.{name}"
        errors.check(one_of_aliases, place, getattr(details, field), other, getattr(option, field))


def _number(typed: str | None) -> str:
    field = f"{_CARD}.number"
    if typed is None:
        raise required(field)
    number = typed.replace(" ", "").replace("-", "")
    if not _NUMBER.fullmatch(number):
        raise invalid(field, "must have 13 to 19 digits", "INVALID_FORMAT")
    if not passes_luhn(number):
        raise invalid(field, "is not a valid card number", "INVALID_CARD_NUMBER")
    return number


def _cvc(typed: str, field: str) -> str:
    if not _CVC.fullmatch(typed):
        raise invalid(field, "must have 3 or 4 digits", "INVALID_FORMAT")
    return typed


def _card_cvc(typed: str | None) -> str:
    field = f"{_CARD}.cvc"
    if typed is None:
        raise required(field)
    return _cvc(typed, field)


def _expiry(details: CardDetails, today: date, errors: FieldErrors) -> tuple[int, int] | None:
    """Returns the month (1 to 12) and the four-digit year, from numbers or strings, `1` or `01`, `27` or `2027`.

    Adds the errors of the two.
    """
    month = None if errors.has(f"{_CARD}.expMonth") else errors.check(_expiry_month, details)
    year = None if errors.has(f"{_CARD}.expYear") else errors.check(_expiry_year, details)
    past = "is in the past: the card has expired"
    if year is not None and year < today.year:  # whatever the month is
        errors.add(invalid(f"{_CARD}.expiryYear", past, "CARD_EXPIRED"))
    elif year == today.year and month is not None and month < today.month:
        errors.add(invalid(f"{_CARD}.expiryMonth", past, "CARD_EXPIRED"))
    return None if month is None or year is None else (month, year)


def _expiry_month(details: CardDetails) -> int:
    field = f"{_CARD}.expiryMonth"
    month = one_of_aliases(field, _month(details.expiry_month), f"{_CARD}.expMonth", _month(details.exp_month))
    if month is None:
        raise required(field)
    return month


def _expiry_year(details: CardDetails) -> int:
    field = f"{_CARD}.expiryYear"
    year = one_of_aliases(field, _year(details.expiry_year), f"{_CARD}.expYear", _year(details.exp_year))
    if year is None:
        raise required(field)
    return year


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
