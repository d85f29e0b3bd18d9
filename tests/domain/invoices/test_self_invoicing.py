"""When the payer of an order may request its invoice, and until when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, created, folded, paid, refund_requested, refunded
from tests.domain.invoices.stamper import DOWN, ENABLED, FISCAL, REFUSED, SILENT, SINGLE_FISCAL, run

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import CancelDocument, StampRequest
from ledger.domain.invoices.decide.cancellation import decide_document_cancellation
from ledger.domain.invoices.self_invoicing import (
    SelfInvoiceState,
    require_open,
    self_invoice_ends_at,
    self_invoice_state,
)
from ledger.domain.orders.events import OrderCancelled, PayerForgotten
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.orders.state import Order
from ledger.domain.rejections import SelfInvoiceUnavailable

BOUGHT = (created(), *paid(1, 10000))
GIVEN = replace(ENABLED, fiscal=FISCAL)
ALL = StampRequest()


def cancelled_invoice(order: Order) -> Order:
    command = CancelDocument(motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="p", deadline_at=NOON, at=NOON)
    return fold(evolve, order, decide_document_cancellation(order, command))


@pytest.mark.parametrize(
    ("order", "state"),
    [
        (folded([created()]), "NOT_PAID"),
        (folded([created(allow_partials=True), *paid(1, 4000)]), "NOT_PAID"),
        (folded(BOUGHT), "OPEN"),
        (folded([created(allow_partials=True), *paid(1, 4000), *paid(2, 6000)]), "OPEN"),
        (folded([*BOUGHT, refund_requested(1, 4000), refunded(1, 4000)]), "OPEN"),
        (folded([*BOUGHT, refund_requested(1, 4000)]), "REFUNDED"),
        (folded([*BOUGHT, refund_requested(1, 10000), refunded(1, 10000)]), "REFUNDED"),
        (folded([created(), OrderCancelled(at=NOON)]), "CANCELLED"),
        (folded([*BOUGHT, PayerForgotten(at=NOON)]), "ERASED"),
        (folded([*SINGLE_FISCAL, *paid(1, 10000)]), "BY_MERCHANT"),
        (run(folded([*BOUGHT, GIVEN]), request=ALL, answer=lambda _: SILENT), "BEING_STAMPED"),
        (run(folded([*BOUGHT, GIVEN]), request=ALL, answer=lambda _: DOWN), "BEING_STAMPED"),
        (run(folded([*BOUGHT, GIVEN]), request=ALL, answer=lambda _: REFUSED), "OPEN"),
        (run(folded([*BOUGHT, GIVEN]), request=ALL), "INVOICED"),
        (run(folded([*SINGLE_FISCAL, *paid(1, 10000)]), request=ALL), "INVOICED"),
        (cancelled_invoice(run(folded([*BOUGHT, GIVEN]), request=ALL)), "INVOICE_CANCELLED"),
        (fold(evolve, run(folded([*BOUGHT, GIVEN]), request=ALL), [PayerForgotten(at=NOON)]), "ERASED"),
    ],
)
def test_a_payer_requests_the_invoice_of_money_that_is_held_and_not_invoiced(order: Order, state: str) -> None:
    assert self_invoice_state(order) is SelfInvoiceState(state)
    if state == "OPEN":
        require_open(order)
        return
    with pytest.raises(SelfInvoiceUnavailable) as refused:
        require_open(order)
    assert refused.value.state == state


@pytest.mark.parametrize(
    ("paid_at", "ends_at"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 3, 1, 6, tzinfo=UTC)),
        (datetime(2026, 2, 1, 5, 59, tzinfo=UTC), datetime(2026, 3, 1, 6, tzinfo=UTC)),
        (datetime(2026, 2, 1, 6, tzinfo=UTC), datetime(2026, 4, 1, 6, tzinfo=UTC)),
        (datetime(2026, 11, 30, tzinfo=UTC), datetime(2027, 1, 1, 6, tzinfo=UTC)),
        (datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 2, 1, 6, tzinfo=UTC)),
    ],
)
def test_the_link_ends_with_the_month_after_the_payment(paid_at: datetime, ends_at: datetime) -> None:
    history: list[Any] = [replace(event, at=paid_at) if hasattr(event, "at") else event for event in BOUGHT]
    assert self_invoice_ends_at(folded(history), "America/Mexico_City") == ends_at
