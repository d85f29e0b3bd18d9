"""The state of an order's electronic invoices, folded from its events.

Read the content of a document from its `terms` only: they are frozen, while the order's sums go on changing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.events import UNNAMED, InvoicingEnabled
from ledger.domain.orders.invoices.mail import DocumentMail
from ledger.domain.orders.invoices.terms import (
    CancellationMotive,
    CreditNoteTerms,
    DocumentTerms,
    InvoiceTerms,
    ReceiptTerms,
)
from ledger.py311_speedups import fast_members

INVOICE_SLOT: Final = "invoice"
EVERY_SLOT: Final = ""


@fast_members
class DocumentStatus(StrEnum):
    """The progress of a document (contract 2.4). The order shows EMITTED of its invoice as INVOICED."""

    PENDING = "PENDING"
    EMITTED = "EMITTED"
    FAILED = "FAILED"


@fast_members
class CancellationStatus(StrEnum):
    """The progress of the cancellation of a stamped document."""

    REQUESTED = "REQUESTED"
    PENDING = "PENDING"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"


class StampingIntent(Struct, frozen=True):
    """A call to the provider that was announced and has no outcome yet. `deadline_at` is real time.

    `certificate` is the number of the certificate that sealed the document. `unknown` is True after a call without an
    answer.
    """

    provider: str
    deadline_at: datetime
    certificate: str | None = None
    unknown: bool = False


class DocumentFailure(Struct, frozen=True):
    """The latest refusal of a document, or the reason why it could not be drawn up."""

    code: str
    message: str
    at: datetime


class Stamp(Struct, frozen=True, kw_only=True):
    """What a stamped document got: its fiscal UUID, the provider's id, and the keys of its stored files."""

    fiscal_uuid: UUID
    invoice_id: str
    stamped_at: datetime
    emitted_at: datetime
    xml_key: str
    pdf_key: str
    xml_sha256: str


class DocumentCancellation(Struct, frozen=True, kw_only=True):
    """The latest cancellation of a stamped document. `intent` is open while the provider's answer is unknown.

    `requests` counts how often it was sent, `unanswered` how often in a row it was unknown whether SAT has it.
    `for_refund` is True once a refund of the whole order has asked for the document's cancellation.
    """

    status: CancellationStatus
    motive: CancellationMotive
    substituted_by: UUID | None
    requested_at: datetime
    updated_at: datetime
    intent: StampingIntent | None = None
    failure: DocumentFailure | None = None
    requests: int = 1
    unanswered: int = 0
    for_refund: bool = False


class Document(Struct, frozen=True, kw_only=True):
    """A document of an order: an invoice, a payment receipt (REP) or a credit note.

    `attempts` counts the calls to the provider, `refusals` the calls that it refused. `retry_at` is when the next
    attempt is due by the merchant's clock; None if only a request repeats the document. `is_counted` is True once the
    merchant's counter has given it its folio. `is_outdated` is True if the order's terms have changed since the
    document was drawn up. `mail` is the message with the stamped document, None if there is none.
    """

    slot: str
    terms: DocumentTerms
    created_at: datetime
    status: DocumentStatus = DocumentStatus.PENDING
    attempts: int = 0
    refusals: int = 0
    retry_at: datetime | None = None
    intent: StampingIntent | None = None
    failure: DocumentFailure | None = None
    stamp: Stamp | None = None
    cancellation: DocumentCancellation | None = None
    receipt_due_at: datetime | None = None
    is_counted: bool = False
    is_outdated: bool = False
    mail: DocumentMail | None = None

    @property
    def document_id(self) -> UUID:
        return self.terms.document_id

    @property
    def supplements(self) -> UUID | None:
        """The order's invoice beside which this further invoice is; None for every other document."""
        return self.terms.supplements if isinstance(self.terms, InvoiceTerms) else None

    @property
    def has_receiver(self) -> bool:
        """Whether the receiver is known; False after an erasure."""
        return self.terms.receiver != UNNAMED

    @property
    def is_cancelled(self) -> bool:
        return self.cancellation is not None and self.cancellation.status is CancellationStatus.CANCELLED

    @property
    def is_being_cancelled(self) -> bool:
        """Whether a cancellation was requested and has no result yet."""
        waiting = {CancellationStatus.REQUESTED, CancellationStatus.PENDING}
        return self.cancellation is not None and self.cancellation.status in waiting

    @property
    def open_intent(self) -> StampingIntent | None:
        """The open call about this document: a request to stamp or to cancel it."""
        return self.intent or (None if self.cancellation is None else self.cancellation.intent)


class Invoices(Struct, frozen=True, kw_only=True):
    """The electronic invoices of an order. `documents` are in the order in which they were announced and are stamped.

    `blocked` is why documents could not be drawn up, by their slots; the reason under `EVERY_SLOT` is that of all
    documents (older releases). `warned` are the payments for which a near deadline was reported.
    """

    enabled: InvoicingEnabled
    documents: tuple[Document, ...] = ()
    blocked: Mapping[str, DocumentFailure] = msgspec.field(default_factory=dict)
    warned: tuple[UUID, ...] = ()

    @property
    def invoice(self) -> Document | None:
        """The latest announced invoice."""
        return self.latest(INVOICE_SLOT)

    @property
    def stamped_invoice(self) -> Document | None:
        """The invoice, if it is stamped and not cancelled: only then receipts and credit notes can refer to it."""
        invoice = self.invoice
        is_valid = invoice is not None and invoice.stamp is not None and not invoice.is_cancelled
        return invoice if is_valid else None

    @property
    def further_invoices(self) -> tuple[Document, ...]:
        """The invoices beside the order's own, over money that came after a credit note."""
        return tuple(each for each in self.current if each.supplements is not None)

    @property
    def issued_invoices(self) -> tuple[Document, ...]:
        """The order's own invoice and the further ones that are stamped, or being stamped, and not cancelled."""
        invoices = (each for each in self.valid if isinstance(each.terms, InvoiceTerms))
        return tuple(each for each in invoices if each.stamp is not None or each.intent is not None)

    @property
    def receipts(self) -> tuple[Document, ...]:
        return tuple(each for each in self.current if isinstance(each.terms, ReceiptTerms))

    @property
    def credit_notes(self) -> tuple[Document, ...]:
        return tuple(each for each in self.current if isinstance(each.terms, CreditNoteTerms))

    @property
    def current(self) -> tuple[Document, ...]:
        """The documents that are stamped or still to be stamped."""
        return tuple(each for each in self.documents if not self.is_dropped(each))

    @property
    def valid(self) -> tuple[Document, ...]:
        """The current documents that are not cancelled."""
        return tuple(each for each in self.current if not each.is_cancelled)

    @property
    def next_document(self) -> Document | None:
        """The document that is being stamped, else the first one that can be."""
        being_stamped = (each for each in self.documents if each.intent is not None)
        return next(being_stamped, None) or next(iter(self.stampable), None)

    @property
    def stampable(self) -> tuple[Document, ...]:
        """The documents of which each can be stamped next, in their order.

        A receipt shows a balance that depends on all documents before it, and waits for them. A credit note shows none:
        it waits for the invoices and the receipts before it, and for no other credit note. All wait for the result of
        a cancellation of the invoice that they belong to.
        """
        found: list[Document] = []
        waiting = [each for each in self.current if each.stamp is None]
        for document in waiting:
            if isinstance(document.terms, CreditNoteTerms):
                before = [each for each in found if not isinstance(each.terms, CreditNoteTerms)]
            else:
                before = found
            if before or self._waits_for_cancellation(document):
                break
            found.append(document)
        return tuple(found)

    def is_dropped(self, document: Document) -> bool:
        """Whether a document was never stamped and never will be: the invoice that it belongs to was cancelled."""
        invoice = None if document.stamp is not None else self._parent(document)
        return invoice is not None and invoice.is_cancelled

    def failure_of(self, slot: str) -> DocumentFailure | None:
        """Returns why the next document of this slot could not be drawn up, None if nothing prevents it."""
        return self.blocked.get(slot) or self.blocked.get(EVERY_SLOT)

    def _waits_for_cancellation(self, document: Document) -> bool:
        invoice = self._parent(document)
        return invoice is not None and invoice.is_being_cancelled

    def _parent(self, document: Document) -> Document | None:
        """Returns the invoice that a document belongs to, None for the order's own."""
        terms = document.terms
        parent_id = terms.supplements if isinstance(terms, InvoiceTerms) else terms.invoice_id
        return None if parent_id is None else self.document(parent_id)

    @property
    def open_intent(self) -> StampingIntent | None:
        """The call to the provider without an outcome that has the earliest deadline."""
        intents = (intent for each in self.documents if (intent := each.open_intent) is not None)
        return min(intents, key=lambda intent: intent.deadline_at, default=None)

    def latest(self, slot: str) -> Document | None:
        """Returns the latest document of this slot: an earlier one was cancelled."""
        return next((each for each in reversed(self.documents) if each.slot == slot), None)

    def document(self, document_id: UUID) -> Document | None:
        """Returns the document with this id, or None."""
        return next((each for each in self.documents if each.document_id == document_id), None)

    def applied(self) -> Decimal:
        """Returns Σ of all receipts' applied amounts that are not cancelled, in minor units."""
        return sum((each.terms.applied_amount for each in self.valid if isinstance(each.terms, ReceiptTerms)), ZERO)

    def credited(self) -> Decimal:
        """Returns Σ of all credit notes' amounts that are not cancelled, in minor units."""
        return sum((each.terms.total for each in self.valid if isinstance(each.terms, CreditNoteTerms)), ZERO)


def invoice_terms_of(document: Document) -> InvoiceTerms:
    """Returns the terms of an invoice. The caller knows that the document is one."""
    assert isinstance(document.terms, InvoiceTerms), "the document of the invoice's slot is an invoice"
    return document.terms
