"""What an account of a processor takes: the methods, and for each its currencies, amounts and instalments.

These fields are stored in the events of processors' accounts. Add a field only with a default.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from ledger.domain.orders.terms import MethodType


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
