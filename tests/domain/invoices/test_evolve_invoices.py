"""The fold of invoices: what an erasure takes away, what a cancellation leaves, and the stored form of each document."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.domain.builders import DEADLINE, NOON, folded, paid, payment_id, refund_requested, refunded
from tests.domain.invoices.stamper import REFUSED, SILENT, SPLIT_FISCAL, documents_of, next_command, run
from tests.journal.invoice_samples import CREDIT_NOTE_TERMS, INVOICES, RECEIPT_TERMS

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationPending,
    Cancelled,
    RecordCancellation,
    StampRequest,
    WarnOfDeadline,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome, decide_document_cancellation
from ledger.domain.invoices.decide.deadlines import decide_deadline_warning
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.invoices.due import InvoiceTimerKind, invoice_timers, receipt_due_at, summary
from ledger.domain.orders.events import PayerForgotten
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import UNNAMED
from ledger.domain.orders.invoices.state import CancellationStatus
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.rejections import DocumentNotFound, InvalidField, InvoiceInUse, InvoiceNotReady
from ledger.journal.codec import CODEC

STAMPED = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]))


@pytest.mark.parametrize("terms", [RECEIPT_TERMS, CREDIT_NOTE_TERMS])
def test_the_terms_of_every_document_are_read_as_they_were_written(terms):
    event = replace(INVOICES["document-announced.v1"], terms=terms)
    assert CODEC.decode("document-announced.v1", CODEC.encode(event).data) == event


def test_the_receiver_is_stored_in_the_sealed_field_alone():
    documents = STAMPED.invoices.documents
    assert {each.terms.receiver.tax_id for each in documents} == {"URE180429TM6"}
    erased = fold(evolve, STAMPED, [PayerForgotten(at=NOON)])
    assert {each.terms.receiver for each in erased.invoices.documents} == {UNNAMED}
    assert (STAMPED.invoiced_to is None, erased.invoiced_to) == (False, None)
    assert documents_of(erased) == documents_of(STAMPED)


def cancellation(**changes):
    fields = {"motive": CancellationMotive.WITHOUT_SUBSTITUTE, "provider": "sandbox", "deadline_at": DEADLINE}
    return CancelDocument(**(fields | {"at": NOON} | changes))


def test_an_invoice_is_cancelled_after_its_receipts_and_drawn_up_again_by_a_request_alone():
    receipt = STAMPED.invoices.receipts[0]
    with pytest.raises(InvoiceInUse):
        decide_document_cancellation(STAMPED, cancellation())
    order = cancelled(STAMPED, document_id=receipt.document_id)
    assert decide_document_cancellation(order, cancellation(document_id=receipt.document_id)) == []
    order = cancelled(order)
    assert summary(order).pending_rep_count == 1
    assert run(order) == order
    again = run(order, request=StampRequest())
    assert documents_of(again)[2:] == [("INVOICE", 10000, "EMITTED"), ("REP", 1, 10000, 4000, 6000, "EMITTED")]
    assert len({each.document_id for each in again.invoices.documents}) == 4
    assert len({each.terms.folio for each in again.invoices.documents}) == 4
    assert summary(again).is_fully_stamped


def cancelled(order, **changes):
    order = fold(evolve, order, decide_document_cancellation(order, cancellation(**changes)))
    document = next(each for each in order.invoices.documents if each.cancellation and each.cancellation.intent)
    outcome = RecordCancellation(document_id=document.document_id, outcome=Cancelled(), at=NOON)
    order = fold(evolve, order, decide_cancellation_outcome(order, outcome))
    assert decide_cancellation_outcome(order, outcome) == []
    return order


def test_a_cancellation_that_waits_for_the_receiver_is_asked_for_again():
    receipt = STAMPED.invoices.receipts[0]
    order = fold(evolve, STAMPED, decide_document_cancellation(STAMPED, cancellation(document_id=receipt.document_id)))
    assert order.call_deadline_at == DEADLINE
    pending = RecordCancellation(document_id=receipt.document_id, outcome=CancellationPending(), at=NOON)
    order = fold(evolve, order, decide_cancellation_outcome(order, pending))
    assert (InvoiceTimerKind.CANCELLATION, receipt.document_id, NOON + timedelta(hours=6)) in invoice_timers(order)
    refused = replace(pending, outcome=REFUSED)
    order = fold(evolve, order, decide_cancellation_outcome(order, refused))
    assert order.invoices.receipts[0].cancellation.status is CancellationStatus.REFUSED
    assert decide_document_cancellation(order, cancellation(document_id=receipt.document_id))


def test_a_cancellation_names_a_stamped_document_and_a_substitute_with_motive_01_alone():
    with pytest.raises(InvoiceNotReady):
        decide_document_cancellation(folded(SPLIT_FISCAL), cancellation())
    with pytest.raises(DocumentNotFound):
        decide_document_cancellation(STAMPED, cancellation(document_id=payment_id(1)))
    for motive, substitute in ((CancellationMotive.WITH_SUBSTITUTE, None), (CancellationMotive.NOT_CARRIED_OUT, NOON)):
        with pytest.raises(InvalidField, match="substitutedBy"):
            decide_document_cancellation(STAMPED, cancellation(motive=motive, substituted_by=substitute))
    receipt = STAMPED.invoices.receipts[0]
    itself = cancellation(
        motive=CancellationMotive.WITH_SUBSTITUTE,
        substituted_by=receipt.stamp.fiscal_uuid,
        document_id=receipt.document_id,
    )
    with pytest.raises(InvalidField, match="another document"):
        decide_document_cancellation(STAMPED, itself)


def test_the_deadline_of_a_receipt_is_the_fifth_of_the_next_month_and_is_warned_of_once():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]), answer=lambda _: REFUSED)
    due_at = receipt_due_at(order, NOON)
    assert due_at.isoformat() == "2026-02-06T05:59:59.999000+00:00"  # the end of 5 February in Mexico City
    warn = WarnOfDeadline(payment_id=payment_id(1), at=due_at - timedelta(hours=48), real_at=NOON)
    assert (InvoiceTimerKind.RECEIPT_DEADLINE, payment_id(1), warn.at) in invoice_timers(order)
    assert decide_deadline_warning(order, replace(warn, at=warn.at - timedelta(seconds=1))) == []
    (event,) = decide_deadline_warning(order, warn)
    warned = fold(evolve, order, [event])
    assert decide_deadline_warning(warned, warn) == []
    assert decide_deadline_warning(STAMPED, warn) == []
    assert STAMPED.invoices.receipts[0].receipt_due_at == due_at
    pending = folded([*SPLIT_FISCAL, *paid(1, 4000)])
    stamping = fold(evolve, pending, decide_next(pending, next_command()))
    assert decide_deadline_warning(stamping, warn) == [], "a document of the order is being stamped"
    assert decide_deadline_warning(stamping, replace(warn, real_at=DEADLINE)) != [], "its call has ended"
    silent = run(pending, answer=lambda _: SILENT)
    assert decide_deadline_warning(silent, warn) != [], "the outcome of the call is unknown"
    assert (InvoiceTimerKind.RECEIPT_DEADLINE, payment_id(1), warn.at) in invoice_timers(stamping)


def test_a_refund_of_a_refused_receipt_is_counted_as_pending():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]), request=None)
    order = fold(evolve, order, [refund_requested(1, 1000), refunded(1, 1000)])
    assert (summary(order).refund_event_count, summary(order).pending_credit_note_count) == (1, 1)
    order = run(order, answer=lambda _: REFUSED)
    assert summary(order).failed_credit_note_count == 1
    assert not summary(order).is_fully_stamped
