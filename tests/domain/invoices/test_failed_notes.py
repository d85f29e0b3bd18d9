"""Credit notes that fail: the way out for the merchant, the notes after them, and what the order shows of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.domain.builders import NOON, folded, paid
from tests.domain.invoices.stamper import (
    FISCAL,
    REFUSED,
    SILENT,
    SPLIT_FISCAL,
    documents_of,
    next_command,
    run,
    stamped,
)
from tests.domain.invoices.test_refunds_of_one_payment import (
    ALL,
    IN_MONTH,
    INVOICED,
    answered,
    bought,
    cancel,
    is_due,
    notes,
    returned,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    CancellationPending,
    Cancelled,
    EnableInvoicing,
    RecordStamping,
    Refused,
    RepeatCancellation,
    StampRequest,
    StillValid,
)
from ledger.domain.invoices.decide.cancellation import decide_repeated_cancellation
from ledger.domain.invoices.decide.stamping import decide_enabling, decide_next, decide_outcome
from ledger.domain.invoices.due import UNANSWERED_PAUSES, InvoiceTimerKind, due_documents, invoice_timers, summary
from ledger.domain.orders.events import PayerForgotten
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import DocumentCancellationRequested, InvoicingBlocked
from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.orders.invoices.terms import InvoiceTrigger, InvoicingPolicy
from ledger.domain.orders.state import Order
from ledger.domain.rejections import DocumentNotFound, InvoiceInUse
from projections.orders.invoices import render_stamp

POLICY = InvoicingPolicy(trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5)
DAY = timedelta(days=1)


def refuse(_: Any) -> Any:
    return REFUSED


def failed(order: Order) -> Order:
    """Returns the order after the provider has refused its note for good: no timer tries again."""
    at = NOON
    for _ in range(6):
        order = run(order, at, answer=refuse)
        at += DAY + timedelta(hours=1)
    assert not is_due(order)
    return order


def shown(order: Order) -> Any:
    return json.loads(render_stamp(order))


def erased(*events: Any) -> Order:
    """Returns an order with a stamped invoice whose payer was erased before `events`."""
    order = fold(evolve, bought(), [PayerForgotten(at=NOON), *events])
    return run(order)


@pytest.mark.parametrize(
    "order",
    [
        failed(bought(*returned(4000))),
        failed(fold(evolve, run(folded([*SPLIT_FISCAL, *paid(1, 10000)])), returned(4000))),
        erased(*returned(4000)),
    ],
    ids=["one payment", "split", "blocked"],
)
def test_a_note_that_was_never_stamped_does_not_lock_its_invoice(order: Order) -> None:
    for receipt in order.invoices.receipts:
        order = cancel(order, Cancelled(), document=receipt)
    order = cancel(order, Cancelled())
    assert order.invoices.invoice.is_cancelled
    assert (notes(order), shown(order)["creditNotes"]) == ([], [])
    assert not is_due(order)
    assert run(order, NOON + 30 * DAY) == order, "no note of a cancelled invoice is stamped"


def test_the_note_of_an_invoice_that_is_being_cancelled_waits_and_comes_after_a_refusal() -> None:
    order = run(bought(*returned(4000)), answer=refuse)
    order = cancel(order, CancellationPending())
    assert not is_due(order)
    assert run(order, NOON + DAY, ALL) == order
    order = answered(order, order.invoices.invoice.document_id, Refused("205", "No."))
    assert is_due(order)
    assert documents_of(run(order, NOON + DAY))[1:] == [("CREDIT_NOTE", 4000, "EMITTED")]


def test_a_note_that_may_be_stamped_at_the_provider_locks_its_invoice() -> None:
    order = run(bought(*returned(10000)), answer=lambda _: SILENT)
    with pytest.raises(InvoiceInUse):
        cancel(order)
    refused_once = run(bought(*returned(10000)), answer=refuse)
    again = run(refused_once, NOON + DAY, answer=lambda _: SILENT)
    with pytest.raises(InvoiceInUse):
        cancel(again)


def test_a_dropped_note_is_drawn_up_anew_with_the_next_invoice_under_another_id() -> None:
    order = failed(bought(*returned(4000)))
    (dropped,) = order.invoices.credit_notes
    order = run(cancel(order, Cancelled()), request=ALL)
    (note,) = order.invoices.credit_notes
    assert (note.terms.total, note.status.value, note.terms.invoice_id) == (
        4000, "EMITTED", order.invoices.invoice.document_id,
    )  # fmt: skip
    assert note.document_id != dropped.document_id


def test_a_stamp_of_a_dropped_note_that_arrives_late_is_shown() -> None:
    order = failed(bought(*returned(4000)))
    (note,) = order.invoices.credit_notes
    order = cancel(order, Cancelled())
    late = RecordStamping(document_id=note.document_id, outcome=stamped(note.document_id), at=NOON)
    order = fold(evolve, order, decide_outcome(order, late))
    assert [each["status"] for each in shown(order)["creditNotes"]] == ["EMITTED"]


def test_a_failed_note_is_stamped_once_its_data_are_mended() -> None:
    order = failed(bought(*returned(4000)))
    mended = EnableInvoicing(policy=POLICY, at=NOON, fiscal=msgspec.structs.replace(FISCAL, zip_code="06000"))
    order = run(fold(evolve, order, decide_enabling(order, mended)), request=ALL)
    assert documents_of(order)[1:] == [("CREDIT_NOTE", 4000, "EMITTED")]
    assert notes(order)[0].receiver.zip_code == "06000"


@pytest.mark.parametrize("split", [False, True])
def test_later_notes_are_issued_while_an_earlier_one_fails(split: bool) -> None:
    order = run(folded([*SPLIT_FISCAL, *paid(1, 10000)])) if split else bought()
    order = failed(fold(evolve, order, returned(4000)))
    order = fold(evolve, order, returned(1000, 2))
    assert is_due(order)
    order = run(order, NOON + 30 * DAY)
    assert documents_of(order)[-2:] == [("CREDIT_NOTE", 4000, "FAILED"), ("CREDIT_NOTE", 1000, "EMITTED")]
    assert documents_of(run(order, request=ALL))[-2:] == [
        ("CREDIT_NOTE", 4000, "EMITTED"),
        ("CREDIT_NOTE", 1000, "EMITTED"),
    ]
    assert sum(int(each.taxes[0].amount) for each in notes(order)) in {689, 690}


def test_a_receipt_waits_for_a_failed_note_whose_balance_it_shows() -> None:
    order = failed(fold(evolve, run(folded([*SPLIT_FISCAL, *paid(1, 6000)])), returned(4000)))
    order = run(fold(evolve, order, [*paid(2, 4000), *returned(1000, 2)]), NOON + 30 * DAY)
    assert [row[-1] for row in documents_of(order)[2:]] == ["FAILED", "PENDING", "PENDING"]
    order = run(order, NOON + 30 * DAY, ALL)
    assert [row[-1] for row in documents_of(order)[2:]] == ["EMITTED"] * 3


def test_a_request_tries_each_document_once_and_all_of_them() -> None:
    tried = []
    order = bought(*returned(4000), *returned(1000, 2), *returned(500, 3))

    def note_refused(document_id: Any) -> Any:
        tried.append(document_id)
        return REFUSED if len(tried) < 3 else stamped(document_id)

    order = run(order, request=ALL, answer=note_refused)
    assert [row[-1] for row in documents_of(order)[1:]] == ["FAILED", "FAILED", "EMITTED"]
    assert len(set(tried)) == 3
    named = order.invoices.documents[2].document_id
    order = run(order, request=StampRequest(document_ids=(named,)))
    assert [row[-1] for row in documents_of(order)[1:]] == ["FAILED", "EMITTED", "EMITTED"]


def test_a_blocked_note_holds_back_no_note_that_can_be_drawn_up() -> None:
    order = bought(*returned(4000))
    (slot,) = [each.movement.slot for each in due_documents(order)]
    reason = {"code": "AMOUNT_NOT_STAMPABLE", "message": "No."}
    order = fold(evolve, order, [InvoicingBlocked(**reason, at=NOON, slots=(slot,))])
    assert not is_due(order)
    order = fold(evolve, order, returned(1000, 2))
    assert is_due(order)
    events = decide_next(order, next_command())
    assert [type(each).__name__ for each in events] == ["DocumentAnnounced", "DocumentAnnounced", "StampingRequested"]


def test_a_blocked_note_is_shown_with_its_reason_and_the_id_that_it_will_have() -> None:
    order = erased(*returned(4000))
    (blocked,) = shown(order)["creditNotes"]
    assert (blocked["status"], blocked["failureCode"], blocked["amount"], blocked["attempts"]) == (
        "FAILED", "FISCAL_DATA_INCOMPLETE", 4000, 0,
    )  # fmt: skip
    assert run(order) == order
    mended = EnableInvoicing(policy=POLICY, at=NOON, fiscal=FISCAL)
    order = fold(evolve, order, decide_enabling(order, mended))
    with pytest.raises(DocumentNotFound):
        decide_next(order, next_command(request=StampRequest(document_ids=(order.terms.order_id,))))
    order = run(order, request=StampRequest(document_ids=(msgspec.convert(blocked["id"], type(order.terms.order_id)),)))
    (note,) = shown(order)["creditNotes"]
    assert (note["id"], note["status"]) == (blocked["id"], "EMITTED")


def test_a_note_that_cannot_be_drawn_up_again_is_shown_as_failed_and_counts_as_such() -> None:
    order = run(fold(evolve, run(folded([*SPLIT_FISCAL, *paid(1, 10000)])), returned(4000)), answer=refuse)
    order = run(fold(evolve, order, [PayerForgotten(at=NOON), *returned(1000, 2)]), NOON + DAY)
    assert [each["status"] for each in shown(order)["creditNotes"]] == ["FAILED", "FAILED"]
    assert summary(order).failed_credit_note_count == 2
    assert not is_due(order)
    assert all(each.status is not DocumentStatus.EMITTED for each in order.invoices.credit_notes)


def test_what_an_older_release_blocked_is_shown_and_waits_for_a_request() -> None:
    order = fold(
        evolve, bought(*returned(4000)), [InvoicingBlocked(code="FISCAL_DATA_INCOMPLETE", message="No.", at=NOON)]
    )
    assert [each["failureReason"] for each in shown(order)["creditNotes"]] == ["No."]
    assert not is_due(order)
    assert documents_of(run(order, request=ALL))[1:] == [("CREDIT_NOTE", 4000, "EMITTED")]


def again(order: Order, **changes: Any) -> Any:
    command = RepeatCancellation(
        document_id=order.invoices.invoice.document_id, provider="sandbox", deadline_at=NOON, at=NOON, **changes
    )
    return decide_repeated_cancellation(order, command)


def test_a_document_that_is_valid_after_a_lost_answer_is_not_refused_but_asked_for_again() -> None:
    order = bought(*returned(10000), begin=IN_MONTH)
    order = fold(evolve, order, decide_next(order, next_command()))
    invoice_id = order.invoices.invoice.document_id
    assert again(order) == [], "the call is open"
    pauses = []
    for _ in range(5):
        order = answered(order, invoice_id, StillValid("Vigente"))
        ((kind, about, at),) = invoice_timers(order)
        assert (kind, about) == (InvoiceTimerKind.CANCELLATION, invoice_id)
        pauses.append(at - NOON)
        assert run(order, NOON + DAY, ALL) == order, "no note while the outcome is unknown"
        (sent,) = again(order)
        assert isinstance(sent, DocumentCancellationRequested)
        assert (sent.motive, sent.for_refund) == ("03", True)
        order = fold(evolve, order, [sent])
    assert pauses == [*UNANSWERED_PAUSES, UNANSWERED_PAUSES[-1]]
    gone = answered(order, invoice_id, Cancelled())
    assert documents_of(run(gone)) == [INVOICED]
    kept = answered(order, invoice_id, Refused("204", "No cancelable."))
    assert documents_of(run(kept))[1:] == [("CREDIT_NOTE", 10000, "EMITTED")]
    assert answered(kept, invoice_id, Cancelled()).invoices.invoice.is_cancelled, "what SAT did is a fact"
    assert again(kept) == []


def test_a_cancellation_that_the_receiver_has_to_accept_is_asked_about_as_before() -> None:
    order = cancel(bought(), StillValid("Vigente"), CancellationPending())
    ((_, _, at),) = invoice_timers(order)
    assert at - NOON == timedelta(hours=6)


def test_a_manual_cancellation_before_the_refund_leaves_the_merchants_setting_in_force() -> None:
    order = cancel(bought(begin=IN_MONTH), Refused("204", "No cancelable."))
    order = fold(evolve, order, returned(10000))
    (asked,) = decide_next(order, next_command())
    assert isinstance(asked, DocumentCancellationRequested)
    order = answered(fold(evolve, order, [asked]), asked.document_id, Refused("204", "No cancelable."))
    order = cancel(order, Refused("204", "No cancelable."))
    assert documents_of(run(order))[1:] == [("CREDIT_NOTE", 10000, "EMITTED")], "it is asked for once"
    assert cancel(bought(*returned(10000), begin=IN_MONTH), CancellationPending()) == run(
        cancel(bought(*returned(10000), begin=IN_MONTH), CancellationPending())
    )
