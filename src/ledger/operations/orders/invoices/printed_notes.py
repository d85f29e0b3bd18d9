"""What a printed document shows of its order beside the stamped values."""

from __future__ import annotations

from typing import Final

from ledger.domain.ids import entry_id
from ledger.domain.orders.invoices.terms import CreditNoteTerms, DocumentTerms, InvoiceTerms
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.invoicing.pdf.notes import Notes

_UNSPECIFIED: Final = "unspecified"
"""The reason of a refund for which the merchant gave none."""


def printed_notes(order: Order, terms: DocumentTerms) -> Notes:
    """Returns how the money of a document was paid, and why it was refunded. An invoice that is paid in parts has
    neither.
    """
    if isinstance(terms, InvoiceTerms):
        paid = [payment for payment in order.payments if payment.captured]
        if terms.payment_method == "PPD" or not paid:
            return Notes()
        return Notes(paid_with=_paid_with(max(paid, key=lambda payment: payment.captured)))
    payment = order.payment(terms.payment_id)
    reason = _reason(order, terms) if isinstance(terms, CreditNoteTerms) else None
    return Notes(paid_with=_paid_with(payment), reason=reason)


def _paid_with(payment: Payment) -> str | None:
    card, reference = payment.started.method.card, payment.reference
    if card is not None:
        return f"{card.brand} •••• {card.last4}"
    return f"CLABE {reference.clabe}" if reference is not None and reference.clabe else None


def _reason(order: Order, terms: CreditNoteTerms) -> str | None:
    """Returns the reason of the refund that a credit note states."""
    for refund in order.refunds:
        part = refund.part(terms.payment_id)
        if part is not None and entry_id(part.payment_id, part.ordinal) == terms.payment_event_id:
            return None if refund.reason == _UNSPECIFIED else refund.reason
    return None
