"""Composes the documents of an order: its invoices, the receipt of a payment, the credit note of a refund."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.invoices.concepts import UNKNOWN_PRODUCT, concepts_of
from ledger.domain.invoices.line_taxes import limits
from ledger.domain.invoices.movements import Part
from ledger.domain.invoices.parts import (
    TaxKey,
    credited_taxes,
    groups_of,
    key_of,
    paid_taxes,
    part_between,
    signed_sum,
    summed,
    taxes_between,
)
from ledger.domain.invoices.receivers import PAYMENT, missing_fields, receiver_of, refuse_missing, use_of_refund
from ledger.domain.money import ZERO, is_multiple, plain
from ledger.domain.orders.invoices.terms import Concept, CreditNoteTerms, InvoiceTerms, Issuer, ReceiptTerms, TaxAmount
from ledger.domain.orders.terms import FiscalData, LineItem, MethodType
from ledger.domain.rejections import AmountNotStampable

LATER: Final = "99"
"""SAT c_FormaPago of an invoice that is paid in parts: to be defined."""
_TRANSFER: Final = "03"
_BILLING_SERVICES: Final = "84111506"
"""SAT c_ClaveProdServ of the concept of a credit note."""
_ACTIVITY: Final = "ACT"
_REFUND: Final = "Devolución"
_CENTAVO: Final = Decimal(1)


def payment_form(method: MethodType, card_type: str | None) -> str:
    """Returns the SAT c_FormaPago of a payment (section 8): 28 for debit, 04 for any other card, 03 SPEI, 01 cash."""
    match method:
        case MethodType.CARD:
            return "28" if card_type == "DEBIT" else "04"
        case MethodType.SPEI:
            return _TRANSFER
        case MethodType.PAYCASH | MethodType.CIE_CASH_NET:
            return "01"


def refund_form(method: MethodType, card_type: str | None) -> str:
    """Returns the SAT c_FormaPago of a refund: that of the payout, not of the payment.

    A card is refunded to the card. Everything else, cash too, is paid out by transfer.
    """
    return payment_form(method, card_type) if method is MethodType.CARD else _TRANSFER


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
    replaces: UUID | None = None,
) -> InvoiceTerms:
    """Returns the invoice of an order, whose total is exactly `subtotal`. `payment_form` is stated for PUE only.
    `replaces` is the fiscal UUID of the cancelled invoice before it.

    Raises FiscalDataIncomplete, which names every missing field, and AmountNotStampable.
    """
    missing = missing_fields(receiver, issuer)
    form = LATER if method == "PPD" else payment_form or receiver.payment_form
    if form is None:
        missing.append("fiscalConfig.paymentForm")
    if currency != "MXN" and exchange_rate is None:
        missing.append("exchangeRate")
    refuse_missing(missing)
    assert form is not None, "a missing payment form is refused"
    total = _centavos(subtotal)
    concepts = concepts_of(lines, total, description, issuer)
    return InvoiceTerms(
        document_id=document_id,
        series=issuer.series,
        folio=folio,
        issued_at=issued_at,
        currency=currency,
        exchange_rate=None if currency == "MXN" else exchange_rate,
        payment_method=method,
        payment_form=form,
        receiver=receiver_of(receiver, issuer),
        concepts=concepts,
        subtotal=sum((concept.amount for concept in concepts), ZERO),
        discount=sum((concept.discount for concept in concepts), ZERO),
        taxes=summed(tax for concept in concepts for tax in concept.taxes),
        total=Decimal(total),
        replaces=replaces,
    )


def require_statable(lines: tuple[LineItem, ...], subtotal: Decimal, description: str | None, issuer: Issuer) -> None:
    """Raises AmountNotStampable if no invoice of this issuer can state the amounts of an order."""
    concepts_of(lines, _centavos(subtotal), description, issuer)


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
    start: Decimal,
) -> ReceiptTerms:
    """Returns the receipt of a payment. It states the invoice's taxes of the part from `start` on.

    `previous_balance` is the total less the amounts of earlier receipts plus those of earlier credit notes.

    Raises AmountNotStampable.
    """
    first, last = _ends(invoice, start, applied_amount)
    return ReceiptTerms(
        document_id=document_id,
        series=invoice.series,
        folio=folio,
        issued_at=issued_at,
        currency=invoice.currency,
        exchange_rate=invoice.exchange_rate,
        receiver=replace(invoice.receiver, cfdi_use=PAYMENT),
        invoice_id=invoice.document_id,
        fiscal_uuid=fiscal_uuid,
        invoice_series=invoice.series,
        invoice_folio=invoice.folio,
        payment_id=payment_id,
        paid_at=paid_at,
        payment_form=payment_form,
        installment=installment,
        previous_balance=previous_balance,
        applied_amount=applied_amount,
        remaining_balance=previous_balance - applied_amount,
        taxes=paid_taxes(invoice, first, last),
    )


def credit_note_terms(
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    invoice: InvoiceTerms,
    fiscal_uuid: UUID,
    payment_id: UUID,
    payment_event_id: UUID,
    whole: InvoiceTerms,
    parts: Sequence[Part],
    payment_form: str,
) -> CreditNoteTerms:
    """Returns the credit note of a refund. It takes back `parts` of `whole`, the order's invoice; `invoice` is the one
    that it belongs to, the order's or a further one.

    Raises AmountNotStampable.
    """
    concepts = _concepts_of(whole, parts, description=_REFUND, product_key=_BILLING_SERVICES)
    return CreditNoteTerms(
        document_id=document_id,
        series=invoice.series,
        folio=folio,
        issued_at=issued_at,
        currency=invoice.currency,
        exchange_rate=invoice.exchange_rate,
        payment_form=payment_form,
        receiver=replace(invoice.receiver, cfdi_use=use_of_refund(invoice.receiver.tax_system)),
        invoice_id=invoice.document_id,
        fiscal_uuid=fiscal_uuid,
        payment_id=payment_id,
        payment_event_id=payment_event_id,
        concepts=concepts,
        subtotal=sum((concept.amount for concept in concepts), ZERO),
        taxes=summed(tax for concept in concepts for tax in concept.taxes),
        total=_sum_of(parts),
    )


def further_invoice_terms(
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    whole: InvoiceTerms,
    payment_id: UUID,
    parts: Sequence[Part],
    replaces: UUID | None = None,
) -> InvoiceTerms:
    """Returns a further invoice of a split order (PPD), for money that came after a credit note: over `parts` of
    `whole`, the order's invoice. `replaces` is as in `invoice_terms`.

    Raises AmountNotStampable.
    """
    keys = {concept.product_key for concept in whole.concepts}
    number = f"{whole.series}-{whole.folio}" if whole.series else whole.folio
    concepts = _concepts_of(
        whole,
        parts,
        description=f"Parte de la factura {number} pagada de nuevo",
        product_key=keys.pop() if len(keys) == 1 else UNKNOWN_PRODUCT,
    )
    return replace(
        whole,
        document_id=document_id,
        folio=folio,
        issued_at=issued_at,
        payment_method="PPD",
        payment_form=LATER,
        concepts=concepts,
        subtotal=sum((concept.amount for concept in concepts), ZERO),
        discount=ZERO,
        taxes=summed(tax for concept in concepts for tax in concept.taxes),
        total=_sum_of(parts),
        replaces=replaces,
        supplements=whole.document_id,
        payment_id=payment_id,
    )


def _sum_of(parts: Sequence[Part]) -> Decimal:
    return sum((end - start for start, end in parts), ZERO)


def _concepts_of(
    invoice: InvoiceTerms, parts: Sequence[Part], *, description: str, product_key: str
) -> tuple[Concept, ...]:
    """Returns the concepts of parts of the invoice: each part has its own, so that each is within SAT's limits."""
    return tuple(
        concept
        for start, end in parts
        for concept in _part_of(invoice, start, end - start, description=description, product_key=product_key)
    )


def _ends(invoice: InvoiceTerms, paid: Decimal, amount: Decimal) -> tuple[int, int]:
    """Returns the amounts paid up to the beginning and up to the end of a part of the invoice.

    Raises AmountNotStampable.
    """
    assert 0 <= paid <= paid + amount <= invoice.total, "a document states a part of its invoice"
    start = _centavos(paid)
    return start, start + _centavos(amount)


def _part_of(
    invoice: InvoiceTerms, paid: Decimal, amount: Decimal, *, description: str, product_key: str
) -> tuple[Concept, ...]:
    """Returns the concepts of a part of the invoice, which come to exactly `amount`. Raises AmountNotStampable."""
    start, end = _ends(invoice, paid, amount)
    whole = {key_of(tax): tax for tax in invoice.taxes}
    taxes = {key_of(tax): tax for tax in _affordable(taxes_between(invoice, start, end), end - start)}
    bases = _bases_of_part(invoice, start, end, taxes)
    return tuple(
        Concept(
            description=description,
            quantity=Decimal(1),
            unit_price=base,
            amount=base,
            product_key=product_key,
            unit_key=_ACTIVITY,
            taxes=tuple(taxes[key] for key in keys if key in taxes)
            or credited_taxes((whole[key] for key in keys), base),
        )
        for keys, base in bases.items()
        if base
    )


def _bases_of_part(
    invoice: InvoiceTerms, start: int, end: int, taxes: Mapping[TaxKey, TaxAmount]
) -> dict[tuple[TaxKey, ...], Decimal]:
    """Returns the amounts of a part before taxes, grouped by their taxes. The largest group takes the rounding
    remainder.

    All taxes go into one concept in two cases: a tax occurs in two combinations, because its part is known only for
    both together; or the base of a combination rounds to zero.
    """
    whole = int(invoice.total)
    at = Fraction(start, whole), Fraction(end, whole)
    groups = groups_of(invoice.concepts)
    bases = {keys: part_between(net, *at) for keys, net in groups.items()}
    net = end - start - signed_sum(taxes.values())
    bases[max(bases, key=lambda keys: (bases[keys], groups[keys]))] += net - sum(bases.values())
    if all(base > 0 or (base == 0 and not taxes.keys() & set(keys)) for keys, base in bases.items()):
        return bases
    return {tuple(taxes): net}


def _affordable(taxes: Sequence[TaxAmount], total: int) -> list[TaxAmount]:
    """Returns the taxes of a part of `total` minor units, of which something is left for its concepts.

    Rounding can let the taxes of a few centavos use them up, while SAT accepts no concept of 0 (CFDI40166). They are
    lowered then, within SAT's limits; the list is empty if the limits leave nothing.
    """
    excess = signed_sum(taxes) + _CENTAVO - total
    found = []
    for tax in taxes:
        spare = ZERO if tax.withheld else tax.amount - limits(Fraction(tax.base), tax)[0]
        cut = min(max(excess, ZERO), spare)
        found.append(replace(tax, amount=tax.amount - cut))
        excess -= cut
    return [] if excess > 0 else found


def _centavos(amount: Decimal) -> int:
    """Returns an amount in whole minor units. Raises AmountNotStampable (section 8)."""
    if not is_multiple(amount, _CENTAVO):
        raise AmountNotStampable(f"{plain(amount)} has a fraction of a centavo, which no invoice can state.", "amount")
    return int(amount)
