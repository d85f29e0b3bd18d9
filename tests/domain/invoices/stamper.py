"""Stamps an order's documents in the core alone: decides, folds, and answers each call as a provider would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid5

from msgspec.structs import replace
from tests.domain.builders import DEADLINE, NOON, created

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    NotSent,
    RecordStamping,
    Refused,
    Stamped,
    StampingOutcome,
    StampNext,
    StampRequest,
    Unanswered,
)
from ledger.domain.invoices.decide.stamping import decide_next, decide_outcome
from ledger.domain.invoices.parts import TaxKey, key_of, summed
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import InvoicingEnabled
from ledger.domain.orders.invoices.terms import (
    CreditNoteTerms,
    InvoiceTerms,
    Issuer,
    PueRefund,
    ReceiptTerms,
    TaxAmount,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import FiscalData

ISSUER = Issuer(rfc="EKU9003173C9", legal_name="ESCUELA KEMPER URGATE", tax_system="601", zip_code="42501")
FISCAL = FiscalData(
    tax_id="URE180429TM6",
    legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA",
    tax_system="601",
    cfdi_use="G03",
    zip_code="86991",
)
ENABLED = InvoicingEnabled(at=NOON)
SPLIT_FISCAL = (created(allow_partials=True, fiscal=FISCAL), ENABLED)
SINGLE_FISCAL = (created(fiscal=FISCAL), replace(ENABLED, pue_refund=PueRefund.CREDIT_NOTE))
DOWN = NotSent()
SILENT = Unanswered("no answer")
REFUSED = Refused("CFDI40145", "El campo Nombre del receptor no corresponde.")


def stamped(document_id: UUID) -> Stamped:
    return Stamped(
        fiscal_uuid=uuid5(document_id, "fiscal"),
        invoice_id=f"pac-{document_id}",
        stamped_at=NOON,
        xml_key=f"{document_id}.xml",
        pdf_key=f"{document_id}.pdf",
        xml_sha256="0" * 64,
    )


def next_command(at: datetime = NOON, request: StampRequest | None = None, **changes: Any) -> StampNext:
    fields = {
        "issuer": ISSUER,
        "time_zone": "America/Mexico_City",
        "certificate": "30001000000500003416",
        "provider": "sandbox",
        "deadline_at": DEADLINE,
    }
    return StampNext(**(fields | changes), at=at, request=request)


def run(
    order: Order,
    at: datetime = NOON,
    request: StampRequest | None = None,
    answer: Callable[[UUID], StampingOutcome] = stamped,
) -> Order:
    """Returns the order after a timer or a request has stamped what it could, as the operation does it."""
    documents = () if order.invoices is None else order.invoices.documents
    before = {document.document_id: document.attempts for document in documents}
    while True:
        order = fold(evolve, order, decide_next(order, next_command(at, request, attempts_before=before)))
        started = None if order.invoices is None else order.invoices.next_document
        if started is None or started.intent is None:
            return order
        outcome = answer(started.document_id)
        record = RecordStamping(document_id=started.document_id, outcome=outcome, at=at)
        order = fold(evolve, order, decide_outcome(order, record))
        assert decide_outcome(order, record) == [], "an outcome is recorded once"
        if not isinstance(outcome, Stamped | Refused):
            return order


def documents_of(order: Order) -> list[tuple[Any, ...]]:
    """Returns what each document states, in the order of stamping: the kind, its amount, and a receipt's balances."""
    rows: list[tuple[Any, ...]] = []
    for document in () if order.invoices is None else order.invoices.documents:
        match document.terms:
            case InvoiceTerms(total=total):
                rows.append(("INVOICE", int(total), document.status.value))
            case ReceiptTerms(installment=n, previous_balance=before, applied_amount=amount, remaining_balance=after):
                rows.append(("REP", n, int(before), int(amount), int(after), document.status.value))
            case CreditNoteTerms(total=total):
                rows.append(("CREDIT_NOTE", int(total), document.status.value))
    return rows


def net_subtotal(order: Order) -> Decimal:
    """Returns the captured subtotal less the refunded one, by the order's own sums."""
    held = (
        payment.captured_split(order.quantum).subtotal - payment.refunded_split(order.quantum).subtotal
        for payment in order.payments
    )
    return sum(held, Decimal(0))


def check_split_order(order: Order) -> None:
    """Σ REP − Σ credit notes is what the order holds, with its taxes; invoices are paid once, and state the income."""
    assert order.invoices is not None
    terms = [each.terms for each in order.invoices.valid]
    invoices = [each for each in terms if isinstance(each, InvoiceTerms)]
    receipts = [each for each in terms if isinstance(each, ReceiptTerms)]
    notes = [each for each in terms if isinstance(each, CreditNoteTerms)]
    whole, held = invoices[0], min(net_subtotal(order), order.terms.amount)
    assert sum(each.applied_amount for each in receipts) - sum(each.total for each in notes) == held
    for invoice in invoices:
        its = [each.applied_amount for each in receipts if each.invoice_id == invoice.document_id]
        credited = [each.total for each in notes if each.invoice_id == invoice.document_id]
        assert sum(its) <= invoice.total
        assert sum(credited) <= sum(its)
        assert invoice is whole or sum(its) == invoice.total
        if sum(its) == invoice.total:
            taxes = [tax for each in receipts if each.invoice_id == invoice.document_id for tax in each.taxes]
            assert _amounts(summed(taxes)) == _amounts(invoice.taxes)
    if held == whole.total:
        assert sum(each.total for each in invoices) - sum(each.total for each in notes) == held
        taken = [replace(tax, amount=-tax.amount, base=-tax.base) for each in notes for tax in each.taxes]
        # SAT accepts no concept of 0: the taxes of a few centavos may be lowered by one
        lowered = sum(each.total < 20 for each in (*notes, *invoices[1:]))
        for documents in (receipts, invoices):
            sums = _amounts(summed([*(tax for each in documents for tax in each.taxes), *taken]))
            stated = _amounts(whole.taxes)
            assert all(abs(sums.get(key, 0) - stated.get(key, 0)) <= lowered for key in sums.keys() | stated.keys())


def _amounts(taxes: Iterable[TaxAmount]) -> dict[TaxKey, Decimal]:
    return {key_of(tax): tax.amount for tax in taxes if tax.amount}
