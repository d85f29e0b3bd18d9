"""One event of every topic about global invoices, with every field filled: of their stream, and of an order's.

As in `samples`, change a sample to fit its golden file.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from tests.journal.invoice_samples import AT, FISCAL_UUID, INVOICE_TERMS, LATER, RECEIVER

from ledger.domain.orders import events as orders
from ledger.domain.orders.global_invoices import events as globals_
from ledger.domain.orders.invoices.events import StampingAbandonedBecause
from ledger.domain.orders.invoices.terms import CancellationMotive, GlobalPeriod, Periodicity

GLOBAL, ORDER = (UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in (32, 1))
TERMS = replace(
    INVOICE_TERMS,
    document_id=GLOBAL,
    payment_method="PUE",
    payment_form="04",
    receiver=RECEIVER,
    supplements=None,
    payment_id=None,
    period=GlobalPeriod(year=2026, month=1, periodicity=Periodicity.FORTNIGHTLY, first_day=16),
    replaces_all=(FISCAL_UUID,),
)
OF_ORDERS: dict[str, Any] = {
    "included-in-global-invoice.v1": orders.IncludedInGlobalInvoice(
        global_invoice_id=GLOBAL, amount=Decimal(10000), at=AT
    ),
    "released-from-global-invoice.v1": orders.ReleasedFromGlobalInvoice(
        global_invoice_id=GLOBAL, cancelled_uuid=FISCAL_UUID, at=LATER
    ),
}
GLOBAL_INVOICES: dict[str, Any] = {
    "global-invoice-announced.v1": globals_.GlobalInvoiceAnnounced(
        global_invoice_id=GLOBAL,
        terms=TERMS,
        orders=(globals_.IncludedOrder(ORDER, Decimal(10000)),),
        at=AT,
    ),
    "global-stamping-requested.v1": globals_.GlobalStampingRequested(
        provider="sandbox", certificate="30001000000500003416", deadline_at=LATER, at=AT, issued_at=LATER
    ),
    "global-stamping-unanswered.v1": globals_.GlobalStampingUnanswered(reason="no answer", at=AT),
    "global-stamping-abandoned.v1": globals_.GlobalStampingAbandoned(
        because=StampingAbandonedBecause.NOT_FOUND, retry_at=LATER, at=AT
    ),
    "global-invoice-stamped.v1": globals_.GlobalInvoiceStamped(
        fiscal_uuid=FISCAL_UUID,
        invoice_id="sbx-global-1",
        stamped_at=AT,
        xml_key="m/d/u.xml",
        pdf_key="m/d/u.pdf",
        xml_sha256="ab" * 32,
        at=LATER,
    ),
    "global-invoice-refused.v1": globals_.GlobalInvoiceRefused(code="CFDI40999", message="No.", at=LATER),
    "global-cancellation-requested.v1": globals_.GlobalCancellationRequested(
        motive=CancellationMotive.WITH_SUBSTITUTE,
        substituted_by=FISCAL_UUID,
        provider="sandbox",
        deadline_at=LATER,
        at=AT,
    ),
    "global-cancellation-pending.v1": globals_.GlobalCancellationPending(at=AT, message="no answer", unanswered=True),
    "global-cancellation-refused.v1": globals_.GlobalCancellationRefused(code="204", message="No.", at=LATER),
    "global-invoice-cancelled.v1": globals_.GlobalInvoiceCancelled(at=LATER),
}
