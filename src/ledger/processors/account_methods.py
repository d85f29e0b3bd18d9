"""What a processor takes, as an account states it: with each of the currencies and both bounds of an amount."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from ledger.domain.money import AMOUNT_MAX
from ledger.domain.orders.capabilities import MethodCapability
from ledger.domain.processor_accounts.terms import AccountMethod

CURRENCIES: Final = ("MXN", "USD")
"""The currencies of the ledger."""


def account_methods(methods: Iterable[MethodCapability], smallest_amount: Decimal) -> tuple[AccountMethod, ...]:
    """Returns the methods of a processor whose unit is `smallest_amount`, in minor units."""
    return tuple(
        AccountMethod(
            type=method.type,
            currencies=CURRENCIES if method.currencies is None else method.currencies,
            amount_min=smallest_amount if method.amount_min is None else method.amount_min,
            amount_max=AMOUNT_MAX if method.amount_max is None else method.amount_max,
            installments=method.installments,
        )
        for method in methods
    )
