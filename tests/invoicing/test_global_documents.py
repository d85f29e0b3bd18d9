"""Global invoices of random orders are valid by SAT's schemas, catalogues and sums, and by the simulated provider."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, created, folded, paid, refund_requested, refunded
from tests.domain.invoices.baskets import ISSUER, basket
from tests.invoicing.sat_rules import broken_rules
from tests.invoicing.sat_schemas import schema_errors

from ledger.domain.invoices.global_invoices.contents import StatedOrder, global_terms, stated
from ledger.domain.orders.invoices.terms import GlobalPeriod, InvoiceTerms, Periodicity
from ledger.invoicing.cfdi.build import build
from ledger.invoicing.providers.rules import check_rules
from ledger.invoicing.providers.schema import check_structure
from ledger.invoicing.stamped_xml import parse_cfdi

PERIOD = GlobalPeriod(year=2026, month=1, periodicity=Periodicity.MONTHLY)


def random_order(random: Random, number: int) -> StatedOrder | None:
    """Returns a paid order, refunded in part at times, as a global invoice states it."""
    sold = basket(random)
    amount = int(sold.subtotal)
    history = [replace(created(amount), line_items=sold.lines, order_number=f"PO{number:010}"), *paid(1, amount)]
    if amount > 1 and random.random() < 0.3:
        back = random.randint(1, amount - 1)
        history += [refund_requested(1, back), refunded(1, back)]
    return stated(folded(history), ISSUER)


def random_global(random: Random, orders: int) -> InvoiceTerms:
    found = [each for n in range(orders) if (each := random_order(random, n)) is not None]
    return global_terms(
        found, document_id=UUID(int=7), folio="G1", issued_at=NOON, issuer=ISSUER, series=None, period=PERIOD
    )


def check(random: Random, signer: Any, *, documents: int) -> None:
    for _ in range(documents):
        terms = random_global(random, 8)
        xml = build(terms, ISSUER, signer)
        root = parse_cfdi(xml)
        assert (schema_errors(xml), broken_rules(xml), check_structure(root), check_rules(root)) == ([], [], None, None)
        assert Decimal(root.get("Total")) * 100 == terms.total


def test_global_invoices_of_random_orders_are_valid_and_come_to_their_amounts(signer):
    check(Random(26), signer, documents=12)


@pytest.mark.long
def test_five_hundred_global_invoices_are_valid(signer):
    check(Random(2026), signer, documents=500)


def test_an_order_whose_amount_no_document_states_is_left_out():
    assert stated(folded([created("150.75"), *paid(1, "150.75")]), ISSUER) is None
