"""The invoice of an order of one payment of which a part was captured and the rest released: a request draws it up."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    DEADLINE,
    NOON,
    THREE_PERCENT,
    authorization_requested,
    authorized,
    captured,
    created,
    folded,
    paid,
    payment_id,
    refund_requested,
    refunded,
    started,
)
from tests.domain.invoices.stamper import (
    DOWN,
    ENABLED,
    FISCAL,
    REFUSED,
    SINGLE_FISCAL,
    SPLIT_FISCAL,
    documents_of,
    next_command,
    run,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import CancelDocument, Cancelled, RecordCancellation, StampRequest, StampScope
from ledger.domain.invoices.decide.cancellation import (
    cancellation_of_refunded,
    decide_cancellation_outcome,
    decide_document_cancellation,
)
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.invoices.due import invoice_status, invoice_timers
from ledger.domain.invoices.self_invoicing import SelfInvoiceState, self_invoice_state
from ledger.domain.orders.events import AuthorizationReleased, ReleasedBecause
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.state import invoice_terms_of
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoiceTerms, PueRefund
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import LineItem, Tax
from ledger.domain.rejections import AmountNotStampable, InvoiceInUse

ALL = StampRequest()
INVOICED = ("INVOICE", 6000, "EMITTED")


def held(subtotal: Decimal | int = 10_000, surcharge: int = 0, taken: Decimal | int = 6000) -> tuple[Any, ...]:
    """Returns the events of a card payment of which a part was captured and the rest is held."""
    whole = subtotal + surcharge
    begun = started(1, subtotal, surcharge), authorization_requested(1, whole, capture=False), authorized(1, whole)
    return *begun, captured(1, taken)


def released(amount: int = 4000, because: ReleasedBecause = ReleasedBecause.REQUESTED) -> AuthorizationReleased:
    return AuthorizationReleased(payment_id=payment_id(1), amount=Decimal(amount), because=because, at=NOON)


def returned(amount: int, refund: int = 1, payment: int = 1) -> tuple[Any, ...]:
    return refund_requested(payment, amount, refund), refunded(payment, amount, refund)


FINISHED = (*SINGLE_FISCAL, *held(), released())


def invoice_of(order: Order) -> InvoiceTerms:
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    return invoice_terms_of(order.invoices.invoice)


@pytest.mark.parametrize("because", list(ReleasedBecause))
def test_a_request_stamps_the_invoice_of_what_was_captured(because: ReleasedBecause) -> None:
    order = folded([*SINGLE_FISCAL, *held(), released(because=because)])
    assert (run(order), invoice_status(order), invoice_timers(order)) == (order, None, []), "no timer stamps it"
    order = run(order, request=ALL)
    assert documents_of(order) == [INVOICED]
    assert (invoice_of(order).payment_method, invoice_of(order).payment_form) == ("PUE", "04")
    assert decide_next(order, next_command(request=ALL)) == []


def test_no_request_stamps_the_invoice_while_the_rest_can_be_captured() -> None:
    for history in ([*SINGLE_FISCAL, *held()], [*SINGLE_FISCAL, *held(), released(3000)]):
        order = folded(history)
        assert decide_next(order, next_command(request=ALL)) == []


def test_a_request_for_other_documents_does_not_draw_the_invoice_up() -> None:
    order = folded(FINISHED)
    for scope in (StampScope.COMPLEMENTS, StampScope.CREDIT_NOTES):
        assert decide_next(order, next_command(request=StampRequest(scope=scope))) == []


def test_an_order_that_gave_everything_back_has_no_invoice() -> None:
    order = folded([*FINISHED, *returned(6000)])
    assert decide_next(order, next_command(request=ALL)) == []


def test_the_surcharge_is_in_no_invoice_and_the_lines_are_reduced_in_proportion() -> None:
    iva = (Tax(type="IVA", rate=Decimal("0.16"), factor="Tasa", withholding=False),)
    lines = (
        LineItem(description="Tazas", quantity=Decimal(2), unit_price=Decimal(2900), tax_included=True, taxes=iva),
        LineItem(description="Libro", quantity=Decimal(1), unit_price=Decimal(4200), tax_included=True),
    )
    begin = created(fiscal=FISCAL, surcharge=THREE_PERCENT, line_items=lines), SINGLE_FISCAL[1]
    order = run(folded([*begin, *held(surcharge=300, taken=5150), released(5150)]), request=ALL)
    terms = invoice_of(order)
    assert terms.total == 5000
    assert [(each.description, int(each.quantity), int(each.amount)) for each in terms.concepts] == [
        ("Tazas", 2, 2500), ("Libro", 1, 1810),
    ]  # fmt: skip
    assert [int(tax.amount) for tax in terms.taxes] == [690]


def test_refunds_have_credit_notes_of_what_the_invoice_states() -> None:
    order = run(folded([*FINISHED, *returned(1000)]), request=ALL)
    order = run(fold(evolve, order, returned(2000, 2)))
    assert documents_of(order) == [INVOICED, ("CREDIT_NOTE", 1000, "EMITTED"), ("CREDIT_NOTE", 2000, "EMITTED")]
    order = run(fold(evolve, order, returned(3000, 3)))
    assert [row[1] for row in documents_of(order)] == [6000, 1000, 2000, 3000]


def test_a_full_refund_in_the_month_cancels_the_invoice_by_the_merchants_setting() -> None:
    in_month = SINGLE_FISCAL[0], replace(ENABLED, pue_refund=PueRefund.CANCEL_IN_MONTH)
    order = run(folded([*in_month, *held(), released()]), request=ALL)
    part, whole = (fold(evolve, order, returned(amount)) for amount in (5999, 6000))
    assert cancellation_of_refunded(part, next_command()) == []
    assert len(cancellation_of_refunded(whole, next_command())) == 1


def cancelled(order: Order) -> Order:
    command = CancelDocument(
        motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="sandbox", deadline_at=DEADLINE, at=NOON
    )
    order = fold(evolve, order, decide_document_cancellation(order, command))
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    record = RecordCancellation(document_id=order.invoices.invoice.document_id, outcome=Cancelled(), at=NOON)
    return fold(evolve, order, decide_cancellation_outcome(order, record))


def test_the_merchant_cancels_the_invoice_unless_a_credit_note_is_about_to_be_stamped() -> None:
    order = run(folded(FINISHED), request=ALL)
    with pytest.raises(InvoiceInUse):
        cancelled(fold(evolve, order, returned(2000)))
    assert invoice_status(cancelled(fold(evolve, order, returned(6000)))) is None


def test_money_that_comes_after_the_invoice_needs_a_new_one() -> None:
    """An invoice of one payment is not extended: it is cancelled, and the next one replaces it."""
    order = fold(evolve, run(folded(FINISHED), request=ALL), paid(2, 4000))
    assert run(order, request=ALL) == order
    order = run(cancelled(order), request=ALL)
    assert [row[1] for row in documents_of(order)] == [6000, 10000]
    assert invoice_of(order).replaces is not None


@pytest.mark.parametrize("answer", [REFUSED, DOWN])
def test_an_invoice_that_was_not_stamped_follows_the_money(answer: Any) -> None:
    order = run(folded(FINISHED), request=ALL, answer=lambda _: answer)
    later = NOON + timedelta(hours=1)
    assert documents_of(run(order, later)) == [INVOICED], "a timer tries again"
    more = run(fold(evolve, order, paid(2, 4000)), later)
    assert documents_of(more) == [("INVOICE", 10000, "EMITTED")]
    less = run(fold(evolve, order, returned(6000)), later)
    assert documents_of(less) == [INVOICED, ("CREDIT_NOTE", 6000, "EMITTED")]


def test_the_payer_requests_the_invoice_of_an_order_without_fiscal_data() -> None:
    begin = created()
    assert self_invoice_state(folded([begin, *held()])) is SelfInvoiceState.NOT_PAID
    order = folded([begin, *held(), released()])
    assert self_invoice_state(order) is SelfInvoiceState.OPEN
    order = run(fold(evolve, order, [replace(ENABLED, fiscal=FISCAL)]), request=ALL)
    assert documents_of(order) == [INVOICED]


def test_a_split_order_keeps_its_documents() -> None:
    part = [*SPLIT_FISCAL, *held(), released()]
    order = run(folded(part))
    assert documents_of(order) == [("INVOICE", 10000, "EMITTED"), ("REP", 1, 10000, 6000, 4000, "EMITTED")]
    assert run(order, request=ALL) == order


def test_what_was_captured_with_a_fraction_of_a_centavo_is_refused() -> None:
    begin = created(Decimal("10000.5"), fiscal=FISCAL), SINGLE_FISCAL[1]
    order = folded([*begin, *held(Decimal("10000.5"), taken=Decimal("6000.5")), released()])
    with pytest.raises(AmountNotStampable):
        run(order, request=ALL)
