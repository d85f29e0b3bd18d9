"""What a request to stamp does beyond its scope, and what timers leave alone: nothing of an older release's refunds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, folded, paid
from tests.domain.invoices.stamper import DOWN, FISCAL, REFUSED, documents_of, next_command, run, stamped
from tests.domain.invoices.test_refunds_of_one_payment import (
    ALL,
    IN_MONTH,
    INVOICED,
    OLDER,
    bought,
    cancel,
    is_due,
    returned,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import Cancelled, EnableInvoicing, StampRequest, StampScope
from ledger.domain.invoices.decide.stamping import decide_enabling, decide_next
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import DocumentCancellationRequested
from ledger.domain.orders.invoices.terms import InvoiceTrigger, InvoicingPolicy, PueRefund

INVOICE = StampRequest(scope=StampScope.INVOICE)
COMPLEMENTS = StampRequest(scope=StampScope.COMPLEMENTS)


@pytest.mark.parametrize("request_", [INVOICE, COMPLEMENTS])
def test_a_request_for_other_documents_makes_no_credit_note_of_an_older_order(request_: StampRequest) -> None:
    order = bought(*returned(4000), begin=OLDER)
    assert documents_of(run(run(order, request=request_))) == [INVOICED]


def test_a_request_for_the_invoice_replaces_no_cancelled_note() -> None:
    order = run(bought(*returned(4000)))
    assert order.invoices is not None
    order = cancel(order, Cancelled(), document=order.invoices.credit_notes[0])
    assert len(documents_of(run(run(order, request=INVOICE)))) == 2


def test_a_request_for_the_invoice_leaves_its_full_refund_to_the_cancellation() -> None:
    order = run(folded([*IN_MONTH, *paid(1, 10000), *returned(10000)]), answer=lambda _: REFUSED)
    order = run(order, request=INVOICE)
    assert [type(each) for each in decide_next(order, next_command())] == [DocumentCancellationRequested]


@pytest.mark.parametrize("answer", [stamped, lambda _: DOWN, lambda _: REFUSED])
def test_an_invoice_that_is_stamped_anew_gets_its_credit_notes_however_often_it_is_tried(
    answer: Callable[[Any], Any],
) -> None:
    order = run(bought(*returned(4000)))
    assert order.invoices is not None
    order = cancel(order, Cancelled(), document=order.invoices.credit_notes[0])
    order = run(cancel(order, Cancelled()), request=ALL, answer=answer)
    for hours in range(1, 4):
        order = run(order, NOON + timedelta(hours=hours))
    assert documents_of(order)[-1] == ("CREDIT_NOTE", 4000, "EMITTED")


@pytest.mark.parametrize(("amount", "pue_refund"), [(4000, PueRefund.CREDIT_NOTE), (10000, PueRefund.CANCEL_IN_MONTH)])
def test_other_fiscal_data_do_not_bring_an_older_order_the_setting_of_today(amount: int, pue_refund: PueRefund) -> None:
    order = bought(*returned(amount), begin=OLDER)
    policy = InvoicingPolicy(
        trigger=InvoiceTrigger.FIRST_CAPTURE,
        time_zone="America/Mexico_City",
        receipt_due_day=5,
        pue_refund=pue_refund,
    )
    command = EnableInvoicing(policy=policy, at=NOON, fiscal=replace(FISCAL, zip_code="06000"))
    order = fold(evolve, order, decide_enabling(order, command))
    assert not is_due(order)
    assert decide_next(order, next_command()) == []
