"""The documents of a split order that is paid again after a refund, or paid beyond its price."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, THREE_PERCENT, created, folded, paid, refund_requested, refunded
from tests.domain.invoices.stamper import (
    ENABLED,
    FISCAL,
    REFUSED,
    SPLIT_FISCAL,
    check_split_order,
    documents_of,
    net_subtotal,
    run,
    stamped,
)
from tests.domain.invoices.test_refunds_of_one_payment import ALL, cancel

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import CancellationPending, Cancelled, EnableInvoicing, StampRequest, StampScope
from ledger.domain.invoices.decide.stamping import decide_enabling
from ledger.domain.invoices.due import InvoiceTimerKind, due_documents, invoice_timers, summary
from ledger.domain.orders.commands import ChangeOrder, OrderChanges
from ledger.domain.orders.decide.changes import decide_change
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.invoices.terms import (
    CreditNoteTerms,
    InvoiceTerms,
    InvoiceTrigger,
    InvoicingPolicy,
    ReceiptTerms,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import LineItem, MethodType, ReminderPolicy, Tax
from ledger.domain.rejections import InvalidField, InvoiceInUse, OrderInvoiced
from projections.orders.invoices import render_stamp

FIRST = [("INVOICE", 10000, "EMITTED"), ("REP", 1, 10000, 6000, 4000, "EMITTED"), ("CREDIT_NOTE", 2000, "EMITTED")]


def returned(payment: int, amount: int, refund: int) -> tuple[Any, ...]:
    return refund_requested(payment, amount, refund), refunded(payment, amount, refund)


def refunded_in_part() -> Order:
    """An order over 10,000 with 6,000 paid and 2,000 given back, all stamped."""
    order = run(folded([*SPLIT_FISCAL, *paid(1, 6000)]))
    return run(fold(evolve, order, returned(1, 2000, 2)))


def paid_again(order: Order | None = None) -> Order:
    return fold(evolve, order or refunded_in_part(), paid(3, 6000))


def all_documents(order: Order) -> tuple[Document, ...]:
    assert order.invoices is not None
    return order.invoices.documents


def test_money_that_no_invoice_states_gets_a_further_invoice_and_its_receipt() -> None:
    order = run(paid_again())
    assert documents_of(order) == [
        *FIRST,
        ("REP", 2, 6000, 4000, 2000, "EMITTED"),
        ("INVOICE", 2000, "EMITTED"),
        ("REP", 1, 2000, 2000, 0, "EMITTED"),
    ]
    check_split_order(order)
    *_, further, receipt = (each.terms for each in all_documents(order))
    assert isinstance(further, InvoiceTerms)
    assert isinstance(receipt, ReceiptTerms)
    assert (further.payment_method, further.payment_form, receipt.invoice_id) == ("PPD", "99", further.document_id)
    assert receipt.taxes == further.taxes
    assert [each.description for each in further.concepts] == ["Parte de la factura A-PO0000000001 pagada de nuevo"]
    assert len({each.terms.folio for each in all_documents(order)}) == 6
    assert run(order) == order
    assert run(order, request=ALL) == order


def test_the_order_shows_the_further_invoice_and_what_belongs_to_it() -> None:
    order = run(paid_again())
    document = json.loads(render_stamp(order))
    [further] = document["additionalInvoices"]
    assert (further["kind"], further["amount"], further["status"]) == ("INVOICE", 2000, "EMITTED")
    assert [each.get("invoiceId") for each in document["complements"]] == [None, None, further["id"]]
    assert [each["amount"] for each in document["complements"]] == [6000, 4000, 2000]
    assert document["fiscalUuid"] != further["fiscalUuid"]
    assert document["invoiceSummary"]["isFullyStamped"] is True
    assert "additionalInvoices" not in json.loads(render_stamp(refunded_in_part()))


def test_money_within_what_the_invoice_still_states_gets_no_further_invoice() -> None:
    order = run(fold(evolve, refunded_in_part(), paid(3, 4000)))
    assert documents_of(order) == [*FIRST, ("REP", 2, 6000, 4000, 2000, "EMITTED")]
    order = run(fold(evolve, order, paid(4, 2000)))
    assert documents_of(order)[4:] == [("INVOICE", 2000, "EMITTED"), ("REP", 1, 2000, 2000, 0, "EMITTED")]
    check_split_order(order)


def test_refunds_are_credited_to_the_latest_invoice_first() -> None:
    order = run(fold(evolve, run(paid_again()), returned(3, 3000, 4)))
    assert documents_of(order)[6:] == [("CREDIT_NOTE", 2000, "EMITTED"), ("CREDIT_NOTE", 1000, "EMITTED")]
    further, *_, first, second = (each.terms for each in all_documents(order)[4:])
    assert isinstance(first, CreditNoteTerms)
    assert isinstance(second, CreditNoteTerms)
    assert (first.invoice_id, second.invoice_id) == (further.document_id, all_documents(order)[0].document_id)
    assert first.payment_event_id == second.payment_event_id
    assert summary(order).refund_event_count == summary(order).emitted_credit_note_count == 2
    check_split_order(order)
    order = run(fold(evolve, order, paid(5, 3000)))
    assert documents_of(order)[8:] == [("INVOICE", 3000, "EMITTED"), ("REP", 1, 3000, 3000, 0, "EMITTED")]
    check_split_order(order)
    assert len({each.terms.folio for each in all_documents(order)}) == 10


@pytest.mark.parametrize("amounts", [(5999, 1777, 5001), (3333, 3332, 9999), (7, 3, 9996), (9999, 1, 2), (1, 1, 10000)])
def test_taxes_add_up_in_centavos(amounts: tuple[int, int, int]) -> None:
    taxes = (Tax(type="IVA", rate=Decimal("0.16"), factor="Tasa", withholding=False),)
    lines = tuple(
        LineItem(description=text, quantity=Decimal(1), unit_price=Decimal(price), tax_included=True, taxes=taxes[:n])
        for n, (text, price) in enumerate([("Libro", 3333), ("Taza", 6667)])
    )
    order = run(folded([created(allow_partials=True, fiscal=FISCAL, line_items=lines), ENABLED, *paid(1, amounts[0])]))
    order = run(fold(evolve, order, returned(1, amounts[1], 2)))
    order = run(fold(evolve, order, paid(3, amounts[2])))
    check_split_order(order)
    order = run(fold(evolve, order, returned(3, amounts[2] // 2 or 1, 4)))
    rest = int(order.terms.amount - net_subtotal(order))
    order = run(fold(evolve, order, paid(5, rest)))
    assert net_subtotal(order) == order.terms.amount
    check_split_order(order)


def test_the_receipt_waits_for_its_further_invoice_and_no_timer_turns_in_between() -> None:
    order = run(paid_again(), answer=lambda _: REFUSED)
    assert documents_of(order)[3:] == [("REP", 2, 6000, 4000, 2000, "FAILED"), ("INVOICE", 2000, "PENDING")]
    order = run(order, NOON + timedelta(hours=1), request=StampRequest(scope=StampScope.COMPLEMENTS))
    assert documents_of(order)[3:] == documents_of(run(paid_again()))[3:]

    def refuse_invoices(document_id: Any) -> Any:
        [document] = [each for each in all_documents(run(paid_again())) if each.document_id == document_id]
        return REFUSED if isinstance(document.terms, InvoiceTerms) else stamped(document_id)

    order = run(paid_again(), answer=refuse_invoices)
    assert documents_of(order)[4:] == [("INVOICE", 2000, "FAILED")]
    [stamp_at] = [at for kind, _, at in invoice_timers(order) if kind is InvoiceTimerKind.STAMP]
    assert stamp_at > NOON
    assert json.loads(render_stamp(order))["additionalInvoices"][0]["failureCode"] == REFUSED.code
    order = run(fold(evolve, order, returned(3, 3000, 4)))
    assert documents_of(order)[4:] == [("INVOICE", 2000, "FAILED")]  # what follows waits
    order = run(order, stamp_at + timedelta(days=3))
    assert documents_of(order)[4:6] == [("INVOICE", 2000, "EMITTED"), ("REP", 1, 2000, 2000, 0, "EMITTED")]
    assert documents_of(order)[6:] == [("CREDIT_NOTE", 2000, "EMITTED"), ("CREDIT_NOTE", 1000, "EMITTED")]


def test_a_further_invoice_is_cancelled_after_its_receipt_and_drawn_up_anew_on_request() -> None:
    order = run(paid_again())
    *_, further, receipt = all_documents(order)
    with pytest.raises(InvoiceInUse):
        cancel(order, Cancelled(), document=further)
    order = cancel(cancel(order, Cancelled(), document=receipt), Cancelled(), document=further)
    assert run(order) == order
    order = run(order, request=ALL)
    *_, again, receipt = all_documents(order)
    assert isinstance(again.terms, InvoiceTerms)
    assert further.stamp is not None
    assert again.terms.replaces == further.stamp.fiscal_uuid
    assert (again.terms.total, receipt.terms.invoice_id) == (2000, again.document_id)  # type: ignore[union-attr]
    check_split_order(order)


def test_the_receiver_and_the_lines_stay_while_a_further_invoice_states_them() -> None:
    """The order's own invoice is cancelled; what it is drawn up with again has to fit the further one."""
    order = run(paid_again())
    own, first, note, second, further, receipt = all_documents(order)
    for document in (second, note, first, own):
        order = cancel(order, Cancelled(), document=document)
    policy = InvoicingPolicy(trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5)
    other = replace(FISCAL, tax_id="CACX7605101P8", tax_system="612")
    lines = (LineItem(description="Libro", quantity=Decimal(1), unit_price=Decimal(10000), tax_included=True),)
    enable = EnableInvoicing(policy=policy, at=NOON, fiscal=other)
    changes = [
        ChangeOrder(changes=OrderChanges(**each), reminders=ReminderPolicy(days=(), time_zone="UTC"), at=NOON)
        for each in ({"fiscal": other}, {"line_items": lines})
    ]
    with pytest.raises(InvalidField, match="that of the invoice"):
        decide_enabling(order, enable)
    for change in changes:
        with pytest.raises(OrderInvoiced, match="further invoice"):
            decide_change(order, change)
    for document in (receipt, further):
        order = cancel(order, Cancelled(), document=document)
    assert decide_enabling(order, enable)
    assert all(decide_change(order, change) for change in changes)


def test_a_further_invoice_that_was_not_stamped_is_dropped_with_the_orders_own() -> None:
    order = run(paid_again(), answer=lambda _: REFUSED)
    documents = all_documents(order)
    for document in (documents[1], documents[2], documents[0]):
        order = cancel(order, CancellationPending(), document=document)
        order = cancel(order, Cancelled(), document=document)
    assert order.invoices is not None
    assert order.invoices.further_invoices == ()
    assert run(order, NOON + timedelta(days=1)) == order
    order = run(order, NOON + timedelta(days=1), request=ALL)
    assert documents_of(order)[5:] == documents_of(run(paid_again()))
    check_split_order(order)


def test_an_order_whose_receipts_an_earlier_release_let_exceed_the_invoice_gets_no_further_document() -> None:
    order = run(paid_again())
    *_, receipt, _, _ = all_documents(order)
    terms = replace(receipt.terms, applied_amount=Decimal(6000), remaining_balance=Decimal(0))
    assert order.invoices is not None
    older = replace(order.invoices, documents=(*order.invoices.documents[:3], replace(receipt, terms=terms)))
    order = replace(order, invoices=older)
    assert run(order, request=ALL) == order
    order = run(fold(evolve, order, returned(3, 1000, 4)))
    assert documents_of(order)[4:] == [("CREDIT_NOTE", 1000, "EMITTED")]
    order = run(fold(evolve, order, paid(5, 1000)))
    assert documents_of(order)[5:] == [("INVOICE", 1000, "EMITTED"), ("REP", 1, 1000, 1000, 0, "EMITTED")]


def overpaid() -> Order:
    """An order over 10,000 with a card's 6,000 and a transfer of 6,000, of which 2,000 are beyond its price."""
    order = folded([*SPLIT_FISCAL, *paid(1, 6000), *paid(2, 6000, 0, MethodType.SPEI)])
    return run(order)


def test_the_credit_note_of_an_overpaid_order_is_about_the_refund_of_stated_money() -> None:
    order = run(fold(evolve, overpaid(), returned(1, 1000, 3)))
    assert len(all_documents(order)) == 3  # the order holds its price
    order = run(fold(evolve, order, returned(2, 2000, 4)))
    [note] = (each.terms for each in all_documents(order)[3:])
    assert isinstance(note, CreditNoteTerms)
    assert (note.total, note.payment_id, note.payment_form) == (1000, order.payments[0].payment_id, "04")
    check_split_order(order)
    order = run(fold(evolve, order, returned(1, 5000, 5)))
    assert [(each.terms.payment_id, int(each.terms.total)) for each in all_documents(order)[3:]] == [  # type: ignore[union-attr]
        (order.payments[0].payment_id, 1000),
        (order.payments[0].payment_id, 5000),
    ]
    check_split_order(order)


def test_a_refund_can_have_two_credit_notes_if_the_overpayment_goes_back_later() -> None:
    order = run(fold(evolve, overpaid(), returned(1, 3000, 3)))
    assert documents_of(order)[3:] == [("CREDIT_NOTE", 1000, "EMITTED")]
    order = run(fold(evolve, order, returned(2, 2000, 4)))
    first, second = (each.terms for each in all_documents(order)[3:])
    assert isinstance(first, CreditNoteTerms)
    assert isinstance(second, CreditNoteTerms)
    assert (int(second.total), second.payment_event_id) == (2000, first.payment_event_id)
    assert first.folio != second.folio
    assert summary(order).refund_event_count == 1
    assert all(payment.frozen_refunds for payment in order.payments), "both refunds keep their division"
    check_split_order(order)
    assert [each.on_request for each in due_documents(order)] == [False] * 4


def test_an_overpaid_order_keeps_the_credit_notes_of_earlier_releases() -> None:
    order = run(fold(evolve, overpaid(), [*returned(1, 1000, 3), *returned(2, 2000, 4)]))
    assert order.invoices is not None
    *others, note = order.invoices.documents
    refund = order.refunds[1]
    older = replace(
        note,
        slot=f"credit-note:{refund.refund_id}:{refund.parts[0].payment_id}",
        terms=replace(note.terms, payment_id=refund.parts[0].payment_id),
    )
    order = replace(order, invoices=replace(order.invoices, documents=(*others, older)))
    assert run(order, request=ALL) == order
    order = run(fold(evolve, order, returned(1, 5000, 5)))
    assert documents_of(order)[4:] == [("CREDIT_NOTE", 5000, "EMITTED")]
    check_split_order(order)


def test_the_surcharge_of_money_that_comes_after_a_credit_note_stays_out_of_the_further_invoice() -> None:
    begin = (created(allow_partials=True, fiscal=FISCAL, surcharge=THREE_PERCENT), ENABLED)
    order = run(folded([*begin, *paid(1, 6000, 180)]))
    order = run(fold(evolve, order, returned(1, 1030, 2)))
    order = run(fold(evolve, order, paid(3, 5000, 150)))
    check_split_order(order)
    assert documents_of(order)[4:] == [("INVOICE", 1000, "EMITTED"), ("REP", 1, 1000, 1000, 0, "EMITTED")]
    assert [each["amount"] for each in json.loads(render_stamp(order))["complements"]] == [6180, 4150, 1000]
