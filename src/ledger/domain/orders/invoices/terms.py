"""The terms of a document: everything that a CFDI states, frozen in the event that announces it.

These shapes are stored inside events. Add a field only with a default, and never rename one: a changed meaning is a new
field. Amounts are in minor units of `currency`; times are in UTC.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

from ledger.py311_speedups import fast_members

PUBLIC_IN_GENERAL: Final = "XAXX010101000"
"""The RFC of a receiver who gives none (RMF 2.7.1.21)."""
FOREIGNER: Final = "XEXX010101000"
"""The RFC of a receiver who lives abroad and has none (RMF 2.7.1.23)."""

IVA: Final = "IVA"
ISR: Final = "ISR"
IEPS: Final = "IEPS"
RATE: Final = "Tasa"
FEE: Final = "Cuota"
EXEMPT: Final = "Exento"


@fast_members
class CancellationMotive(StrEnum):
    """SAT's reasons for a cancellation (c_MotivoCancelacion)."""

    WITH_SUBSTITUTE = "01"
    WITHOUT_SUBSTITUTE = "02"
    NOT_CARRIED_OUT = "03"
    IN_GLOBAL_INVOICE = "04"


class Issuer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant as the issuer of documents. `zip_code` is the place of issue, which gives the local time.

    `public_in_general`: an order whose customer gives no RFC is invoiced to the public in general. `iva_rate` is the
    IVA that a line without taxes contains; None: such a line is no object of tax.
    """

    rfc: str
    legal_name: str
    tax_system: str
    zip_code: str
    series: str = "A"
    public_in_general: bool = False
    iva_rate: Decimal | None = Decimal("0.16")


class Receiver(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The receiver of a document, complete. Personal data."""

    tax_id: str
    legal_name: str
    tax_system: str
    cfdi_use: str
    zip_code: str
    email: str | None = None


class TaxAmount(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A tax with its amount: `type` IVA, ISR or IEPS, `factor` Tasa, Cuota or Exento.

    `base` and `amount` are in minor units. Of a Cuota `base` is the quantity that is taxed, and `rate` is in pesos (or
    dollars) for one unit of it. An exempt tax has no amount: `rate` and `amount` are 0.
    """

    type: str
    factor: str
    rate: Decimal
    base: Decimal
    amount: Decimal
    withheld: bool = False


class Concept(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a document. `amount` is quantity × `unit_price` before `discount` and taxes (SAT's Importe).

    `unit_price` has up to four decimals of a minor unit. A concept without taxes is no object of tax (SAT
    c_ObjetoImp 01).
    """

    description: str
    quantity: Decimal
    unit_price: Decimal
    amount: Decimal
    product_key: str
    unit_key: str
    unit_name: str | None = None
    sku: str | None = None
    discount: Decimal = Decimal(0)
    taxes: tuple[TaxAmount, ...] = ()


@fast_members
class Periodicity(StrEnum):
    """How long the period of a global invoice is (SAT c_Periodicidad, 01 to 05)."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    FORTNIGHTLY = "FORTNIGHTLY"
    MONTHLY = "MONTHLY"
    BIMONTHLY = "BIMONTHLY"


class GlobalPeriod(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The period of a global invoice: a whole month, two of them from `month` on, or days of it from `first_day` on."""

    year: int
    month: int
    periodicity: Periodicity
    first_day: int = 1


class InvoiceTerms(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag="INVOICE"):
    """The invoice of an order (type I). `total` is the order's subtotal: the surcharge is not invoiced (section 8).

    `subtotal` is the sum of the concepts' amounts. `taxes` has each tax once, with its sums over the concepts.
    `replaces` is the fiscal UUID of the order's cancelled invoice before it (relation 04). A further invoice of a split
    order is over a part of it: `supplements` is the id of the order's invoice, `payment_id` the payment that it is for.
    With `period` it is the global invoice of many orders; `replaces_all` are the fiscal UUIDs of the cancelled global
    invoices that stated some of them (relation 04).
    """

    document_id: UUID
    series: str
    folio: str
    issued_at: datetime
    currency: str
    payment_method: Literal["PUE", "PPD"]
    payment_form: str
    receiver: Receiver
    concepts: tuple[Concept, ...]
    subtotal: Decimal
    total: Decimal
    discount: Decimal = Decimal(0)
    taxes: tuple[TaxAmount, ...] = ()
    exchange_rate: Decimal | None = None
    replaces: UUID | None = None
    supplements: UUID | None = None
    payment_id: UUID | None = None
    period: GlobalPeriod | None = None
    replaces_all: tuple[UUID, ...] = ()


class ReceiptTerms(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag="RECEIPT"):
    """The receipt of one payment on a PPD invoice (type P with the complement Pagos 2.0, a REP).

    `fiscal_uuid`, `invoice_series` and `invoice_folio` name the invoice. `taxes` are the payment's part of its taxes.
    """

    document_id: UUID
    series: str
    folio: str
    issued_at: datetime
    currency: str
    receiver: Receiver
    invoice_id: UUID
    fiscal_uuid: UUID
    invoice_series: str
    invoice_folio: str
    payment_id: UUID
    paid_at: datetime
    payment_form: str
    installment: int
    previous_balance: Decimal
    applied_amount: Decimal
    remaining_balance: Decimal
    taxes: tuple[TaxAmount, ...] = ()
    exchange_rate: Decimal | None = None


class CreditNoteTerms(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag="CREDIT_NOTE"):
    """The credit note of one refund on an invoice (type E, relation 01). `total` is the refund's subtotal part.

    `payment_event_id` names the refund event. `taxes` has each tax once, with its sums over the concepts.
    """

    document_id: UUID
    series: str
    folio: str
    issued_at: datetime
    currency: str
    payment_form: str
    receiver: Receiver
    invoice_id: UUID
    fiscal_uuid: UUID
    payment_id: UUID
    payment_event_id: UUID
    concepts: tuple[Concept, ...]
    subtotal: Decimal
    total: Decimal
    relation: str = "01"
    taxes: tuple[TaxAmount, ...] = ()
    exchange_rate: Decimal | None = None


class RefundedParts(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A payment's part of a refund, divided into subtotal and surcharge.

    `before` is what the payment had given back before it, gross.
    """

    before: Decimal
    subtotal: Decimal
    surcharge: Decimal


DocumentTerms: TypeAlias = InvoiceTerms | ReceiptTerms | CreditNoteTerms


class InvoiceTrigger(StrEnum):
    """When the parent invoice of a split order is stamped (contract N46)."""

    FIRST_CAPTURE = "FIRST_CAPTURE"
    CREATION = "CREATION"


class PueRefund(StrEnum):
    """What states the full refund of an order of one payment in the month of its invoice (PUE): a credit note, or the
    cancellation of the invoice. Every other refund gets a credit note.
    """

    CREDIT_NOTE = "CREDIT_NOTE"
    CANCEL_IN_MONTH = "CANCEL_IN_MONTH"


@fast_members
class InvoiceFolio(StrEnum):
    """What numbers a merchant's documents (SAT's Folio): the order's number, with a suffix on receipts and credit
    notes; a counter of the series over all documents; or the order's invoice number with the same suffixes.
    """

    ORDER_NUMBER = "ORDER_NUMBER"
    COUNTER = "COUNTER"
    INVOICE_NUMBER = "INVOICE_NUMBER"


class InvoicingPolicy(Struct, frozen=True, kw_only=True):
    """The merchant's settings that an order's invoices follow, as they are when the order is invoiced.

    `exchange_rate` is the request's, in pesos per unit of the order's currency; `usual_exchange_rate` is the
    merchant's, for an order in dollars that has none of its own. Without `series` the issuer's applies. `time_zone` is
    that of the place of issue.
    """

    trigger: InvoiceTrigger
    time_zone: str
    receipt_due_day: int
    pue_refund: PueRefund = PueRefund.CREDIT_NOTE
    exchange_rate: Decimal | None = None
    usual_exchange_rate: Decimal | None = None
    series: str | None = None
    folio: InvoiceFolio = InvoiceFolio.ORDER_NUMBER

    def rate_of(self, currency: str) -> Decimal | None:
        """Returns the rate of an order in this currency that has none of its own. Pesos need none."""
        return self.exchange_rate or (None if currency == "MXN" else self.usual_exchange_rate)
