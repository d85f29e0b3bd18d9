"""Which documents an order needs and when, in which order they are stamped, and what follows from each answer."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    NOON,
    SPEI,
    THREE_PERCENT,
    created,
    deposited,
    folded,
    paid,
    payment_id,
    reference_open,
    refund_requested,
    refunded,
)
from tests.domain.invoices.stamper import (
    DOWN,
    ENABLED,
    FISCAL,
    REFUSED,
    SILENT,
    SINGLE_FISCAL,
    SPLIT_FISCAL,
    documents_of,
    net_subtotal,
    next_command,
    run,
    stamped,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    EnableInvoicing,
    NotFound,
    RecordStamping,
    StampRequest,
    StampScope,
)
from ledger.domain.invoices.decide.stamping import PAUSES, decide_enabling, decide_next, decide_outcome
from ledger.domain.invoices.due import (
    InvoiceTimerKind,
    due_documents,
    invoice_status,
    invoice_timers,
    is_invoice_due,
    summary,
)
from ledger.domain.orders.events import OrderCancelled, PayerForgotten
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.orders.invoices.terms import InvoiceTrigger, InvoicingPolicy
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import AmountNotStampable, DocumentNotFound, FiscalDataIncomplete, InvalidField
from projections.orders.refunds import render_refunds

ALL = StampRequest()
POLICY = InvoicingPolicy(trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5)
PAID_IN_PARTS = (*SPLIT_FISCAL, *paid(1, 4000), *paid(2, 6000))
MINUTE = timedelta(minutes=1)


def test_an_order_without_fiscal_data_needs_no_documents():
    order = folded([created(), *paid(1, 10000)])
    assert not is_invoice_due(order)
    assert invoice_timers(order) == []
    assert decide_next(order, next_command()) == []


def test_an_order_of_one_payment_is_invoiced_once_it_is_paid_in_full():
    pending = folded(SINGLE_FISCAL)
    assert invoice_status(pending) is None
    assert run(pending).invoices.documents == ()
    order = folded([*SINGLE_FISCAL, *paid(1, 10000)])
    assert invoice_status(order) is DocumentStatus.PENDING
    order = run(order)
    assert documents_of(order) == [("INVOICE", 10000, "EMITTED")]
    (invoice,) = order.invoices.documents
    assert (invoice.terms.payment_method, invoice.terms.payment_form) == ("PUE", "04")


def test_a_split_order_has_an_invoice_and_a_receipt_for_each_capture():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]))
    assert documents_of(order) == [("INVOICE", 10000, "EMITTED"), ("REP", 1, 10000, 4000, 6000, "EMITTED")]
    order = run(fold(evolve, order, paid(2, 6000, 0, SPEI)))
    assert documents_of(order)[2:] == [("REP", 2, 6000, 6000, 0, "EMITTED")]
    assert [each.terms.payment_form for each in order.invoices.documents] == ["99", "04", "03"]
    assert summary(order).is_fully_stamped


def test_the_invoice_of_a_split_order_is_due_at_its_creation_where_the_merchant_chose_that():
    at_creation = (SPLIT_FISCAL[0], replace(ENABLED, trigger=InvoiceTrigger.CREATION))
    assert invoice_status(folded(SPLIT_FISCAL)) is None
    assert documents_of(run(folded(at_creation))) == [("INVOICE", 10000, "EMITTED")]
    assert not is_invoice_due(folded([*at_creation, OrderCancelled(at=NOON)]))


def test_a_refund_of_a_split_order_has_a_credit_note_that_reopens_the_balance():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000), refund_requested(1, 1000), refunded(1, 1000), *paid(3, 1000)]))
    assert documents_of(order)[2:] == [("CREDIT_NOTE", 1000, "EMITTED"), ("REP", 2, 7000, 1000, 6000, "EMITTED")]


def test_documents_leave_the_surcharge_out():
    surcharged = (created(allow_partials=True, fiscal=FISCAL, surcharge=THREE_PERCENT), ENABLED)
    order = run(folded([*surcharged, *paid(1, 4000, 120), refund_requested(1, 1000), refunded(1, 1000)]))
    assert documents_of(order)[1:] == [("REP", 1, 10000, 4000, 6000, "EMITTED"), ("CREDIT_NOTE", 971, "EMITTED")]


def test_a_payment_that_is_deposited_in_two_parts_has_two_receipts():
    order = folded([*SPLIT_FISCAL, *reference_open(1, 10000), deposited(1, 4000), deposited(1, 6000, "dep-2")])
    assert summary(order).captured_count == 1
    order = run(order)
    assert documents_of(order)[1:] == [("REP", 1, 10000, 4000, 6000, "EMITTED"), ("REP", 2, 6000, 6000, 0, "EMITTED")]
    assert summary(order).emitted_rep_count == 1


def test_an_overpayment_needs_no_document_and_its_refund_none_either():
    order = folded([*SPLIT_FISCAL, *reference_open(1, 10000), deposited(1, 10500)])
    order = fold(evolve, run(order), [refund_requested(1, 500), refunded(1, 500)])
    assert documents_of(run(order))[1:] == [("REP", 1, 10000, 10000, 0, "EMITTED")]
    assert summary(order).refund_event_count == 0
    assert summary(run(order)).is_fully_stamped


def test_a_stamped_credit_note_keeps_its_amount_when_a_deposit_divides_the_refund_anew():
    surcharged = (
        created(allow_partials=True, fiscal=FISCAL, surcharge=replace(THREE_PERCENT, methods=(SPEI,))),
        ENABLED,
    )
    half = [*reference_open(1, 100, 3), deposited(1, 50), refund_requested(1, 25), refunded(1, 25)]
    order = run(folded([*surcharged, *half]))
    before = order.invoices.credit_notes[0].terms
    order = run(fold(evolve, order, [deposited(1, 53, "dep-2")]))
    assert order.invoices.credit_notes[0].terms == before
    last = order.invoices.receipts[-1].terms
    assert last.previous_balance == 10000 - 49 + before.total
    assert last.applied_amount == 51
    assert order.invoices.applied() - order.invoices.credited() == net_subtotal(order)


def test_a_payment_of_two_receipts_counts_as_its_worse_one():
    order = run(folded([*SPLIT_FISCAL, *reference_open(1, 10000), deposited(1, 4000)]))
    order = fold(evolve, order, [deposited(1, 6000, "dep-2")])
    counts = summary(order)
    assert (counts.emitted_rep_count, counts.pending_rep_count, counts.failed_rep_count) == (0, 1, 0)
    counts = summary(run(order, answer=lambda _: REFUSED))
    assert (counts.emitted_rep_count, counts.pending_rep_count, counts.failed_rep_count) == (0, 0, 1)


def test_a_payment_that_is_being_refunded_is_not_counted():
    paid_once = [*SPLIT_FISCAL, *paid(1, 4000)]
    assert summary(folded(paid_once)).captured_count == 1
    assert summary(folded([*paid_once, refund_requested(1, 1000)])).captured_count == 0
    assert summary(folded([*paid_once, refund_requested(1, 1000), refunded(1, 1000)])).captured_count == 1


def test_a_credit_note_of_an_older_release_keeps_its_amount():
    """Its event does not have how the refund was divided, so that a deposit divides what the refund shows."""
    surcharged = (
        created(allow_partials=True, fiscal=FISCAL, surcharge=replace(THREE_PERCENT, methods=(SPEI,))),
        ENABLED,
    )
    order = folded(
        [*surcharged, *reference_open(1, 100, 3), deposited(1, 50), refund_requested(1, 25), refunded(1, 25)]
    )
    order = run(order)
    older = replace(order, payments=tuple(replace(each, frozen_refunds=()) for each in order.payments))
    total = older.invoices.credit_notes[0].terms.total
    after = fold(evolve, older, [deposited(1, 53, "dep-2"), refund_requested(1, 20, 2), refunded(1, 20, 2)])
    note = next(each for each in due_documents(after) if each.document is older.invoices.credit_notes[0])
    assert note.amount == total != -note.movement.change


def test_a_refund_that_a_document_states_is_never_divided_anew():
    surcharged = (
        created(allow_partials=True, fiscal=FISCAL, surcharge=replace(THREE_PERCENT, methods=(SPEI,))),
        ENABLED,
    )
    half = [*reference_open(1, 100, 3), deposited(1, 50), refund_requested(1, 25), refunded(1, 25)]
    before = folded([*surcharged, *half])
    after = run(before)
    shown = [json.loads(each) for each in render_refunds(after)]
    assert [(each["subtotalAmount"], each["surchargeAmount"]) for each in shown] == [(25, 0)]
    assert (after.amount_pending, after.amount) == (before.amount_pending, before.amount), "the document changes no sum"
    rest = [deposited(1, 53, "dep-2"), refund_requested(1, 60, 2), refunded(1, 60, 2)]
    order = run(fold(evolve, after, rest))
    unstamped = folded([*surcharged, *half, *rest])
    assert [json.loads(each)["subtotalAmount"] for each in render_refunds(unstamped)] == [24, 59]
    refunds = [json.loads(each) for each in render_refunds(order)]
    assert refunds[0] == shown[0]
    assert sum(each["subtotalAmount"] for each in refunds) == order.payments[0].refunded_split(order.quantum).subtotal
    assert [each.terms.total for each in order.invoices.credit_notes] == [each["subtotalAmount"] for each in refunds]


def test_a_refused_document_holds_the_later_ones_and_is_repeated_after_its_pauses():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]))
    order = run(fold(evolve, order, paid(2, 6000)), answer=lambda _: REFUSED)
    order = fold(evolve, order, [refund_requested(1, 1000), refunded(1, 1000)])
    order = run(order)
    assert [row[-1] for row in documents_of(order)] == ["EMITTED", "EMITTED", "FAILED", "PENDING"]
    assert order.invoices.next_document.failure.message == REFUSED.message
    at = NOON
    for pause in PAUSES:
        assert run(order, at + pause - MINUTE) == order
        at += pause
        assert (InvoiceTimerKind.STAMP, order.terms.order_id, at) in invoice_timers(order)
        order = run(order, at, answer=lambda _: REFUSED)
    assert [kind for kind, *_ in invoice_timers(order) if kind is InvoiceTimerKind.STAMP] == []
    assert order.invoices.next_document.attempts == 1 + len(PAUSES)
    assert [row[-1] for row in documents_of(run(order, at, ALL))] == ["EMITTED"] * 4


def test_a_provider_that_is_away_leaves_the_document_pending_and_is_asked_again():
    order = run(folded(PAID_IN_PARTS), answer=lambda _: DOWN)
    assert documents_of(order) == [("INVOICE", 10000, "PENDING")]
    assert run(order) == order
    assert [row[-1] for row in documents_of(run(order, NOON + MINUTE))] == ["EMITTED"] * 3


def test_a_document_without_an_answer_waits_for_its_look_up():
    order = run(folded(PAID_IN_PARTS), answer=lambda _: SILENT)
    invoice = order.invoices.invoice
    assert order.call_deadline_at == invoice.intent.deadline_at
    assert [kind for kind, *_ in invoice_timers(order) if kind is InvoiceTimerKind.STAMP] == []
    assert decide_next(order, next_command(NOON + timedelta(days=1), ALL)) == []
    found = fold(evolve, order, decide_outcome(order, record(invoice, stamped(invoice.document_id))))
    assert [row[-1] for row in documents_of(run(found))] == ["EMITTED"] * 3
    missing = fold(evolve, order, decide_outcome(order, record(invoice, NotFound())))
    assert [row[-1] for row in documents_of(run(missing))] == ["EMITTED"] * 3


def record(document, outcome):
    return RecordStamping(document_id=document.document_id, outcome=outcome, at=NOON)


def test_a_stamp_that_arrives_late_is_recorded_once():
    order = run(folded(PAID_IN_PARTS), answer=lambda _: DOWN)
    invoice = order.invoices.invoice
    events = decide_outcome(order, record(invoice, stamped(invoice.document_id)))
    order = fold(evolve, order, events)
    assert invoice_status(order) is DocumentStatus.EMITTED
    assert decide_outcome(order, record(invoice, REFUSED)) == []


def test_a_scope_stamps_its_documents_alone_and_never_overtakes_another():
    order = run(folded(PAID_IN_PARTS), request=StampRequest(scope=StampScope.INVOICE))
    assert [row[-1] for row in documents_of(order)] == ["EMITTED", "PENDING", "PENDING"]
    assert run(order, request=StampRequest(scope=StampScope.CREDIT_NOTES)) == order
    second = order.invoices.documents[2].document_id
    assert run(order, request=StampRequest(document_ids=(second,))) == order
    first = order.invoices.documents[1].document_id
    order = run(order, request=StampRequest(scope=StampScope.COMPLEMENTS, document_ids=(first,)))
    assert [row[-1] for row in documents_of(order)] == ["EMITTED", "EMITTED", "PENDING"]
    with pytest.raises(DocumentNotFound):
        decide_next(order, next_command(request=StampRequest(document_ids=(payment_id(1),))))


def test_missing_fiscal_data_blocks_a_timer_and_refuses_a_request():
    order = folded([created(allow_partials=True, fiscal=replace(FISCAL, tax_id=None)), ENABLED, *paid(1, 10000)])
    with pytest.raises(FiscalDataIncomplete) as refused:
        decide_next(order, next_command(request=ALL))
    assert refused.value.missing == ("fiscalConfig.taxId",)
    blocked = run(order)
    assert invoice_status(blocked) is DocumentStatus.FAILED
    assert (run(blocked), invoice_timers(blocked)[1:]) == (blocked, [])
    events = decide_enabling(blocked, EnableInvoicing(policy=POLICY, at=NOON, fiscal=FISCAL))
    assert [row[-1] for row in documents_of(run(fold(evolve, blocked, events)))] == ["EMITTED", "EMITTED"]


def test_a_request_before_the_invoice_is_due_is_refused_for_what_will_be_missing():
    order = folded([created(allow_partials=True, fiscal=replace(FISCAL, zip_code=None)), ENABLED])
    with pytest.raises(FiscalDataIncomplete):
        decide_next(order, next_command(request=ALL))
    assert decide_next(folded(SPLIT_FISCAL), next_command(request=ALL)) == []
    assert decide_next(folded(SINGLE_FISCAL), next_command(request=ALL)) == []


def test_an_amount_with_a_fraction_of_a_centavo_cannot_be_stamped():
    order = folded([created("150.75", fiscal=FISCAL), ENABLED, *paid(1, "150.75")])
    with pytest.raises(AmountNotStampable):
        decide_next(order, next_command(request=ALL))
    assert invoice_status(run(order)) is DocumentStatus.FAILED


def test_new_fiscal_data_changes_the_documents_that_are_not_stamped_and_no_other():
    order = run(folded(PAID_IN_PARTS), answer=lambda _: REFUSED)
    other = replace(FISCAL, tax_id="EKU9003173C9", legal_name="ESCUELA KEMPER URGATE")
    enable = EnableInvoicing(policy=POLICY, at=NOON, fiscal=other)
    order = run(fold(evolve, order, decide_enabling(order, enable)), request=ALL)
    assert {each.terms.receiver.tax_id for each in order.invoices.documents} == {"EKU9003173C9"}
    assert decide_enabling(order, enable) == []
    with pytest.raises(InvalidField, match=r"fiscalConfig\.taxId"):
        decide_enabling(order, replace(enable, fiscal=FISCAL))
    moved = replace(enable, fiscal=replace(other, zip_code="06000"))
    order = fold(evolve, order, [*decide_enabling(order, moved), refund_requested(1, 100), refunded(1, 100)])
    receivers = [each.terms.receiver.zip_code for each in run(order).invoices.documents]
    assert receivers == ["86991", "86991", "86991", "06000"]


def test_the_receiver_of_an_invoice_that_is_being_stamped_is_not_replaced():
    order = run(folded([*SINGLE_FISCAL, *paid(1, 10000)]), answer=lambda _: SILENT)
    other = replace(FISCAL, tax_id="EKU9003173C9", legal_name="ESCUELA KEMPER URGATE")
    with pytest.raises(InvalidField, match=r"fiscalConfig\.taxId"):
        decide_enabling(order, EnableInvoicing(policy=POLICY, at=NOON, fiscal=other))


def enabling(**given):
    return EnableInvoicing(policy=POLICY, at=NOON, fiscal=FiscalData(**given))


def test_a_partial_receiver_is_completed_by_that_of_the_order():
    order = folded([*SPLIT_FISCAL, *paid(1, 4000)])
    (event,) = decide_enabling(order, enabling(cfdi_use="G01", email="facturas@example.com"))
    assert event.fiscal == replace(FISCAL, cfdi_use="G01", email="facturas@example.com")
    again = run(fold(evolve, order, [event]))
    assert again.invoices.invoice.terms.receiver.cfdi_use == "G01"
    assert decide_enabling(again, enabling(cfdi_use="G01")) == []
    (other,) = decide_enabling(order, enabling(tax_id="XIA190128J61"))
    assert other.fiscal == FiscalData(tax_id="XIA190128J61"), "another taxpayer has nothing of the first"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"cfdi_use": "D01"}, ["cfdiUse"]),
        ({"tax_system": "605"}, ["taxSystem"]),
        ({"tax_system": "610"}, ["cfdiUse"]),
        ({"tax_system": "605", "cfdi_use": "D01"}, ["taxSystem", "cfdiUse"]),
    ],
)
def test_a_partial_receiver_is_checked_together_with_what_the_order_has(given, wrong):
    order = folded([*SPLIT_FISCAL, *paid(1, 4000)])
    with pytest.raises(InvalidField) as refused:
        decide_enabling(order, enabling(**given))
    assert [each.field for each in (refused.value, *refused.value.others)] == [f"fiscalConfig.{name}" for name in wrong]


def test_the_merchants_exchange_rate_is_for_orders_in_dollars_that_bring_none():
    dollars = created(allow_partials=True, fiscal=FISCAL, currency="USD")
    usual = replace(POLICY, usual_exchange_rate=Decimal("17.25"))
    given = EnableInvoicing(policy=usual, at=NOON)
    (event,) = decide_enabling(folded([dollars]), given)
    assert event.exchange_rate == Decimal("17.25")
    (pesos,) = decide_enabling(folded([created(fiscal=FISCAL)]), given)
    assert pesos.exchange_rate is None
    enabled = folded([dollars, event])
    moved = EnableInvoicing(policy=replace(POLICY, usual_exchange_rate=Decimal(18)), at=NOON)
    assert decide_enabling(enabled, moved) == [], "an order keeps its rate when the merchant's changes"
    own = EnableInvoicing(policy=replace(POLICY, exchange_rate=Decimal(19), usual_exchange_rate=Decimal(18)), at=NOON)
    (event,) = decide_enabling(enabled, own)
    assert event.exchange_rate == Decimal(19)


def test_a_document_that_is_too_old_to_be_stamped_gets_a_new_date_and_keeps_its_amounts():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]), answer=lambda _: DOWN)
    later = NOON + timedelta(hours=72)
    again = run(order, later)
    assert [each.terms.issued_at for each in again.invoices.documents] == [later, later]
    assert next(each.document_id for each in again.invoices.documents) == order.invoices.invoice.document_id
    assert again.invoices.receipts[0].terms.paid_at == NOON


def test_after_an_erasure_a_document_needs_a_receiver_again():
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]))
    order = fold(evolve, order, [PayerForgotten(at=NOON), *paid(2, 6000)])
    assert not any(each.has_receiver for each in order.invoices.documents)
    assert net_subtotal(order) == Decimal(10000)
    with pytest.raises(FiscalDataIncomplete):
        decide_next(order, next_command(request=ALL))
    enable = EnableInvoicing(policy=POLICY, at=NOON, fiscal=FISCAL)
    order = run(fold(evolve, order, decide_enabling(order, enable)), request=ALL)
    assert documents_of(order)[-1] == ("REP", 2, 6000, 6000, 0, "EMITTED")
