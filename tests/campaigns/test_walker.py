"""A short walk, and checks that find what they look for."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from campaigns.walker.checks import documents_wrong, wrong_in
from campaigns.walker.command import Walked, findings, service_to_walk_on, walk_seeds
from campaigns.walker.months import months_wrong
from msgspec.structs import replace

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


async def test_no_centavo_is_without_its_document_after_a_walk() -> None:
    walks: list[Walked] = []
    with service_to_walk_on() as service:
        await walk_seeds(service.start(), 1, 2, 400, walks.append)
    assert [findings(each) for each in walks] == [[], []]
    for each in walks:
        _require_every_difference_is_found(each)
        _require_every_document_is_in_its_month(each)


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


def _require_every_document_is_in_its_month(walk: Walked) -> None:
    """Leaves out each document, and cancels, dates and taxes it otherwise: every time a report differs."""
    evidence, months = walk.evidence, walk.walk.months
    assert {each.document.month for each in walk.documents} <= months.keys()
    assert sum(line["documents"] for month in months.values() for line in month["lines"]) == len(walk.documents)
    for n, each in enumerate(walk.documents):
        rest = [*walk.documents[:n], *walk.documents[n + 1 :]]
        document, (month, *_) = each.document, months.keys() - {each.document.month} or {"2001-02"}
        more = document.taxes | {"iva": document.taxes["iva"] + Decimal(1)}
        for other in (
            [replace(each, is_cancelled=not each.is_cancelled)],
            [replace(each, document=replace(document, month=month))],
            [replace(each, document=replace(document, taxes=more))],
            [],
        ):
            assert list(months_wrong(evidence, [*rest, *other], months))
