"""Random baskets with every kind of tax, and the documents of an order: what the tests of invoices share."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.invoices.documents import credit_note_terms, invoice_terms, receipt_terms
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms, Issuer, ReceiptTerms
from ledger.domain.orders.terms import FiscalData, LineItem, Tax

NOON = datetime(2026, 3, 31, 18, 0, tzinfo=UTC)
INVOICE, PAYMENT, REFUND, FISCAL_UUID = (UUID(f"01890a5d-ac96-774b-bcce-b302099a90{n:02x}") for n in (1, 2, 3, 4))
ISSUER = Issuer(rfc="EKU9003173C9", legal_name="ESCUELA KEMPER URGATE", tax_system="601", zip_code="42501")
RECEIVER = FiscalData(
    tax_id="URE180429TM6",
    legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA",
    tax_system="601",
    cfdi_use="G03",
    zip_code="86991",
)


def tax(type_: str, rate: str, factor: str = "Tasa", *, withheld: bool = False) -> Tax:
    return Tax(type=type_, rate=Decimal(rate), factor=factor, withholding=withheld)


IVA16, IVA8, IVA0 = (tax("IVA", rate) for rate in ("0.16", "0.08", "0"))
EXEMPT = tax("IVA", "0", "Exento")
SPIRITS, SNACKS = tax("IEPS", "0.53"), tax("IEPS", "0.08")
TOBACCO = tax("IEPS", "1.6")
FUEL = tax("IEPS", "0.5", "Cuota")
ISR_FEES, IVA_FEES, ISR_TRUST = (
    tax("ISR", "0.1", withheld=True),
    tax("IVA", "0.106667", withheld=True),
    tax("ISR", "0.0125", withheld=True),
)
COMBINATIONS = (
    (IVA16,), (IVA8,), (IVA0,), (EXEMPT,), (), (SPIRITS, IVA16), (SNACKS, IVA0), (IVA16, ISR_FEES, IVA_FEES),
    (IVA16, ISR_TRUST), (TOBACCO, IVA16), (FUEL, IVA16), (EXEMPT, ISR_FEES), (SNACKS, IVA8, ISR_TRUST),
)  # fmt: skip


class Basket(Struct, frozen=True):
    """Lines that add up to `subtotal` as the interface counts them, or as they are stated."""

    lines: tuple[LineItem, ...]
    subtotal: Decimal


def line(unit_price: Decimal | int | str, quantity: Decimal | int | str = 1, **changes: Any) -> LineItem:
    fields: dict[str, Any] = {
        "description": "Café de altura", "product_key": "50201706", "unit_key": "H87", "tax_included": True,
        "taxes": (IVA16,),
    }  # fmt: skip
    return LineItem(unit_price=Decimal(unit_price), quantity=Decimal(quantity), **(fields | changes))


def basket(random: Random) -> Basket:
    """Returns lines of random taxes, prices from ten centavos to 90,000 pesos, and discounts."""
    lines = tuple(_line(random) for _ in range(random.choice((1, 1, 2, 3, 5, 12))))
    counted = sum((each.quantity * each.unit_price for each in lines), Decimal(0))
    if random.random() < 0.3:
        counted = sum((_stated(each) for each in lines), Decimal(0))
    return Basket(lines, max(Decimal(1), counted.quantize(Decimal(1), rounding=ROUND_HALF_UP)))


def _line(random: Random) -> LineItem:
    quantity = random.choice((Decimal(1), Decimal(1), Decimal(2), Decimal(7), Decimal("0.5"), Decimal("1.333333")))
    price = Decimal(random.choice((random.randint(10, 999), random.randint(1000, 9_000_000))))
    price += random.choice((Decimal(0), Decimal(0), Decimal("0.5"), Decimal("0.3333")))
    discount = random.choice((None, None, None, (price * quantity / random.randint(2, 20)).quantize(Decimal(1))))
    taxes = random.choice(COMBINATIONS)
    if FUEL in taxes:
        price += 200
    return line(price, quantity, discount=discount, taxes=taxes, tax_included=random.random() < 0.6)


def _stated(each: LineItem) -> Decimal:
    """Returns what the line comes to with taxes on top and after its discount."""
    price = each.quantity * each.unit_price - (each.discount or 0)
    if each.tax_included:
        return price
    if FUEL in each.taxes:
        return (price + each.quantity * 50) * Decimal("1.16")
    ieps = sum((t.rate for t in each.taxes if t.type == "IEPS"), Decimal(0))
    iva = sum((-t.rate if t.withholding else t.rate for t in each.taxes if t.type == "IVA"), Decimal(0))
    isr = sum((t.rate for t in each.taxes if t.type == "ISR"), Decimal(0))
    return price * (1 + ieps) * (1 + iva) - price * isr


def invoice(lines: tuple[LineItem, ...] = (), subtotal: Decimal | int = 10_000, **changes: Any) -> InvoiceTerms:
    fields: dict[str, Any] = {
        "document_id": INVOICE, "folio": "1001", "issued_at": NOON, "method": "PPD", "currency": "MXN",
        "exchange_rate": None, "receiver": RECEIVER, "description": None, "payment_form": None, "issuer": ISSUER,
    }  # fmt: skip
    return invoice_terms(lines=lines, subtotal=Decimal(subtotal), **(fields | changes))


def receipt(of: InvoiceTerms, previous: Decimal | int, applied: Decimal | int, installment: int = 1) -> ReceiptTerms:
    return receipt_terms(
        document_id=UUID(int=100 + installment),
        folio=f"{1001 + installment}",
        issued_at=NOON,
        invoice=of,
        fiscal_uuid=FISCAL_UUID,
        payment_id=PAYMENT,
        paid_at=NOON,
        payment_form="03",
        installment=installment,
        previous_balance=Decimal(previous),
        applied_amount=Decimal(applied),
        start=of.total - previous,
    )


def credit_note(of: InvoiceTerms, previous: Decimal | int, amount: Decimal | int) -> CreditNoteTerms:
    return credit_note_terms(
        document_id=UUID(int=300),
        folio="1300",
        issued_at=NOON,
        invoice=of,
        fiscal_uuid=FISCAL_UUID,
        payment_id=PAYMENT,
        payment_event_id=REFUND,
        whole=of,
        parts=((of.total - previous - amount, Decimal(of.total - previous)),),
        payment_form="03",
    )
