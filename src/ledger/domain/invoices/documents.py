"""Composes the documents of an order: the invoice, the receipt of a payment, the credit note of a refund."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from ledger.domain.invoices.terms import CreditNoteTerms, InvoiceTerms, Issuer, ReceiptTerms
from ledger.domain.orders.terms import FiscalData, LineItem, MethodType


def payment_form(method: MethodType, card_type: str | None) -> str:
    """Returns the SAT c_FormaPago of a payment (section 8): 28 for debit, 04 for any other card, 03 SPEI, 01 cash."""
    match method:
        case MethodType.CARD:
            return "28" if card_type == "DEBIT" else "04"
        case MethodType.SPEI:
            return "03"
        case MethodType.PAYCASH | MethodType.CIE_CASH_NET:
            return "01"


def invoice_terms(
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    method: Literal["PUE", "PPD"],
    currency: str,
    exchange_rate: Decimal | None,
    receiver: FiscalData,
    lines: tuple[LineItem, ...],
    subtotal: Decimal,
    description: str | None,
    payment_form: str | None,
    issuer: Issuer,
) -> InvoiceTerms:
    """Returns the invoice of an order, whose total is exactly `subtotal`. `payment_form` counts for PUE only.

    Raises FiscalDataIncomplete, which names every missing field, and AmountNotStampable.
    """
    raise NotImplementedError


def receipt_terms(
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    invoice: InvoiceTerms,
    fiscal_uuid: UUID,
    payment_id: UUID,
    paid_at: datetime,
    payment_form: str,
    installment: int,
    previous_balance: Decimal,
    applied_amount: Decimal,
) -> ReceiptTerms:
    """Returns the receipt of a payment.

    `previous_balance` is the total less the amounts of earlier receipts plus those of earlier credit notes.

    Raises AmountNotStampable.
    """
    raise NotImplementedError


def credit_note_terms(
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    invoice: InvoiceTerms,
    fiscal_uuid: UUID,
    payment_id: UUID,
    payment_event_id: UUID,
    previous_balance: Decimal,
    amount: Decimal,
    payment_form: str,
) -> CreditNoteTerms:
    """Returns the credit note of a refund, `amount` in all. `previous_balance` is as in `receipt_terms`.

    Raises AmountNotStampable.
    """
    raise NotImplementedError
