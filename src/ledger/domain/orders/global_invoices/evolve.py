"""The fold of a global invoice: its state after one more event. Never refuse an event here."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from ledger.domain.orders.global_invoices.events import (
    GlobalCancellationPending,
    GlobalCancellationRefused,
    GlobalCancellationRequested,
    GlobalInvoiceAnnounced,
    GlobalInvoiceCancelled,
    GlobalInvoiceEvent,
    GlobalInvoiceRefused,
    GlobalInvoiceStamped,
    GlobalStampingAbandoned,
    GlobalStampingRequested,
    GlobalStampingUnanswered,
)
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices import cancellation
from ledger.domain.orders.invoices.state import (
    DocumentCancellation,
    DocumentFailure,
    DocumentStatus,
    Stamp,
    StampingIntent,
)


def evolve(invoice: GlobalInvoice | None, event: GlobalInvoiceEvent) -> GlobalInvoice:
    """Returns the global invoice after `event`. `invoice` is None before `GlobalInvoiceAnnounced`."""
    if isinstance(event, GlobalInvoiceAnnounced):
        return GlobalInvoice(
            global_invoice_id=event.global_invoice_id,
            terms=event.terms,
            orders=event.orders,
            created_at=event.at,
            updated_at=event.at,
            retry_at=event.at,
        )
    assert invoice is not None, "a stream begins with its announcement"
    invoice = replace(invoice, updated_at=event.at)
    match event:
        case GlobalStampingRequested():
            issued_at = event.issued_at or invoice.terms.issued_at
            return replace(
                invoice,
                terms=replace(invoice.terms, issued_at=issued_at),
                attempts=invoice.attempts + 1,
                retry_at=None,
                intent=StampingIntent(event.provider, event.deadline_at, event.certificate),
            )
        case GlobalStampingUnanswered():
            unknown = None if invoice.intent is None else replace(invoice.intent, unknown=True)
            return replace(invoice, intent=unknown)
        case GlobalStampingAbandoned():
            return replace(invoice, intent=None, retry_at=event.retry_at)
        case GlobalInvoiceStamped():
            stamp = Stamp(
                fiscal_uuid=event.fiscal_uuid,
                invoice_id=event.invoice_id,
                stamped_at=event.stamped_at,
                emitted_at=event.at,
                xml_key=event.xml_key,
                pdf_key=event.pdf_key,
                xml_sha256=event.xml_sha256,
            )
            return replace(invoice, status=DocumentStatus.EMITTED, stamp=stamp, intent=None, retry_at=None)
        case GlobalInvoiceRefused():
            failure = DocumentFailure(event.code, event.message, event.at)
            return replace(invoice, status=DocumentStatus.FAILED, failure=failure, intent=None, retry_at=None)
        case _:
            return replace(invoice, cancellation=_evolve_cancellation(invoice.cancellation, event))


_CancellationEvent = (
    GlobalCancellationRequested | GlobalCancellationPending | GlobalCancellationRefused | GlobalInvoiceCancelled
)


def _evolve_cancellation(before: DocumentCancellation | None, event: _CancellationEvent) -> DocumentCancellation:
    match event:
        case GlobalCancellationRequested():
            intent = StampingIntent(event.provider, event.deadline_at)
            return cancellation.requested(before, intent, event.motive, event.substituted_by, event.at)
        case GlobalCancellationPending():
            return cancellation.pending(before, event.at, unanswered=event.unanswered)
        case GlobalCancellationRefused():
            return cancellation.refused(before, event.code, event.message, event.at)
        case GlobalInvoiceCancelled():
            return cancellation.cancelled(before, event.at)
        case _:
            assert_never(event)
