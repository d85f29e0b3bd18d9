"""What SAT's catalogues do not have of a line: its product key, its unit key, and the rates of its taxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ledger.domain.invoices.rates import wrong_tax
from ledger.domain.orders.terms import LineItem, Tax
from ledger.invoicing.catalogs import is_product_key, is_unit_key

Problem = tuple[str, str]
"""The name of a field in the interface, and what is wrong with it."""


@lru_cache(maxsize=4096)
def are_in_catalogs(product_key: str | None, unit_key: str | None, taxes: tuple[Tax, ...]) -> bool:
    """Returns whether SAT's catalogues have the keys and taxes of a line. An absent or empty key is not wrong."""
    return (
        (not product_key or is_product_key(product_key))
        and (not unit_key or is_unit_key(unit_key))
        and not any(map(wrong_tax, taxes))
    )


def wrong_keys(product_key: str | None, unit_key: str | None) -> list[Problem]:
    """Returns which of a line's keys SAT's catalogues lack. A key that is absent or empty is not wrong."""
    wrong = []
    if product_key and not is_product_key(product_key):
        problem = "must be a key of eight digits in SAT's catalogue c_ClaveProdServ, such as 50201706"
        wrong.append(("productKey", problem))
    if unit_key and not is_unit_key(unit_key):
        wrong.append(("unitKey", "must be a key of SAT's catalogue c_ClaveUnidad, such as H87 for a piece"))
    return wrong


def wrong_taxes(taxes: Sequence[Tax]) -> list[Problem]:
    """Returns which factors and rates SAT's catalogues do not have for these taxes."""
    wrong = []
    for at, tax in enumerate(taxes):
        if found := wrong_tax(tax):
            field, problem = found
            wrong.append((f"taxes[{at}].{field}", problem))
    return wrong


def wrong_lines(lines: Sequence[LineItem]) -> list[Problem]:
    """Returns what is wrong with the lines of an order, each with its path in the order."""
    return [
        (f"lineItems[{at}].{field}", problem)
        for at, line in enumerate(lines)
        for field, problem in (*wrong_keys(line.product_key, line.unit_key), *wrong_taxes(line.taxes))
    ]
