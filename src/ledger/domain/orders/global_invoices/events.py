"""The events of a global invoice: the storage format of its stream. None has personal data.

Topics and fields are permanent (see `ledger.domain.orders.events`). Amounts are in minor units of MXN. `at` is by the
merchant's clock, `deadline_at` of a call is real time.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.invoices.events import StampingAbandonedBecause
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoiceTerms


class IncludedOrder(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An order of a global invoice, and the subtotal that it held."""

    order_id: UUID
    amount: Decimal


class GlobalInvoiceAnnounced(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A global invoice is to be stamped, with these terms, which state these orders. The document's id is its own."""

    global_invoice_id: UUID
    terms: InvoiceTerms
    orders: tuple[IncludedOrder, ...]
    at: datetime


class GlobalStampingRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the stamping provider to stamp the document: an intent.

    The call's idempotency key is the document's id. It ends at `deadline_at` (real time). `certificate` seals the
    document. `issued_at` replaces the date of a document that was never stamped and is too old for SAT.
    """

    provider: str
    certificate: str
    deadline_at: datetime
    at: datetime
    issued_at: datetime | None = None


class GlobalStampingUnanswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider did not answer in time: the outcome is unknown, and the document is looked up."""

    reason: str
    at: datetime


class GlobalStampingAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider certainly has not stamped the document. The next attempt is due at `retry_at`."""

    because: StampingAbandonedBecause
    retry_at: datetime
    at: datetime


class GlobalInvoiceStamped(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider stamped the document, and its files are stored. The fields are those of `DocumentStamped`."""

    fiscal_uuid: UUID
    invoice_id: str
    stamped_at: datetime
    xml_key: str
    pdf_key: str
    xml_sha256: str
    at: datetime


class GlobalInvoiceRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The provider refused the document for good, in its own words. The same commit releases its orders."""

    code: str
    message: str
    at: datetime


class GlobalCancellationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the provider to cancel the stamped document: an intent.

    The fields are those of `DocumentCancellationRequested`.
    """

    motive: CancellationMotive
    provider: str
    deadline_at: datetime
    at: datetime
    substituted_by: UUID | None = None


class GlobalCancellationPending(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The cancellation has no result yet. `unanswered` is True if it is unknown whether SAT has the request."""

    at: datetime
    message: str | None = None
    unanswered: bool = False


class GlobalCancellationRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The document stays valid. `code` and `message` are the provider's own words."""

    code: str
    message: str
    at: datetime


class GlobalInvoiceCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """SAT cancelled the document. The same commit releases its orders, unless a substitute states them (motive 01)."""

    at: datetime


GlobalInvoiceEvent = (
    GlobalInvoiceAnnounced
    | GlobalStampingRequested
    | GlobalStampingUnanswered
    | GlobalStampingAbandoned
    | GlobalInvoiceStamped
    | GlobalInvoiceRefused
    | GlobalCancellationRequested
    | GlobalCancellationPending
    | GlobalCancellationRefused
    | GlobalInvoiceCancelled
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "global-invoice-announced.v1": GlobalInvoiceAnnounced,
    "global-stamping-requested.v1": GlobalStampingRequested,
    "global-stamping-unanswered.v1": GlobalStampingUnanswered,
    "global-stamping-abandoned.v1": GlobalStampingAbandoned,
    "global-invoice-stamped.v1": GlobalInvoiceStamped,
    "global-invoice-refused.v1": GlobalInvoiceRefused,
    "global-cancellation-requested.v1": GlobalCancellationRequested,
    "global-cancellation-pending.v1": GlobalCancellationPending,
    "global-cancellation-refused.v1": GlobalCancellationRefused,
    "global-invoice-cancelled.v1": GlobalInvoiceCancelled,
}
