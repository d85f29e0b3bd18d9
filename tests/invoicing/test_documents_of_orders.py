"""The documents of orders with random baskets, drawn up by the decisions: valid by SAT's schemas, catalogues and sums.

The independent checker and the simulated provider's rules agree about each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import created, folded, paid, refund_requested, refunded
from tests.domain.invoices.baskets import basket
from tests.domain.invoices.stamper import ENABLED, FISCAL, ISSUER, check_split_order, run
from tests.domain.invoices.test_refunds_of_one_payment import ALL, cancel
from tests.invoicing.sat_rules import broken_rules
from tests.invoicing.sat_schemas import schema_errors

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import Cancelled
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.terms import CreditNoteTerms, DocumentTerms, InvoiceTerms, PueRefund
from ledger.domain.orders.state import Order
from ledger.invoicing.cfdi.build import build
from ledger.invoicing.providers.rules import check_rules
from ledger.invoicing.providers.schema import check_structure
from ledger.invoicing.stamped_xml import parse_cfdi

_LEAST = 500
"""The smallest order, in centavos: each part of its history has to be a hundred at least."""


def ordered(random: Random, **changes: Any) -> tuple[Any, int]:
    """Returns the creation of an order over a random basket, and its amount."""
    while True:
        sold = basket(random)
        if (amount := int(sold.subtotal)) >= _LEAST:
            return replace(created(amount, fiscal=FISCAL, **changes), line_items=sold.lines), amount


def returned(payment: int, amount: int, refund: int) -> tuple[Any, ...]:
    return refund_requested(payment, amount, refund), refunded(payment, amount, refund)


def split_order(random: Random) -> Order:
    """Returns an order that is paid in part, refunded in part and paid again, with all documents stamped."""
    creation, amount = ordered(random, allow_partials=True)
    first = random.randint(300, amount - 100)
    back = random.randint(100, first - 100)
    order = run(folded([creation, ENABLED, *paid(1, first)]))
    order = run(fold(evolve, order, returned(1, back, 2)))
    order = run(fold(evolve, order, paid(3, amount - first + back)))
    check_split_order(order)
    return order


def single_order(random: Random) -> Order:
    """Returns an order of one payment that is refunded twice, with a credit note for each refund."""
    creation, amount = ordered(random)
    first = random.randint(100, amount - 200)
    order = run(folded([creation, replace(ENABLED, pue_refund=PueRefund.CREDIT_NOTE), *paid(1, amount)]))
    order = run(fold(evolve, order, returned(1, first, 2)))
    return run(fold(evolve, order, returned(1, random.randint(100, amount - first), 3)))


def invoiced_anew(random: Random) -> Order:
    """Returns an order whose invoice was cancelled and replaced."""
    creation, amount = ordered(random)
    order = run(folded([creation, replace(ENABLED, pue_refund=PueRefund.CREDIT_NOTE), *paid(1, amount)]))
    return run(cancel(order, Cancelled()), request=ALL)


def kind_of(terms: DocumentTerms) -> str:
    if isinstance(terms, InvoiceTerms) and terms.supplements is not None:
        return "further invoice"
    if isinstance(terms, InvoiceTerms) and terms.replaces is not None:
        return "invoice anew"
    return "credit note" if isinstance(terms, CreditNoteTerms) else "other"


def documents(random: Random) -> Iterator[DocumentTerms]:
    for history in (split_order, single_order, invoiced_anew):
        order = history(random)
        assert order.invoices is not None
        yield from (each.terms for each in order.invoices.documents)


def check(random: Random, signer: Any, *, rounds: int) -> None:
    found = Counter[str]()
    for _ in range(rounds):
        for terms in documents(random):
            xml = build(terms, ISSUER, signer)
            root = parse_cfdi(xml)
            wrong = schema_errors(xml), broken_rules(xml), check_structure(root), check_rules(root)
            assert wrong == ([], [], None, None), terms
            found[kind_of(terms)] += 1
    for kind in ("further invoice", "invoice anew", "credit note"):
        assert found[kind] >= rounds


def test_documents_of_every_history_are_valid(signer: Any) -> None:
    check(Random(26), signer, rounds=8)


@pytest.mark.long
def test_five_hundred_documents_of_each_kind_are_valid(signer: Any) -> None:
    check(Random(2026), signer, rounds=500)
