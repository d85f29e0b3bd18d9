"""Draws up the documents that an order needs, with terms that are frozen from then on.

Ids and folios follow from the order and the document's slot: the same document drawn up twice is the same document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.invoices.commands import StampNext, wants_credit_notes, wants_invoice
from ledger.domain.invoices.documents import (
    LATER,
    credit_note_terms,
    further_invoice_terms,
    invoice_terms,
    payment_form,
    receipt_terms,
    refund_form,
)
from ledger.domain.invoices.due import (
    due_documents,
    has_invoice,
    is_invoice_due,
    receipt_due_at,
    takes_documents,
)
from ledger.domain.invoices.movements import DueDocument, DueKind, document_id_of, earlier_documents
from ledger.domain.invoices.paid_in_full import invoiced_subtotal, is_finished_by_release
from ledger.domain.invoices.receivers import receiver_of
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.events import UNNAMED, DocumentAnnounced
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Document, Invoices, invoice_terms_of
from ledger.domain.orders.invoices.terms import DocumentTerms, InvoiceFolio, InvoiceTerms, Issuer, Receiver
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import FiscalDataIncomplete, Rejected

FRESH: Final = timedelta(hours=48)
"""The greatest age of a document's date when it is stamped. SAT takes dates of the last 72 hours (CFF 29, IV)."""

_FOLIO_MAX: Final = 40
_RECEIVER_FIELDS: Final = ("tax_id", "legal_name", "tax_system", "zip_code", "email")


Failures = Sequence[tuple[str, Rejected]]
"""The slots of documents that cannot be drawn up, each with the reason."""


def new_documents(order: Order, command: StampNext) -> tuple[list[DocumentAnnounced], Failures]:
    """Returns the documents that are due and not announced yet, in their order, and those that cannot be drawn up.

    A request also replaces cancelled documents, brings the credit notes of an order that an older release invoiced, and
    draws up the invoice of an order that the release of a hold has finished. It fails if an invoice that is not due yet
    cannot be drawn up.
    """
    invoices, requested = order.invoices, command.request is not None
    invoice = None if invoices is None else invoices.invoice
    if invoice is None or (invoice.is_cancelled and wants_invoice(command.request)):
        is_due = is_invoice_due(order) or (wants_invoice(command.request) and is_finished_by_release(order))
        drawn, failed = _drawn([(INVOICE_SLOT, lambda: _invoice(order, command))] if is_due or requested else [])
        return (drawn if is_due else []), failed
    stamped = None if invoices is None else invoices.stamped_invoice
    if invoices is None or stamped is None or not takes_documents(order, invoices):
        return [], []
    wanted = []
    for due in due_documents(order):
        if due.document is not None or not _is_announced(order, command, due):
            continue
        if not has_invoice(invoices, due):
            break  # the documents of a split order are drawn up in their order
        wanted.append((due.slot, partial(_movement_document, order, command, due, invoices, stamped)))
    return _drawn(wanted, in_order=order.terms.allow_partials)


def _is_announced(order: Order, command: StampNext, due: DueDocument) -> bool:
    """Returns whether a timer or this request announces a document that is due."""
    request = command.request
    is_named = request is not None and document_id_of(order, due.slot) in request.document_ids
    wants_notes = is_named or wants_credit_notes(request)
    if due.on_request:
        return request is not None and (due.kind is not DueKind.CREDIT_NOTE or wants_notes)
    return order.terms.allow_partials or wants_notes


def _drawn(
    wanted: Sequence[tuple[str, Callable[[], DocumentAnnounced]]], *, in_order: bool = False
) -> tuple[list[DocumentAnnounced], Failures]:
    """Draws documents up. `in_order`: each shows a balance that depends on those before, and none follows a failure."""
    drawn: list[DocumentAnnounced] = []
    failed: list[tuple[str, Rejected]] = []
    for slot, draw in wanted:
        try:
            drawn.append(draw())
        except Rejected as reason:
            failed.append((slot, reason))
            if in_order:
                break
    return drawn, failed


def drawn_up_again(order: Order, command: StampNext, document: Document) -> list[DocumentAnnounced]:
    """Returns the new announcement of a document that was never stamped and whose receiver has changed or whose date is
    too old, or of an invoice whose order has changed. Amounts of other documents stay.

    Raises FiscalDataIncomplete, AmountNotStampable.
    """
    is_fresh = command.at - document.terms.issued_at < FRESH
    if isinstance(document.terms, InvoiceTerms) and document.terms.supplements is None:
        # Composing an invoice of a thousand lines takes long: compare its receiver first.
        receiver = receiver_of(order.fiscal or FiscalData(), command.issuer)
        is_same = document.has_receiver and receiver == document.terms.receiver
        is_same = is_same and not document.is_outdated and document.terms.total == invoiced_subtotal(order)
        return [] if is_fresh and is_same else [_invoice(order, command, document)]
    receiver = _receiver(order, document.terms.receiver)
    if is_fresh and receiver == document.terms.receiver:
        return []
    terms = replace(document.terms, issued_at=command.at, receiver=receiver)
    return [_announced(document.slot, terms, command.at, document.receipt_due_at)]


def _invoice(order: Order, command: StampNext, existing: Document | None = None) -> DocumentAnnounced:
    terms, invoices = order.terms, order.invoices
    document_id, folio = document_id_of(order, INVOICE_SLOT), _folio(order, INVOICE_SLOT, existing=existing)
    drawn = invoice_terms(
        document_id=document_id if existing is None else existing.document_id,
        folio=folio,
        issued_at=command.at,
        method="PPD" if terms.allow_partials else "PUE",
        currency=terms.currency,
        exchange_rate=None if invoices is None else invoices.enabled.exchange_rate,
        receiver=order.fiscal or FiscalData(),
        lines=terms.line_items,
        subtotal=invoiced_subtotal(order),
        description=terms.description,
        payment_form=_main_payment_form(order),
        issuer=_issuer(order, command.issuer),
        replaces=_replaced(order) if existing is None else invoice_terms_of(existing).replaces,
    )
    return _announced(INVOICE_SLOT, drawn, command.at)


def _issuer(order: Order, issuer: Issuer) -> Issuer:
    """Returns the issuer with the series of the merchant's setting, if there is one."""
    series = None if order.invoices is None else order.invoices.enabled.series
    return issuer if series is None else replace(issuer, series=series)


def _replaced(order: Order, slot: str = INVOICE_SLOT) -> UUID | None:
    """Returns the fiscal UUID of the slot's latest invoice, which was cancelled; None if this is its first one."""
    invoice = None if order.invoices is None else order.invoices.latest(slot)
    return None if invoice is None or invoice.stamp is None else invoice.stamp.fiscal_uuid


def _movement_document(
    order: Order, command: StampNext, due: DueDocument, invoices: Invoices, own: Document
) -> DocumentAnnounced:
    """Returns the announcement of a document beside the order's `own` invoice. Raises FiscalDataIncomplete after an
    erasure, AmountNotStampable.
    """
    movement, whole = due.movement, invoice_terms_of(own)
    whole = replace(whole, receiver=_receiver(order, whole.receiver))
    document_id, folio = document_id_of(order, due.slot), _folio(order, due.slot, due.suffix)
    if due.kind is DueKind.INVOICE:
        further = further_invoice_terms(
            document_id=document_id,
            folio=folio,
            issued_at=command.at,
            whole=whole,
            payment_id=movement.payment.payment_id,
            parts=due.parts,
            replaces=_replaced(order, due.slot),
        )
        return _announced(due.slot, further, command.at)
    invoice = invoices.latest(due.invoice_slot)
    assert invoice is not None, "the caller drew the invoice up before"
    assert invoice.stamp is not None, "the caller waits for the invoice's stamp"
    parent = replace(invoice_terms_of(invoice), receiver=whole.receiver)
    if due.is_receipt:
        receipt = receipt_terms(
            document_id=document_id,
            folio=folio,
            issued_at=command.at,
            invoice=parent,
            fiscal_uuid=invoice.stamp.fiscal_uuid,
            payment_id=movement.payment.payment_id,
            paid_at=movement.at,
            payment_form=_payment_form(movement.payment),
            installment=due.installment,
            previous_balance=due.balance,
            applied_amount=due.amount,
            start=due.parts[0][0] if parent.supplements is None else ZERO,
        )
        return _announced(due.slot, receipt, command.at, receipt_due_at(order, movement.at))
    assert movement.payment_event_id is not None, "a refund has an event"
    note = credit_note_terms(
        document_id=document_id,
        folio=folio,
        issued_at=command.at,
        invoice=parent,
        fiscal_uuid=invoice.stamp.fiscal_uuid,
        payment_id=movement.payment.payment_id,
        payment_event_id=movement.payment_event_id,
        whole=whole,
        parts=due.parts,
        payment_form=_refund_form(movement.payment),
    )
    announced = replace(_announced(due.slot, note, command.at), refunded=movement.refunded)
    if due.cause is movement:
        return announced
    cause = due.cause
    return replace(announced, cause_payment_id=cause.payment.payment_id, cause_refunded=cause.refunded)


def _receiver(order: Order, named: Receiver) -> Receiver:
    """Returns the receiver of a document that belongs to a stamped invoice: that of the invoice, with the fields that a
    later request gave. Raises FiscalDataIncomplete if the receiver was erased.
    """
    given = None if order.invoices is None else order.invoices.enabled.fiscal
    fields = {} if given is None else {name: getattr(given, name) for name in _RECEIVER_FIELDS}
    receiver = replace(named, **{name: value for name, value in fields.items() if value is not None})
    if given is not None and named == UNNAMED:
        receiver = replace(receiver, cfdi_use=given.cfdi_use or "")
    missing = [name for name in ("tax_id", "legal_name", "tax_system", "zip_code") if not getattr(receiver, name)]
    if missing:
        raise FiscalDataIncomplete(
            "The receiver of the document is incomplete: send fiscalConfig.", [_PUBLIC_NAMES[name] for name in missing]
        )
    return receiver


_PUBLIC_NAMES: Final = {
    "tax_id": "fiscalConfig.taxId",
    "legal_name": "fiscalConfig.legalName",
    "tax_system": "fiscalConfig.taxSystem",
    "zip_code": "fiscalConfig.zipCode",
}


def _announced(slot: str, terms: DocumentTerms, at: datetime, due_at: datetime | None = None) -> DocumentAnnounced:
    """Returns the event that freezes `terms`, with the receiver if it is sealed."""
    stored = replace(terms, receiver=UNNAMED)
    return DocumentAnnounced(slot=slot, terms=stored, receiver=terms.receiver, at=at, receipt_due_at=due_at)


def _folio(order: Order, slot: str, suffix: str = "", existing: Document | None = None) -> str:
    """Returns the folio of a slot's next document, which a counter may replace. One that exists keeps its folio, unless
    the order's invoice number has changed since.

    An invoice number that SAT does not take as a folio, with the suffix at most 40 characters without "|", gives way to
    the order's number.
    """
    if existing is not None and (existing.is_counted or not existing.is_outdated):
        return existing.terms.folio
    earlier = earlier_documents(order, slot) - (existing is not None)
    suffix += f"-R{earlier}" if earlier else ""
    by_invoice_number = order.invoices is not None and order.invoices.enabled.folio is InvoiceFolio.INVOICE_NUMBER
    number = " ".join((order.terms.invoice_number or "").split()) if by_invoice_number else ""
    is_folio = number.isprintable() and "|" not in number and 0 < len(number) <= _FOLIO_MAX - len(suffix)
    return f"{number if is_folio else order.terms.order_number}{suffix}"


def _main_payment_form(order: Order) -> str:
    """Returns the form of the payment that brought most money (SAT's guide to CFDI 4.0, node FormaPago)."""
    paid = [payment for payment in order.payments if payment.captured]
    return _payment_form(max(paid, key=lambda payment: payment.captured)) if paid else LATER


def _payment_form(payment: Payment) -> str:
    method = payment.started.method
    return payment_form(method.type, None if method.card is None else method.card.type)


def _refund_form(payment: Payment) -> str:
    method = payment.started.method
    return refund_form(method.type, None if method.card is None else method.card.type)
