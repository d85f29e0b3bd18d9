"""A short walk, and checks that find what they look for."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from campaigns.walker.checks import documents_wrong, wrong_in
from campaigns.walker.command import Walked, findings, walked
from msgspec.structs import replace

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


async def test_no_centavo_is_without_its_document_after_a_walk() -> None:
    async with walked(1, seeds=2, requests=400) as walks:
        assert findings(walks) == []
        for each in walks:
            _require_every_difference_is_found(each)


def _require_every_difference_is_found(walk: Walked) -> None:
    """Alters what the processor and the log have of a walk, and looks for the finding."""
    more = {True: walk.given_back[True] + 1, False: walk.given_back[False] - 1}
    wrong = "\n".join(wrong_in(walk.evidence, more))
    assert "to cards, the processor" in wrong
    assert "as payouts, the processor" in wrong
    invoiced = [order for order in walk.evidence.orders.values() if order.invoices is not None]
    with_receipts = next(order for order in invoiced if order.invoices.receipts and order.net == order.subtotal_amount)
    invoices = with_receipts.invoices
    cut = replace(invoices, documents=invoices.documents[:-1])
    assert any("its documents state" in what for what in documents_wrong(with_receipts, cut))
    last = invoices.receipts[-1]
    if last.terms.taxes:
        taxes = tuple(replace(tax, amount=tax.amount + Decimal("0.01")) for tax in last.terms.taxes)
        other = replace(last, terms=replace(last.terms, taxes=taxes))
        documents = tuple(other if each is last else each for each in invoices.documents)
        found = documents_wrong(with_receipts, replace(invoices, documents=documents))
        assert any("the receipts state" in what for what in found)
