"""A short walk, and checks that find what they look for."""

from __future__ import annotations

import sys

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
    for order in walk.evidence.orders.values():
        invoices = order.invoices
        if invoices is None or not invoices.receipts or order.amount_paid > order.subtotal_amount:
            continue
        if any(each.cancellation is not None for each in invoices.documents):
            continue
        last = invoices.receipts[-1]
        without = replace(invoices, documents=tuple(each for each in invoices.documents if each is not last))
        assert any("its documents state" in what for what in documents_wrong(order, without))
        if last.terms.taxes and invoices.applied() == order.subtotal_amount:
            taxes = tuple(replace(tax, amount=tax.amount + 1) for tax in last.terms.taxes)
            other = replace(last, terms=replace(last.terms, taxes=taxes))
            documents = tuple(other if each is last else each for each in invoices.documents)
            found = documents_wrong(order, replace(invoices, documents=documents))
            assert any("the receipts state" in what for what in found)
