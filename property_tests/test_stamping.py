"""Whatever moves an order's money, and however the provider answers: documents keep invariants I8 and I9 at every step.

Payments, refunds and stamps come in any order. Once everything is stamped, the receipts less the credit notes are the
order's net subtotal, and nothing is stamped twice.
"""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.domain.builders import NOON, created, deposited, folded, paid, reference_open, refund_requested, refunded
from tests.domain.invoices.stamper import (
    DOWN,
    ENABLED,
    FISCAL,
    REFUSED,
    SILENT,
    check_split_order,
    net_subtotal,
    run,
    stamped,
)

from ledger.audit.invariants.documents import broken_documents
from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    Cancelled,
    NotFound,
    RecordCancellation,
    RecordStamping,
    Refused,
    StampRequest,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome
from ledger.domain.invoices.decide.stamping import decide_outcome
from ledger.domain.invoices.due import summary
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.state import Document, DocumentStatus
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms, PueRefund, ReceiptTerms
from ledger.domain.orders.state import Order
from ledger.domain.orders.surcharge import quote
from ledger.domain.orders.terms import MethodType, SurchargePolicy
from projections.orders.refunds import render_refunds

steps = st.lists(
    st.one_of(
        st.tuples(st.just("pay"), st.integers(1, 4)),
        st.tuples(st.just("deposit"), st.integers(1, 5)),
        st.tuples(st.just("reference"), st.integers(1, 1)),
        st.tuples(st.just("late deposit"), st.integers(1, 4)),
        st.tuples(st.just("refund"), st.integers(1, 4)),
        st.tuples(st.just("stamp"), st.sampled_from(["ok", "ok", "refuse", "down", "silent", "ask"])),
        st.tuples(st.just("wait"), st.integers(1, 80)),
    ),
    max_size=16,
)
rates = st.sampled_from([None, "3", "3.5", "12.99"])


class Course:
    """An order that is paid, refunded and stamped step by step."""

    def __init__(self, amount: int, rate: str | None, pue_refund: PueRefund | None = None) -> None:
        surcharge = None if rate is None else SurchargePolicy(rate=Decimal(rate), methods=tuple(MethodType))
        order = created(amount, allow_partials=pue_refund is None, fiscal=FISCAL, surcharge=surcharge)
        self.order: Order = folded([order, replace(ENABLED, pue_refund=pue_refund)])
        self.now, self.ordinal = NOON, 0
        self.open: list[tuple[int, Decimal]] = []
        self.frozen: dict[object, object] = {}
        self.stated: dict[str, object] = {}

    def take(self, action: str, size: int | str) -> None:
        match action, size:
            case "pay", int():
                self._pay(size)
            case "deposit", int():
                self._deposit(size)
            case "reference", int():
                self._open_reference()
            case "late deposit", int():
                self._deposit_late(size)
            case "refund", int():
                self._refund(size)
            case "wait", int():
                self.now += timedelta(hours=size)
            case _:
                self._stamp(str(size))

    def _next(self) -> int:
        self.ordinal += 1
        return self.ordinal

    def _surcharge(self, subtotal: Decimal) -> Decimal:
        return quote(self.order.terms.surcharge, MethodType.CARD, subtotal, self.order.quantum)

    def _pay(self, quarters: int) -> None:
        subtotal = (self.order.unpaid_subtotal * quarters / 4).quantize(Decimal(1))
        if subtotal:
            self._append(paid(self._next(), subtotal, self._surcharge(subtotal)))

    def _deposit(self, quarters: int) -> None:
        """A reference is paid in two deposits: together less than, exactly or more than what is due."""
        due = self.order.unpaid_subtotal
        amount = ((due + self._surcharge(due)) * quarters / 4).quantize(Decimal(1))
        if due and amount > 1:
            n = self._next()
            first = amount // 2
            self._append([*reference_open(n, due, self._surcharge(due)), deposited(n, first)])
            self._append([deposited(n, amount - first, "dep-2")])

    def _open_reference(self) -> None:
        if due := self.order.unpaid_subtotal:
            self.open.append((self._next(), due + self._surcharge(due)))
            self._append(reference_open(self.open[-1][0], due, self._surcharge(due)))

    def _deposit_late(self, quarters: int) -> None:
        """Money for a reference that was given out before: another payment may have paid the order meanwhile."""
        if self.open:
            n, amount = self.open.pop(0)
            if part := (amount * quarters / 4).quantize(Decimal(1)):
                self._append([deposited(n, part)])

    def _refund(self, quarters: int) -> None:
        for payment in reversed(self.order.payments):
            amount = (payment.refundable * quarters / 4).quantize(Decimal(1))
            if amount and payment.refundable >= amount:
                n, of = self._next(), self.order.payments.index(payment)
                numbers = [int(str(each.payment_id)[-2:], 16) for each in self.order.payments]
                self._append([refund_requested(numbers[of], amount, n), refunded(numbers[of], amount, n)])
                return

    def _stamp(self, word: str) -> None:
        answers = {"refuse": lambda _: REFUSED, "down": lambda _: DOWN, "silent": lambda _: SILENT}
        self._look_up()
        request = StampRequest() if word == "ask" else None
        before = (self.order.amount, self.order.amount_pending, self.order.surcharge_amount)
        self.order = run(self.order, self.now, request, answers.get(word, stamped))

        assert before == (self.order.amount, self.order.amount_pending, self.order.surcharge_amount)

    def _look_up(self) -> None:
        """Finds out about a call without an answer: of every other document that it was stamped."""
        document = None if self.order.invoices is None else self.order.invoices.next_document
        if document is not None and document.intent is not None:
            outcome = NotFound() if document.attempts % 2 else stamped(document.document_id)
            record = RecordStamping(document_id=document.document_id, outcome=outcome, at=self.now)
            self.order = fold(evolve, self.order, decide_outcome(self.order, record))

    def _append(self, events: object) -> None:
        self.order = fold(evolve, self.order, events)  # type: ignore[arg-type]

    def _emitted(self) -> list[Document]:
        """Returns the stamped documents. Each is stamped after those before it, a credit note also before other ones."""
        assert self.order.invoices is not None
        left: list[Document] = []
        emitted = []
        for document in self.order.invoices.documents:
            is_note = isinstance(document.terms, CreditNoteTerms)
            if document.status is not DocumentStatus.EMITTED:
                left.append(document)
                continue
            before = [each for each in left if not (is_note and isinstance(each.terms, CreditNoteTerms))]
            assert all(self.order.invoices.is_dropped(each) for each in before), "documents are stamped in their order"
            emitted.append(document)
        return emitted

    def check(self) -> None:
        invoices, total = self.order.invoices, self.order.terms.amount
        assert invoices is not None
        assert list(broken_documents(self.order)) == []
        emitted = self._emitted()
        balances: dict[object, Decimal] = {}
        receipts: dict[object, list[int]] = {}
        for document in invoices.documents:
            match document.terms:
                case InvoiceTerms(document_id=invoice_id):
                    balances[invoice_id], receipts[invoice_id] = document.terms.total, []
                case ReceiptTerms(invoice_id=invoice_id):
                    assert document.terms.previous_balance == balances[invoice_id]
                    balances[invoice_id] -= document.terms.applied_amount
                    receipts[invoice_id].append(document.terms.installment)
                case CreditNoteTerms(invoice_id=invoice_id):
                    balances[invoice_id] += document.terms.total
            assert 0 <= invoices.applied() - invoices.credited() <= total, "I8"
        assert all(each == [n for n, _ in enumerate(each, 1)] for each in receipts.values())
        counts = summary(self.order)
        assert counts.captured_count == counts.emitted_rep_count + counts.pending_rep_count + counts.failed_rep_count
        assert counts.refund_event_count == (
            counts.emitted_credit_note_count + counts.pending_credit_note_count + counts.failed_credit_note_count
        ), "I9"
        self._check_refunds()
        for document in emitted:
            facts = (document.terms, document.stamp)
            assert self.frozen.setdefault(document.document_id, facts) == facts, "a stamped document never changes"

    def _check_refunds(self) -> None:
        """What a refund shows stays as its credit note was announced, and the refunds add up to the order's own sums."""
        assert self.order.invoices is not None
        noted = {str(note.terms.payment_event_id) for note in self.order.invoices.credit_notes}
        shares = [each for refund in render_refunds(self.order) for each in json.loads(refund)["allocations"]]
        for share in shares:
            parts = (share["subtotalAmount"], share["surchargeAmount"])
            assert min(parts) >= 0
            if share["paymentEventId"] in noted:
                assert self.stated.setdefault(share["paymentEventId"], parts) == parts, "a frozen part changed"
        splits = [payment.refunded_split(self.order.quantum) for payment in self.order.payments]
        assert sum(each["subtotalAmount"] for each in shares) == sum(split.subtotal for split in splits)
        assert sum(each["surchargeAmount"] for each in shares) == sum(split.surcharge for split in splits)
        for payment, split in zip(self.order.payments, splits, strict=True):
            captured = payment.captured_split(self.order.quantum)
            assert 0 <= split.subtotal <= captured.subtotal
            assert 0 <= split.surcharge <= captured.surcharge
            if payment.refunded == payment.captured:
                assert split == captured, "a refund of everything gives back exactly the parts"


@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.long)])
def test_documents_add_up_at_every_step(examples):
    @settings(max_examples=examples, deadline=None)
    @given(st.integers(1, 200_000), rates, steps)
    def holds(amount, rate, drawn):
        course = Course(amount, rate)
        for action, size in drawn:
            course.take(action, size)
            course.check()
        course._look_up()
        order = run(run(course.order, course.now, StampRequest()), course.now, StampRequest())
        invoices = order.invoices
        if order.amount_paid:
            assert summary(order).is_fully_stamped
            assert len({each.stamp.fiscal_uuid for each in invoices.documents}) == len(invoices.documents)
            check_split_order(order)

    holds()


class SingleCourse(Course):
    """An order of one payment, whose refunds have credit notes. `paid_late`: money came after a credit note, or after the
    invoice's cancellation was sent.
    """

    paid_late = False

    def _append(self, events: object) -> None:
        before = self.order.amount_paid
        super()._append(events)
        invoices = self.order.invoices
        assert invoices is not None
        invoice = invoices.invoice
        ends = invoice is not None and (invoice.is_cancelled or invoice.is_being_cancelled)
        self.paid_late |= self.order.amount_paid > before and (ends or bool(invoices.credit_notes))

    def _look_up(self) -> None:
        """Finds out about a cancellation as well: every other one is refused."""
        super()._look_up()
        invoice = None if self.order.invoices is None else self.order.invoices.invoice
        if invoice is not None and invoice.is_being_cancelled:
            outcome = Cancelled() if self.ordinal % 2 else Refused("205", "No.")
            record = RecordCancellation(document_id=invoice.document_id, outcome=outcome, at=self.now)
            self.order = fold(evolve, self.order, decide_cancellation_outcome(self.order, record))

    def check(self) -> None:
        invoices, total = self.order.invoices, self.order.terms.amount
        assert invoices is not None
        assert invoices.receipts == ()
        assert list(broken_documents(self.order)) == []
        emitted = self._emitted()
        assert 0 <= invoices.credited() <= total
        shares = [each for refund in render_refunds(self.order) for each in json.loads(refund)["allocations"]]
        parts = {each["paymentEventId"]: each["subtotalAmount"] for each in shares}
        for note in invoices.credit_notes:
            assert 0 < note.terms.total <= parts[str(note.terms.payment_event_id)]
        self._check_refunds()
        for document in emitted:
            facts = (document.terms, document.stamp)
            assert self.frozen.setdefault(document.document_id, facts) == facts, "a stamped document never changes"


@given(st.integers(1, 200_000), rates, steps, st.sampled_from(PueRefund))
@settings(max_examples=200, deadline=None)
def test_credit_notes_of_one_payment_add_up_at_every_step(amount, rate, drawn, pue_refund):
    course = SingleCourse(amount, rate, pue_refund)
    for action, size in drawn:
        course.take(action, size)
        course.check()
    order = course.order
    while order != (order := _settled(course)):
        course.check()
    invoices, total = order.invoices, order.terms.amount
    if invoices.stamped_invoice is None:
        held = net_subtotal(order)
        assert held < total or course.paid_late, "an invoice of money that is held is stamped"
        assert invoices.credit_notes == ()
        return
    returned = total - min(max(net_subtotal(order), Decimal(0)), total)
    assert invoices.credited() == returned or (course.paid_late and invoices.credited() > returned)
    assert all(each.status is DocumentStatus.EMITTED for each in invoices.documents)


def _settled(course: SingleCourse) -> Order:
    """Returns the order after its open calls have ended and its documents are stamped by request."""
    course._look_up()
    invoices = course.order.invoices
    is_gone = invoices is not None and invoices.invoice is not None and invoices.invoice.is_cancelled
    course.order = run(course.order, course.now, None if is_gone else StampRequest())
    return course.order
