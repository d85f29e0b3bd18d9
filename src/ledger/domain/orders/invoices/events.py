"""The events of an order's electronic invoices: a part of the storage format of the order's stream.

Topics and fields are permanent (see `ledger.domain.orders.events`). A document's terms are frozen in the event that
announces it: no later event changes what a stamped document contains.

Amounts are in minor units of the order's currency. `at` is by the merchant's clock, `deadline_at` of a call is real
time.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.invoices import mail_events
from ledger.domain.orders.invoices.mail_events import MailEvent
from ledger.domain.orders.invoices.terms import (
    CancellationMotive,
    DocumentTerms,
    InvoiceFolio,
    InvoiceTrigger,
    PueRefund,
    Receiver,
    RefundedParts,
)
from ledger.domain.orders.terms import FiscalData
from ledger.py311_speedups import fast_members


@fast_members
class StampingAbandonedBecause(StrEnum):
    """Why a call to the stamping provider has no effect: it was never sent, or the provider does not know it."""

    NOT_SENT = "NOT_SENT"
    NOT_FOUND = "NOT_FOUND"


UNNAMED: Final = Receiver(tax_id="", legal_name="", tax_system="", cfdi_use="", zip_code="")
"""The receiver in stored terms, and of a document whose receiver was erased."""


class InvoicingEnabled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The order is to be invoiced: fiscal data came with its creation, or later with a request to stamp it.

    `fiscal` is the receiver that a later request gave; it replaces the receiver of all documents that are not stamped
    yet. `exchange_rate` is in pesos per unit of the order's currency. The other fields are the merchant's settings at
    this time: `time_zone` and `receipt_due_day` date the deadline of payment receipts. The zone is that of the place of
    issue, in events of earlier releases and without an issuer the merchant's own. `pue_refund` is for an order of one
    payment; it is absent in events of releases that gave such a refund no document: it gets one on request alone.
    `series` replaces the issuer's, `folio` is what numbers the documents.
    """

    at: datetime
    trigger: InvoiceTrigger = InvoiceTrigger.FIRST_CAPTURE
    time_zone: str = "America/Mexico_City"
    receipt_due_day: int = 5
    exchange_rate: Decimal | None = None
    fiscal: FiscalData | None = None
    pue_refund: PueRefund | None = None
    series: str | None = None
    folio: InvoiceFolio = InvoiceFolio.ORDER_NUMBER


class InvoicingBlocked(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A document was due and could not be drawn up, for example because fiscal data is missing.

    A request to stamp the order tries again. `slots` names what these documents are for; it is empty in events of
    releases that held back every document of the order.
    """

    code: str
    message: str
    at: datetime
    slots: tuple[str, ...] = ()


class DocumentAnnounced(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A document is to be stamped, with these terms. The same document again replaces terms that were never stamped.

    `slot` names what the document is for: the invoice, one receipt of money, or one refund. The receiver is in
    `receiver` alone, where it is sealed: that of `terms` is `UNNAMED`. `receipt_due_at` is the legal deadline of a
    payment receipt (contract N47). `refunded` is how the refund of a credit note is divided: from now on no receipt of
    money divides it anew. If a later refund, of another payment, made the credit note necessary, `cause_refunded` and
    `cause_payment_id` are the same of that one.
    """

    slot: str
    terms: DocumentTerms
    at: datetime
    receiver: Receiver | None = None
    receipt_due_at: datetime | None = None
    refunded: RefundedParts | None = None
    cause_payment_id: UUID | None = None
    cause_refunded: RefundedParts | None = None


class StampingRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the stamping provider to stamp the document: an intent.

    The call's idempotency key is the document's id. It ends at `deadline_at` (real time). `certificate` is the number
    of the certificate that seals the document: the same certificate gives the same XML again. `folio` is the number
    that the merchant's counter gives the document, once: it replaces that of the document's terms.
    """

    document_id: UUID
    provider: str
    certificate: str
    deadline_at: datetime
    at: datetime
    folio: str | None = None


class StampingUnanswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider did not answer in time: the outcome is unknown. Recovery looks the document up."""

    document_id: UUID
    reason: str
    at: datetime


class StampingAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider certainly has not stamped the document: it was never asked, or it does not know the document.

    The next attempt is due at `retry_at` by the merchant's clock.
    """

    document_id: UUID
    because: StampingAbandonedBecause
    retry_at: datetime
    at: datetime


class DocumentStamped(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider stamped the document, and its files are stored.

    `stamped_at` is the stamp's own time. `xml_sha256` is the SHA-256 of the stored XML, in hex. `mail` is True if the
    document is to be mailed; it is absent in events of releases that mailed none.
    """

    document_id: UUID
    fiscal_uuid: UUID
    invoice_id: str
    stamped_at: datetime
    xml_key: str
    pdf_key: str
    xml_sha256: str
    at: datetime
    mail: bool = False


class DocumentRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider refused the document. `code` and `message` are the provider's own words.

    The next attempt is due at `retry_at` by the merchant's clock; without it, only a request repeats the document.
    """

    document_id: UUID
    code: str
    message: str
    at: datetime
    retry_at: datetime | None = None


class ReceiptDeadlineNear(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A captured payment has no stamped payment receipt, and its legal deadline is near."""

    payment_id: UUID
    receipt_due_at: datetime
    at: datetime


class DocumentCancellationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the provider to cancel a stamped document: an intent.

    `substituted_by` is the fiscal UUID of the document that replaces it, with motive 01. The call ends at `deadline_at`
    (real time). The same request again follows one without a result: SAT answers both alike. `for_refund` is True if
    a refund of the whole order asks for it (`pueRefund` CANCEL_IN_MONTH), and no merchant.
    """

    document_id: UUID
    motive: CancellationMotive
    provider: str
    deadline_at: datetime
    at: datetime
    substituted_by: UUID | None = None
    for_refund: bool = False


class DocumentCancellationPending(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The cancellation has no result yet: the receiver has to accept it, or the provider did not answer.

    `unanswered` is True if it is unknown whether SAT has the request.
    """

    document_id: UUID
    at: datetime
    message: str | None = None
    unanswered: bool = False


class DocumentCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """SAT cancelled the document."""

    document_id: UUID
    at: datetime


class DocumentCancellationRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The document stays valid. `code` and `message` are the provider's own words."""

    document_id: UUID
    code: str
    message: str
    at: datetime


DocumentEvent = (
    StampingRequested
    | StampingUnanswered
    | StampingAbandoned
    | DocumentStamped
    | DocumentRefused
    | DocumentCancellationRequested
    | DocumentCancellationPending
    | DocumentCancelled
    | DocumentCancellationRefused
    | MailEvent
)
"""The events of one announced document."""

InvoiceEvent = InvoicingEnabled | InvoicingBlocked | DocumentAnnounced | ReceiptDeadlineNear | DocumentEvent

TOPICS: Final[dict[str, type[Struct]]] = {
    "invoicing-enabled.v1": InvoicingEnabled,
    "invoicing-blocked.v1": InvoicingBlocked,
    "document-announced.v1": DocumentAnnounced,
    "stamping-requested.v1": StampingRequested,
    "stamping-unanswered.v1": StampingUnanswered,
    "stamping-abandoned.v1": StampingAbandoned,
    "document-stamped.v1": DocumentStamped,
    "document-refused.v1": DocumentRefused,
    "receipt-deadline-near.v1": ReceiptDeadlineNear,
    "document-cancellation-requested.v1": DocumentCancellationRequested,
    "document-cancellation-pending.v1": DocumentCancellationPending,
    "document-cancelled.v1": DocumentCancelled,
    "document-cancellation-refused.v1": DocumentCancellationRefused,
    **mail_events.TOPICS,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    InvoicingEnabled: ("fiscal",),
    DocumentAnnounced: ("receiver",),
}
"""The fields that are stored sealed. After an erasure only the stored XML names the receiver (contract, section 8)."""
