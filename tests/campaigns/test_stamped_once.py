"""A short campaign, and a comparison that finds every kind of difference."""

from __future__ import annotations

import sys

import pytest
from campaigns.chaos.rules import views_follow_from_the_log
from campaigns.stamped_once.campaign import DOCUMENTS, Collected, Plan, collected
from campaigns.stamped_once.comparison import Movement, Recorded, Totals, compare

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


@pytest.mark.long
async def test_each_document_is_stamped_once_and_in_order_whatever_is_killed() -> None:
    plan = Plan(orders=2, kills=2)  # the worker and Postgres; the programme also kills the whole service
    async with collected(plan) as found:
        violations, totals = _compared(found, found.record)
        assert violations == []
        assert totals.stamps == totals.documents == 2 * plan.orders * DOCUMENTS
        assert [what for merchant in found.evidence for what in views_follow_from_the_log(merchant)] == []
        assert found.kills
        assert found.abandoned
        assert found.refused
        _require_every_difference_is_found(found)


def _compared(found: Collected, record: list[Recorded]) -> tuple[list[str], Totals]:
    return compare(found.wanted, record, found.evidence, found.files)


def _require_every_difference_is_found(found: Collected) -> None:
    """Alters the provider's record and the client's, and looks for what the comparison has to find."""
    record, wanted = found.record, found.wanted[0]
    ids = next(
        [document.document_id for document in order.invoices.documents]
        for merchant in found.evidence
        for order_id, order in merchant.orders.items()
        if str(order_id) == wanted.order_id and order.invoices is not None
    )
    mine = {each.document_id: each for each in record if each.document_id in ids}
    others = [each for each in record if each.document_id not in mine]
    in_order = [mine[each] for each in ids]
    foreign = in_order[0]._replace(document_id=found.wanted[0].merchant_id)
    altered = in_order[1]._replace(xml=in_order[1].xml.replace(b'NumParcialidad="1"', b'NumParcialidad="2"'))
    for wrong, violation in (
        ([*record, record[0]], "was stamped 2 times"),
        ([*others, *in_order[1:]], "was never stamped by the provider"),
        ([*others, *reversed(in_order)], "were stamped in the order"),
        ([*record, foreign], "which no order has"),
        ([*others, in_order[0]._replace(fiscal_uuid=wanted.merchant_id), *in_order[1:]], "has the fiscal UUID"),
        ([*others, in_order[0], altered, *in_order[2:]], "is receipt 1 over"),
        ([*others, in_order[0], altered, *in_order[2:]], "is not stored as it was stamped"),
    ):
        violations, _ = _compared(found, wrong)
        assert any(violation in each for each in violations), (violation, violations)
    missing = wanted._replace(movements=(*wanted.movements, Movement("REP", "another", 1)))
    violations, _ = compare([missing], record, found.evidence, found.files)
    assert any("its documents are" in each for each in violations)
