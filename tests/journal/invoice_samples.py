"""One event of every topic about an order's electronic invoices, with every field filled.

As in `samples`, change a sample to fit its golden file.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.domain.orders.invoices import events as invoices
from ledger.domain.orders.invoices import mail_events as mails
from ledger.domain.orders.invoices.terms import (
    CancellationMotive,
    Concept,
    CreditNoteTerms,
    InvoiceFolio,
    InvoiceTerms,
    InvoiceTrigger,
    PueRefund,
    ReceiptTerms,
    Receiver,
    RefundedParts,
    TaxAmount,
)
from ledger.domain.orders.terms import FiscalAddress, FiscalData

AT = datetime(2026, 1, 31, 18, 30, 15, 123456, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 18, 45, 15, tzinfo=UTC)
PAYMENT, ENTRY, INVOICE, RECEIPT, NOTE, FISCAL_UUID, OTHER_UUID = (
    UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in (4, 9, 10, 11, 12, 13, 14)
)
IVA = TaxAmount(type="IVA", factor="Tasa", rate=Decimal("0.16"), base=Decimal(8621), amount=Decimal(1379))
CONCEPT = Concept(
    description="Café de altura",
    quantity=Decimal(2),
    unit_price=Decimal("4360.5"),
    amount=Decimal(8721),
    discount=Decimal(100),
    product_key="50201706",
    unit_key="H87",
    unit_name="Pieza",
    sku="CAF-1",
    taxes=(IVA,),
)
RECEIVER = Receiver(
    tax_id="URE180429TM6",
    legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA",
    tax_system="601",
    cfdi_use="G03",
    zip_code="86991",
    email="facturas@example.com",
)
INVOICE_TERMS = InvoiceTerms(
    document_id=INVOICE,
    series="A",
    folio="PO4T8Q2M7X1K",
    issued_at=AT,
    currency="USD",
    payment_method="PPD",
    payment_form="99",
    receiver=invoices.UNNAMED,
    concepts=(CONCEPT,),
    subtotal=Decimal(8721),
    total=Decimal(10000),
    discount=Decimal(100),
    taxes=(IVA,),
    exchange_rate=Decimal("17.2545"),
    replaces=OTHER_UUID,
    supplements=INVOICE,
    payment_id=PAYMENT,
)
RECEIPT_TERMS = ReceiptTerms(
    document_id=RECEIPT,
    series="A",
    folio="PO4T8Q2M7X1K-1",
    issued_at=AT,
    currency="MXN",
    receiver=invoices.UNNAMED,
    invoice_id=INVOICE,
    fiscal_uuid=FISCAL_UUID,
    invoice_series="A",
    invoice_folio="PO4T8Q2M7X1K",
    payment_id=PAYMENT,
    paid_at=AT,
    payment_form="03",
    installment=1,
    previous_balance=Decimal(10000),
    applied_amount=Decimal(4000),
    remaining_balance=Decimal(6000),
    taxes=(IVA,),
)
CREDIT_NOTE_TERMS = CreditNoteTerms(
    document_id=NOTE,
    series="A",
    folio="PO4T8Q2M7X1K-1-1",
    issued_at=AT,
    currency="MXN",
    payment_form="03",
    receiver=invoices.UNNAMED,
    invoice_id=INVOICE,
    fiscal_uuid=FISCAL_UUID,
    payment_id=PAYMENT,
    payment_event_id=ENTRY,
    concepts=(CONCEPT,),
    subtotal=Decimal(8721),
    total=Decimal(10000),
    taxes=(IVA,),
)

INVOICES: dict[str, Any] = {
    "invoicing-enabled.v1": invoices.InvoicingEnabled(
        at=AT,
        trigger=InvoiceTrigger.CREATION,
        time_zone="America/Tijuana",
        receipt_due_day=10,
        pue_refund=PueRefund.CANCEL_IN_MONTH,
        exchange_rate=Decimal("17.2545"),
        series="WEB",
        folio=InvoiceFolio.COUNTER,
        fiscal=FiscalData(
            tax_id="URE180429TM6",
            legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA",
            tax_system="601",
            cfdi_use="G03",
            zip_code="86991",
            email="facturas@example.com",
            payment_form="04",
            address=FiscalAddress(street="Insurgentes Sur", country="MEX"),
        ),
    ),
    "invoicing-blocked.v1": invoices.InvoicingBlocked(
        code="FISCAL_DATA_INCOMPLETE",
        message="The document cannot be issued without fiscalConfig.taxId.",
        at=AT,
        slots=("invoice",),
    ),
    "document-announced.v1": invoices.DocumentAnnounced(
        slot="invoice",
        terms=INVOICE_TERMS,
        receiver=RECEIVER,
        at=AT,
        receipt_due_at=LATER,
        refunded=RefundedParts(before=Decimal(0), subtotal=Decimal(1000), surcharge=Decimal(30)),
        cause_payment_id=PAYMENT,
        cause_refunded=RefundedParts(before=Decimal(1030), subtotal=Decimal(2000), surcharge=Decimal(60)),
    ),
    "stamping-requested.v1": invoices.StampingRequested(
        document_id=INVOICE,
        provider="sandbox",
        certificate="30001000000500003416",
        deadline_at=LATER,
        at=AT,
        folio="12",
    ),
    "stamping-unanswered.v1": invoices.StampingUnanswered(document_id=INVOICE, reason="no answer", at=AT),
    "stamping-abandoned.v1": invoices.StampingAbandoned(
        document_id=INVOICE, because=invoices.StampingAbandonedBecause.NOT_SENT, retry_at=LATER, at=AT
    ),
    "document-stamped.v1": invoices.DocumentStamped(
        document_id=INVOICE,
        fiscal_uuid=FISCAL_UUID,
        invoice_id="65f0c1",
        stamped_at=AT,
        xml_key="m/d/u.xml",
        pdf_key="m/d/u.pdf",
        xml_sha256="ab" * 32,
        at=LATER,
        mail=True,
    ),
    "document-mail-requested.v1": mails.DocumentMailRequested(
        document_id=INVOICE, notifier="smtp", deadline_at=LATER, at=AT
    ),
    "document-mail-postponed.v1": mails.DocumentMailPostponed(
        document_id=INVOICE, code="DATA TIMEOUT", retry_at=LATER, at=AT, unknown=True
    ),
    "document-mailed.v1": mails.DocumentMailed(document_id=INVOICE, at=AT),
    "document-mail-dropped.v1": mails.DocumentMailDropped(
        document_id=INVOICE, because=mails.MailDroppedBecause.REFUSED, at=AT, code="RCPT 550 5.1.1"
    ),
    "document-refused.v1": invoices.DocumentRefused(
        document_id=INVOICE,
        code="CFDI40145",
        message="El campo Nombre del receptor no corresponde.",
        at=AT,
        retry_at=LATER,
    ),
    "receipt-deadline-near.v1": invoices.ReceiptDeadlineNear(payment_id=PAYMENT, receipt_due_at=LATER, at=AT),
    "document-cancellation-requested.v1": invoices.DocumentCancellationRequested(
        document_id=INVOICE,
        motive=CancellationMotive.WITH_SUBSTITUTE,
        provider="sandbox",
        deadline_at=LATER,
        at=AT,
        substituted_by=OTHER_UUID,
        for_refund=True,
    ),
    "document-cancellation-pending.v1": invoices.DocumentCancellationPending(
        document_id=INVOICE, at=AT, message="The provider did not answer in time.", unanswered=True
    ),
    "document-cancelled.v1": invoices.DocumentCancelled(document_id=INVOICE, at=AT),
    "document-cancellation-refused.v1": invoices.DocumentCancellationRefused(
        document_id=INVOICE, code="205", message="UUID No existe.", at=AT
    ),
}
