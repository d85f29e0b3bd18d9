"""What an account of a processor takes: the methods, and for each its currencies, amounts and instalments.

These fields are stored in the events of processors' accounts. Add a field only with a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ledger.domain.money import FINEST
from ledger.domain.orders.terms import MethodType
from ledger.domain.orders.validity import REFERENCE_S, REFUND_WINDOW_S


class MethodCapability(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A method that can be paid with. A method has several of them if its bounds differ by currency.

    `currencies` is None for every currency of the ledger. Both bounds of an amount are in minor units and inclusive,
    None without a bound. `installments` are the numbers of months in which it can be paid without interest.
    `refundable` is whether the processor gives money back.
    """

    type: MethodType
    currencies: tuple[str, ...] | None = None
    amount_min: Decimal | None = None
    amount_max: Decimal | None = None
    installments: tuple[int, ...] = ()
    refundable: bool = True

    def takes(self, currency: str, amount: Decimal | None) -> bool:
        """Returns whether it takes a currency and an amount, None for one that is not known yet."""
        if self.currencies is not None and currency not in self.currencies:
            return False
        if amount is None:
            return True
        above = self.amount_min is None or amount >= self.amount_min
        return above and (self.amount_max is None or amount <= self.amount_max)


MONTHS: Final = (3, 6, 9, 12, 18, 24)
"""The plans of months without interest that Mexican banks offer, in pesos."""
INSTALLMENTS_CURRENCY: Final = "MXN"

METHODS: Final = (
    MethodCapability(type=MethodType.CARD),
    *(
        MethodCapability(type=method, currencies=("MXN",))  # CLABEs and stores take pesos
        for method in (MethodType.SPEI, MethodType.PAYCASH, MethodType.CIE_CASH_NET)
    ),
)
"""Every method, in any amount."""


class Candidate(Struct, frozen=True, kw_only=True):
    """An account that a new payment may be made at, as `processor` is asked there.

    `refusal` completes "the account …": why it does not take the request, whatever its amount; None if it may.
    `reference_s` is how long its references are valid, in seconds, `smallest_amount` the unit of its amounts, in minor
    units. `needs_payer` is whether it takes the payment only from a customer whose name and e-mail are known.
    """

    account: str
    processor: str
    methods: tuple[MethodCapability, ...]
    refusal: str | None = None
    needs_payer: bool = False
    reference_s: int = REFERENCE_S
    smallest_amount: Decimal = FINEST


class AccountRules(Struct, frozen=True, kw_only=True):
    """What an account allows of the payments that were made at it.

    `card_window_s` is its refund period for cards in seconds. `partial_payouts` is whether it gives back a part of what
    came in by a reference, `returns_to_payer` whether it gives it back to the account that paid, which it knows, and to
    no other one; `simulates_payouts` whether it confirms a payout that the merchant is to make.
    `releases_rest` is whether a capture releases what it leaves, `kept` are the methods of which nothing is given back,
    `smallest_amount` is the unit of its amounts, in minor units.
    """

    card_window_s: int = REFUND_WINDOW_S
    partial_payouts: bool = True
    simulates_payouts: bool = True
    returns_to_payer: bool = False
    releases_rest: bool = False
    kept: frozenset[MethodType] = frozenset()
    smallest_amount: Decimal = FINEST


Rules = Mapping[str, AccountRules]
"""The rules of the accounts of an order's payments, by the account's name."""

USUAL: Final = AccountRules()
NO_RULES: Final[Rules] = MappingProxyType({})
"""Without any, the usual ones apply to every payment."""
