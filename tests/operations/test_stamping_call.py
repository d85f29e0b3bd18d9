"""A call to stamp a document whose end comes late: it leaves the call that began since, unless it brings a stamp."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, folded, paid
from tests.domain.invoices.stamper import DOWN, REFUSED, SILENT, SINGLE_FISCAL, next_command, stamped
from tests.journal.global_invoice_samples import GLOBAL_INVOICES

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import NotFound
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.orders.global_invoices.evolve import evolve as evolve_global
from ledger.operations.global_invoices.provider_call import GlobalStampingCall
from ledger.operations.orders.invoices.provider_calls import DocumentStampingCall
from ledger.operations.stamping.stamping_call import StampingCall

ABOUT: Any = {"ledger": None, "merchant_id": UUID(int=1)}
Case = tuple[StampingCall, Any, Any]


def of_an_order() -> Case:
    order = folded([*SINGLE_FISCAL, *paid(1, 10000)])
    events = decide_next(order, next_command())
    asked = fold(evolve_order, order, events)
    assert asked.invoices is not None
    call = DocumentStampingCall(order=asked, document=asked.invoices.documents[0], **ABOUT)
    return call, asked, fold(evolve_order, asked, [_later(events[-1])])


def of_a_global_invoice() -> Case:
    announced, requested = list(GLOBAL_INVOICES.values())[:2]
    asked = fold(evolve_global, None, [announced, requested])
    call = GlobalStampingCall(invoice=asked, **ABOUT)
    return call, asked, fold(evolve_global, asked, [_later(requested)])


def _later(event: Any) -> Any:
    return replace(event, deadline_at=event.deadline_at + timedelta(days=1))


@pytest.mark.parametrize("case", [of_an_order, of_a_global_invoice])
def test_the_late_end_of_a_call_leaves_the_one_that_began_since(case: Any) -> None:
    call, asked, asked_again = case()
    for outcome in (REFUSED, SILENT, DOWN, NotFound()):
        assert call.record(asked_again, outcome, NOON) == []
        assert call.record(asked, outcome, NOON)
    for state in (asked, asked_again):
        assert call.record(state, stamped(call.document_id), NOON)
