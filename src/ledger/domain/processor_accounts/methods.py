"""What a merchant leaves of the methods that a processor takes on an account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.money import plain
from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.terms import AccountMethod
from ledger.domain.rejections import InvalidField, refuse_fields


class MethodLimit(Struct, frozen=True, kw_only=True):
    """A method to which a merchant limits an account. What is None stays as the processor takes it."""

    type: MethodType
    currencies: tuple[str, ...] | None = None
    amount_min: Decimal | None = None
    amount_max: Decimal | None = None
    installments: tuple[int, ...] | None = None


def limited(methods: Sequence[AccountMethod], limits: Sequence[MethodLimit] | None) -> tuple[AccountMethod, ...]:
    """Returns what the limits leave of the methods that a processor takes; all of them if there are no limits.

    Raises InvalidField for a limit beyond what the processor takes, with all others in `others`.
    """
    if limits is None:
        return tuple(methods)
    left: list[AccountMethod] = []
    problems: list[InvalidField] = []
    for at, limit in enumerate(limits):
        found = list(_problems(f"methods[{at}]", methods, left, limit))
        problems += found
        if not found:
            left += [_within(method, limit) for method in _meant(methods, limit)]
    refuse_fields(problems)
    return tuple(left)


def _meant(methods: Iterable[AccountMethod], limit: MethodLimit) -> list[AccountMethod]:
    """Returns the methods that a limit is about: of its type, and in one of its currencies if it has some."""
    return [
        method
        for method in methods
        if method.type is limit.type
        and (limit.currencies is None or not set(limit.currencies).isdisjoint(method.currencies))
    ]


def _within(method: AccountMethod, limit: MethodLimit) -> AccountMethod:
    currencies = method.currencies
    if limit.currencies is not None:
        currencies = tuple(currency for currency in method.currencies if currency in limit.currencies)
    numbers = method.installments
    if limit.installments is not None:  # a limit without currencies is also about those in which there are none
        numbers = tuple(number for number in limit.installments if number in method.installments)
    return replace(
        method,
        currencies=currencies,
        amount_min=method.amount_min if limit.amount_min is None else limit.amount_min,
        amount_max=method.amount_max if limit.amount_max is None else limit.amount_max,
        installments=numbers,
    )


def _problems(
    place: str, methods: Sequence[AccountMethod], before: Sequence[AccountMethod], limit: MethodLimit
) -> Iterator[InvalidField]:
    """Yields what is wrong with a limit; `before` is what the limits before it have left."""
    types = dict.fromkeys(method.type for method in methods)
    if limit.type not in types:
        yield InvalidField(f"{place}.type", f"is not available on this account: use {', '.join(types) or 'none'}")
        return
    meant = _meant(methods, limit)
    of_type = {currency for method in methods if method.type is limit.type for currency in method.currencies}
    unknown = set(limit.currencies or ()) - of_type
    if unknown or not meant:
        yield InvalidField(f"{place}.currencies", f"must be among those of the account: {', '.join(sorted(of_type))}")
        return
    if _meant(before, limit):
        yield InvalidField(f"{place}.type", "repeats a method before it: name each method and currency once")
    least, most = max(method.amount_min for method in meant), min(method.amount_max for method in meant)
    lowest, highest = limit.amount_min, limit.amount_max
    if lowest is not None and lowest < least:
        yield InvalidField(f"{place}.amountMin", f"must be at least {plain(least)}, from which the processor takes it")
    if highest is not None and highest > most:
        yield InvalidField(f"{place}.amountMax", f"must be at most {plain(most)}, up to which the processor takes it")
    if lowest is not None and highest is not None and lowest > highest:
        yield InvalidField(f"{place}.amountMax", "must not be less than amountMin")
    elif lowest is not None and lowest > most:
        yield InvalidField(f"{place}.amountMin", f"must be at most {plain(most)}, up to which the processor takes it")
    elif highest is not None and highest < least:
        yield InvalidField(f"{place}.amountMax", f"must be at least {plain(least)}, from which the processor takes it")
    offered = {number for method in meant for number in method.installments}
    if not offered.issuperset(limit.installments or ()):
        numbers = ", ".join(map(str, sorted(offered))) or "none"
        yield InvalidField(f"{place}.installments", f"must be among those of the account: {numbers}")
