"""The refunds of an invoice of one payment (PUE): a credit note each, or the cancellation of the invoice."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    DEADLINE,
    NOON,
    THREE_PERCENT,
    created,
    deposited,
    folded,
    method,
    paid,
    payment_id,
    reference_open,
    refund_id,
    refund_requested,
    refunded,
)
from tests.domain.invoices.stamper import (
    ENABLED,
    FISCAL,
    REFUSED,
    SINGLE_FISCAL,
    SPLIT_FISCAL,
    documents_of,
    next_command,
    run,
    stamped,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationPending,
    Cancelled,
    EnableInvoicing,
    RecordCancellation,
    Refused,
    StampRequest,
    StampScope,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome, decide_document_cancellation
from ledger.domain.invoices.decide.stamping import decide_enabling, decide_next
from ledger.domain.invoices.due import InvoiceTimerKind, invoice_timers
from ledger.domain.orders.events import DisputeLost, DisputeOpened, PaymentStarted, RefundReversed
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import DocumentCancellationRequested
from ledger.domain.orders.invoices.terms import (
    CancellationMotive,
    CreditNoteTerms,
    InvoiceTrigger,
    InvoicingPolicy,
    PueRefund,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import DestinationType, MethodType
from ledger.domain.rejections import InvoiceInUse

ALL = StampRequest()
IN_MONTH = (
    SINGLE_FISCAL[0],
    replace(ENABLED, pue_refund=PueRefund.CANCEL_IN_MONTH, time_zone="America/Tijuana"),
)
NIGHT = timedelta(hours=18, minutes=30)
"""From noon in UTC of the month's last day to its first hour after midnight where documents are issued."""
OLDER = (SINGLE_FISCAL[0], ENABLED)
INVOICED = ("INVOICE", 10000, "EMITTED")


def returned(amount: int, refund: int = 1, payment: int = 1, **changes: Any) -> tuple[Any, ...]:
    succeeded = refunded(payment, amount, refund)
    return refund_requested(payment, amount, refund), replace(succeeded, **changes)


def bought(*events: Any, begin: tuple[Any, ...] = SINGLE_FISCAL) -> Order:
    """Returns an order of one payment with its stamped invoice, and what happened afterwards."""
    return fold(evolve, run(folded([*begin, *paid(1, 10000)])), events)


def notes(order: Order) -> list[CreditNoteTerms]:
    return [each.terms for each in order.invoices.credit_notes]


def cancel(order: Order, *outcomes: Any, document: Any = None) -> Order:
    document_id = None if document is None else document.document_id
    command = CancelDocument(
        motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="sandbox", deadline_at=DEADLINE, at=NOON,
        document_id=document_id,
    )  # fmt: skip
    order = fold(evolve, order, decide_document_cancellation(order, command))
    return answered(order, document_id or order.invoices.invoice.document_id, *outcomes)


def answered(order: Order, document_id: Any, *outcomes: Any) -> Order:
    for outcome in outcomes:
        record = RecordCancellation(document_id=document_id, outcome=outcome, at=NOON)
        order = fold(evolve, order, decide_cancellation_outcome(order, record))
    return order


def is_due(order: Order) -> bool:
    return any(kind is InvoiceTimerKind.STAMP for kind, *_ in invoice_timers(order))


def test_each_refund_has_a_credit_note_of_its_invoice():
    order = bought(*returned(4000))
    assert is_due(order)
    order = run(order)
    assert documents_of(order) == [INVOICED, ("CREDIT_NOTE", 4000, "EMITTED")]
    order = run(fold(evolve, order, [*returned(1000, 2), *returned(5000, 3)]))
    assert [row[1] for row in documents_of(order)] == [10000, 4000, 1000, 5000]
    invoice = order.invoices.invoice
    assert {(each.fiscal_uuid, each.relation) for each in notes(order)} == {(invoice.stamp.fiscal_uuid, "01")}
    assert sum(tax.amount for each in notes(order) for tax in each.taxes) == invoice.terms.taxes[0].amount
    assert order.invoices.receipts == ()
    assert not is_due(order)


def test_a_refund_before_the_invoice_is_stamped_follows_it():
    order = run(folded([*SINGLE_FISCAL, *paid(1, 10000), *returned(4000)]), answer=lambda _: REFUSED)
    assert documents_of(order) == [("INVOICE", 10000, "FAILED")]
    order = run(order, NOON + timedelta(hours=1))
    assert documents_of(order) == [INVOICED, ("CREDIT_NOTE", 4000, "EMITTED")]


def test_a_credit_note_leaves_the_surcharge_out_and_changes_no_sum():
    with_surcharge = (created(fiscal=FISCAL, surcharge=THREE_PERCENT), SINGLE_FISCAL[1])
    before = run(folded([*with_surcharge, *paid(1, 10000, 300)]))
    before = fold(evolve, before, [*returned(1000), *returned(9300, 2)])
    order = run(before)
    assert [int(each.total) for each in notes(order)] == [971, 9029]
    sums = ("amount", "amount_paid", "amount_refunded", "amount_pending", "surcharge_amount", "status")
    assert [getattr(order, name) for name in sums] == [getattr(before, name) for name in sums]


@pytest.mark.parametrize(
    ("paid_with", "form"), [(MethodType.CARD, "04"), (MethodType.SPEI, "03"), (MethodType.PAYCASH, "03")]
)
def test_the_payment_form_of_a_credit_note_is_that_of_the_payout(paid_with: MethodType, form: str):
    order = run(folded([*SINGLE_FISCAL, *paid(1, 10000, 0, paid_with), *returned(10000)]))
    assert notes(order)[0].payment_form == form
    assert order.invoices.invoice.terms.payment_form == ("01" if paid_with is MethodType.PAYCASH else form)


@pytest.mark.parametrize("destination", DestinationType)
@pytest.mark.parametrize(("paid_with", "before"), [(MethodType.SPEI, "03"), (MethodType.PAYCASH, "01")])
def test_the_payment_form_of_a_payout_is_a_transfer_wherever_it_goes(
    paid_with: MethodType, before: str, destination: DestinationType
):
    asked = refund_requested(1, 10000, payout=True, destination_type=destination)
    for begin in (SINGLE_FISCAL, SPLIT_FISCAL):
        order = run(folded([*begin, *paid(1, 10000, 0, paid_with), asked, refunded(1, 10000)]))
        assert notes(order)[0].payment_form == "03"
        paid_by = order.invoices.documents[1 if begin is SPLIT_FISCAL else 0]
        assert paid_by.terms.payment_form == before


def test_the_payment_form_of_a_refund_to_a_card_is_that_of_the_card():
    for begin in (SINGLE_FISCAL, SPLIT_FISCAL):
        debit = replace(method(), card=replace(method().card, type="DEBIT"))
        begun = [replace(each, method=debit) if isinstance(each, PaymentStarted) else each for each in paid(1, 10000)]
        assert notes(run(folded([*begin, *begun, *returned(10000)])))[0].payment_form == "28"


def test_a_cancelled_credit_note_is_replaced_by_no_other_refunds():
    beyond = folded([*SINGLE_FISCAL, *reference_open(1, 10000), deposited(1, 12000)])
    order = run(fold(evolve, run(beyond), returned(3000)))
    order = fold(evolve, order, [deposited(1, 1000, "dep-2"), *returned(1000, 2)])
    assert [int(each.total) for each in notes(order)] == [1000]
    assert run(order) == order
    order = cancel(order, Cancelled(), document=order.invoices.credit_notes[0])
    assert run(order) == order
    assert not is_due(order)
    order = run(order, request=ALL)
    first, second = notes(order)
    assert (first.total, first.payment_event_id) == (second.total, second.payment_event_id)


def test_an_overpayment_and_its_refund_need_no_credit_note():
    order = folded([*SINGLE_FISCAL, *reference_open(1, 10000), deposited(1, 10500), *returned(500)])
    assert documents_of(run(order)) == [INVOICED]
    order = run(fold(evolve, run(order), returned(1000, 2)))
    assert documents_of(order)[1:] == [("CREDIT_NOTE", 1000, "EMITTED")]


def test_money_that_was_given_back_and_paid_again_needs_no_credit_note():
    early = [*reference_open(1, 10000), deposited(1, 4000), *returned(4000)]
    order = run(folded([*SINGLE_FISCAL, *early, *reference_open(2, 10000), deposited(2, 10000)]))
    assert documents_of(order) == [INVOICED]
    order = run(fold(evolve, order, returned(3000, 2, payment=2)))
    assert documents_of(order)[1:] == [("CREDIT_NOTE", 3000, "EMITTED")]


def test_a_lost_dispute_has_no_credit_note():
    lost = DisputeLost(payment_id=payment_id(1), dispute_id="d-1", amount=4000, at=NOON)
    opened = DisputeOpened(payment_id=payment_id(1), dispute_id="d-1", amount=4000, at=NOON)
    assert documents_of(run(bought(opened, lost))) == [INVOICED]


def test_a_refund_that_comes_back_leaves_its_credit_note_to_the_merchant():
    """The note is a document of the log: the merchant cancels it, and a further refund has one of its own."""
    order = run(bought(*returned(4000)))
    back = RefundReversed(refund_id=refund_id(1), payment_id=payment_id(1), amount=4000, code="X", at=NOON)
    order = run(fold(evolve, order, [back]))
    assert [int(each.total) for each in notes(order)] == [4000]
    order = cancel(order, Cancelled(), document=order.invoices.credit_notes[0])
    order = run(fold(evolve, run(order), returned(10000, 2)))
    assert [int(each.total) for each in notes(order)][-1] == 10000
    assert not is_due(order)
    early = fold(evolve, bought(*returned(4000)), [back])
    assert documents_of(run(early)) == [INVOICED], "no note of a refund that came back before it"


def test_refunds_of_an_order_that_an_older_release_invoiced_get_credit_notes_on_request():
    stored = json.loads(msgspec.json.encode(OLDER[1]))
    assert "pueRefund" not in stored, "as an older release has written it"
    order = bought(*returned(4000), begin=OLDER)
    assert not is_due(order)
    assert documents_of(run(order)) == [INVOICED]
    assert documents_of(run(order, request=StampRequest(scope=StampScope.CREDIT_NOTES)))[1:] == [
        ("CREDIT_NOTE", 4000, "EMITTED")
    ]


def test_an_order_keeps_the_setting_of_its_first_request():
    policy = InvoicingPolicy(
        trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5,
        pue_refund=PueRefund.CANCEL_IN_MONTH,
    )  # fmt: skip
    other = EnableInvoicing(policy=policy, at=NOON, fiscal=replace(FISCAL, zip_code="06000"))
    assert [each.pue_refund for each in decide_enabling(folded(SINGLE_FISCAL), other)] == [PueRefund.CREDIT_NOTE]
    assert [each.pue_refund for each in decide_enabling(folded(OLDER), other)] == [PueRefund.CANCEL_IN_MONTH]
    split = folded([created(allow_partials=True)])
    assert [each.pue_refund for each in decide_enabling(split, other)] == [None]


def test_an_invoice_is_cancelled_after_the_credit_notes_of_a_part_refund():
    order = bought(*returned(4000))
    with pytest.raises(InvoiceInUse):  # its credit note is not announced yet
        cancel(order)
    order = run(order)
    with pytest.raises(InvoiceInUse):
        cancel(order)
    (note,) = order.invoices.credit_notes
    order = cancel(order, Cancelled(), document=note)
    assert run(order) == order, "a cancelled note comes again on request alone"
    order = cancel(order, Cancelled())
    assert order.invoices.invoice.is_cancelled
    assert not is_due(order)


def test_a_credit_note_that_was_cancelled_is_drawn_up_again_on_request():
    order = run(bought(*returned(4000), *returned(1000, 2)))
    order = cancel(order, Cancelled(), document=order.invoices.credit_notes[0])
    order = run(order, request=ALL)
    first, second, again = notes(order)
    assert (again.total, again.taxes, again.concepts) == (first.total, first.taxes, first.concepts)
    assert int(order.invoices.credited()) == 5000
    assert second.total == 1000


def test_a_refund_after_the_invoice_was_cancelled_has_no_credit_note():
    order = fold(evolve, cancel(bought(), Cancelled()), returned(4000))
    assert not is_due(order)
    assert documents_of(run(order)) == [INVOICED]
    assert documents_of(run(order, request=ALL)) == [INVOICED, INVOICED, ("CREDIT_NOTE", 4000, "EMITTED")]


def test_a_full_refund_leaves_the_invoice_to_a_cancellation_that_is_under_way():
    order = cancel(bought(*returned(10000)), CancellationPending())
    assert not is_due(order)
    assert run(order, request=ALL) == order
    invoice_id = order.invoices.invoice.document_id
    assert documents_of(run(answered(order, invoice_id, Cancelled()))) == [INVOICED]
    kept = answered(order, invoice_id, Refused("205", "No."))
    assert is_due(kept)
    assert documents_of(run(kept))[1:] == [("CREDIT_NOTE", 10000, "EMITTED")]


def test_a_full_refund_in_the_month_of_the_invoice_cancels_it_where_the_merchant_chose_that():
    order = bought(*returned(4000), *returned(6000, 2), begin=IN_MONTH)
    assert is_due(order)
    (asked,) = decide_next(order, next_command())
    assert isinstance(asked, DocumentCancellationRequested)
    assert (asked.document_id, asked.motive) == (order.invoices.invoice.document_id, "03")
    assert decide_next(order, next_command(request=ALL)) == [asked]
    assert decide_next(order, next_command(request=StampRequest(scope=StampScope.INVOICE))) != [asked]
    order = fold(evolve, order, [asked])
    assert decide_next(order, next_command()) == []
    gone = answered(order, asked.document_id, Cancelled())
    assert not is_due(gone)
    assert documents_of(run(gone)) == [INVOICED]
    again = run(gone, request=ALL)
    assert documents_of(again) == [
        INVOICED,
        INVOICED,
        ("CREDIT_NOTE", 4000, "EMITTED"),
        ("CREDIT_NOTE", 6000, "EMITTED"),
    ]
    kept = answered(order, asked.document_id, CancellationPending(), Refused("205", "No."))
    assert [row[1] for row in documents_of(run(kept))[1:]] == [4000, 6000]


@pytest.mark.parametrize(
    ("events", "later", "credited"),
    [
        ((*returned(4000),), timedelta(0), [4000]),
        ((*returned(10000, at=NOON + timedelta(days=1)),), timedelta(days=1), [10000]),
        ((*returned(10000),), timedelta(days=1), [10000]),  # the provider was away at the end of the month
        ((*returned(10000, at=NOON + NIGHT),), NIGHT, [10000]),
    ],
)
def test_every_other_refund_has_a_credit_note(events: Any, later: timedelta, credited: list[int]):
    """The month is that of the document's own date: the merchant lives by a clock two hours behind."""
    order = run(bought(*events, begin=IN_MONTH), NOON + later)
    assert [int(each.total) for each in notes(order)] == credited


def test_the_rest_of_a_refund_with_a_credit_note_has_one_too():
    order = run(bought(*returned(4000), begin=IN_MONTH))
    order = run(fold(evolve, order, returned(6000, 2)))
    assert [int(each.total) for each in notes(order)] == [4000, 6000]


def test_a_refused_credit_note_is_repeated_like_every_document():
    order = run(bought(*returned(4000)), answer=lambda _: REFUSED)
    assert documents_of(order)[1:] == [("CREDIT_NOTE", 4000, "FAILED")]
    assert documents_of(run(order, NOON + timedelta(hours=1)))[1:] == [("CREDIT_NOTE", 4000, "EMITTED")]
    assert run(order, request=ALL, answer=stamped) != order
