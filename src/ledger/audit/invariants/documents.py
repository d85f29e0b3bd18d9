"""The rules of an order's electronic invoices: what they state of its money, at every moment (I8, I9).

A cancelled document states nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from uuid import UUID

from ledger.audit.invariants.broken import Broken
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import Document, Invoices
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms, ReceiptTerms
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order


def broken_documents(order: Order) -> Iterator[Broken]:
    """Yields what an order's documents state otherwise than its money."""
    invoices = order.invoices
    if invoices is None or not invoices.documents:
        return
    for document in invoices.documents:
        yield from _broken_sums(document)
    yield from _broken_balances(order, invoices)
    yield from _broken_parts(order, invoices)


def _broken_sums(document: Document) -> Iterator[Broken]:
    """Yields the sums of one document that do not add up."""
    terms = document.terms
    if isinstance(terms, ReceiptTerms):
        if terms.previous_balance - terms.applied_amount != terms.remaining_balance or terms.remaining_balance < 0:
            yield Broken(
                "I9",
                f"receipt {terms.document_id} applies {terms.applied_amount} to {terms.previous_balance}, "
                f"and leaves {terms.remaining_balance}",
            )
        return
    discount = terms.discount if isinstance(terms, InvoiceTerms) else ZERO
    lines = sum([concept.amount for concept in terms.concepts], ZERO)
    taxes = sum([-tax.amount if tax.withheld else tax.amount for tax in terms.taxes], ZERO)
    if terms.concepts and lines != terms.subtotal:
        yield Broken("I9", f"document {terms.document_id} has lines over {lines}, and the subtotal {terms.subtotal}")
    if terms.subtotal - discount + taxes != terms.total:
        yield Broken("I9", f"document {terms.document_id} states the total {terms.total}, and its parts another one")


def _broken_balances(order: Order, invoices: Invoices) -> Iterator[Broken]:
    """Yields the invoices of which more is paid or credited than they are over (I8).

    A receipt may be cancelled before the credit note of what it stated: SAT asks for the order of an invoice alone.
    """
    totals: dict[UUID, Decimal] = {}
    applied: dict[UUID, Decimal] = {}
    withdrawn: dict[UUID, Decimal] = {}
    credited: dict[UUID, Decimal] = {}
    for document in invoices.current:
        match document.terms:
            case ReceiptTerms() as terms:
                sums = withdrawn if document.is_cancelled else applied
                sums[terms.invoice_id] = sums.get(terms.invoice_id, ZERO) + terms.applied_amount
            case InvoiceTerms() as terms if not document.is_cancelled:
                totals[terms.document_id] = terms.total
            case CreditNoteTerms() as terms if not document.is_cancelled:
                credited[terms.invoice_id] = credited.get(terms.invoice_id, ZERO) + terms.total
    for invoice_id, total in totals.items():
        paid, noted = applied.get(invoice_id, ZERO), credited.get(invoice_id, ZERO)
        was_paid = paid + withdrawn.get(invoice_id, ZERO)
        if paid - noted > total or noted > (was_paid or total):
            yield Broken(
                "I8", f"invoice {invoice_id} over {total} has receipts over {paid} and credit notes over {noted}"
            )
    returned = sum([payment.refunded_split(order.quantum).subtotal for payment in order.payments], ZERO)
    came_back = sum([part.amount for refund in order.refunds for part in refund.parts if part.came_back], ZERO)
    noted = sum(credited.values(), ZERO)
    if noted > returned + came_back:
        yield Broken("I8", f"the credit notes are over {noted}, and {returned} of the subtotal was refunded")


def _broken_parts(order: Order, invoices: Invoices) -> Iterator[Broken]:
    """Yields the receipts and credit notes that are over more than their payment captured or gave back (I9)."""
    stated: dict[UUID, list[Decimal]] = {}
    for document in invoices.valid:
        terms = document.terms
        if isinstance(terms, InvoiceTerms):
            continue
        sums = stated.setdefault(terms.payment_id, [ZERO, ZERO])
        if isinstance(terms, ReceiptTerms):
            sums[0] += terms.applied_amount
        else:
            sums[1] += terms.total
    for payment_id, (received, noted) in stated.items():
        if not order.has_payment(payment_id):
            yield Broken("I9", f"a document is about payment {payment_id}, which the order does not have")
            continue
        payment = order.payment(payment_id)
        captured = payment.captured_split(order.quantum).subtotal
        parts = [part for refund in order.refunds for part in refund.parts if part.payment_id == payment_id]
        given = sum([part.amount for part in parts if part.status is RefundStatus.SUCCEEDED or part.came_back], ZERO)
        if received > captured:
            yield Broken("I9", f"the receipts of payment {payment_id} are over {received}, and it captured {captured}")
        if noted > given + payment.charged_back:
            yield Broken("I9", f"the credit notes of payment {payment_id} are over {noted}, and it gave back {given}")
