"""The commands about an order's electronic invoices, and the outcomes of calls to the stamping provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.terms import AttemptOutcome
from ledger.domain.orders.invoices.mail_events import MailDroppedBecause
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoicingPolicy, Issuer
from ledger.domain.orders.terms import FiscalData
from ledger.py311_speedups import fast_members


@fast_members
class StampScope(StrEnum):
    """Which documents a request stamps (contract N43)."""

    ALL = "ALL"
    INVOICE = "INVOICE"
    COMPLEMENTS = "COMPLEMENTS"
    CREDIT_NOTES = "CREDIT_NOTES"


class EnableInvoicing(Struct, frozen=True, kw_only=True):
    """Requests an invoice for the order. `fiscal`, if given, replaces the order's receiver."""

    policy: InvoicingPolicy
    at: datetime
    fiscal: FiscalData | None = None


class StampRequest(Struct, frozen=True, kw_only=True):
    """A merchant's request to stamp the documents of `scope`.

    `document_ids` limits it to these receipts and credit notes.
    """

    scope: StampScope = StampScope.ALL
    document_ids: tuple[UUID, ...] = ()


class StampNext(Struct, frozen=True, kw_only=True):
    """Announces the documents that are due, and starts the stamping of the next one.

    Without `request` the command comes from a timer: it leaves documents alone whose pause has not ended, and does not
    replace cancelled documents. `deadline_at` ends the call, in real time. `certificate` is the number of the
    certificate that seals the document. `attempts_before` has the attempts of the documents as the request found them:
    it tries each document once. `time_zone` is that of the issuer's postal code, in which documents are dated.
    """

    issuer: Issuer
    time_zone: str
    certificate: str
    provider: str
    deadline_at: datetime
    at: datetime
    request: StampRequest | None = None
    attempts_before: Mapping[UUID, int] | None = None


class Stamped(Struct, frozen=True, kw_only=True):
    """The provider stamped the document, and its files are stored. `mail` is True if it is to be mailed."""

    fiscal_uuid: UUID
    invoice_id: str
    stamped_at: datetime
    xml_key: str
    pdf_key: str
    xml_sha256: str
    mail: bool = False


class Refused(Struct, frozen=True):
    """The provider refused, in its own words."""

    code: str
    message: str


class Unanswered(Struct, frozen=True):
    """The provider did not answer in time: the outcome is unknown."""

    reason: str


class NotSent(Struct, frozen=True):
    """The call certainly had no effect: it was never sent."""


class NotFound(Struct, frozen=True):
    """The provider certainly has no such document."""


StampingOutcome = Stamped | Refused | Unanswered | NotSent | NotFound


class RecordStamping(Struct, frozen=True, kw_only=True):
    """Records the outcome of a call that was to stamp a document."""

    document_id: UUID
    outcome: StampingOutcome
    at: datetime


class MailDocument(Struct, frozen=True, kw_only=True):
    """Mails a stamped document, if its message is due.

    `withheld` is why the customer gets no such message. `real_at` is real time, and so is `deadline_at`, which ends the
    attempt to hand the message to `notifier`.
    """

    document_id: UUID
    notifier: str
    deadline_at: datetime
    real_at: datetime
    at: datetime
    withheld: MailDroppedBecause | None = None


class RecordDocumentMail(Struct, frozen=True, kw_only=True):
    """Records the outcome of an attempt to mail a document."""

    document_id: UUID
    outcome: AttemptOutcome
    at: datetime


class WarnOfDeadline(Struct, frozen=True, kw_only=True):
    """Records that the deadline of a payment receipt is near. `real_at` is the real time."""

    payment_id: UUID
    at: datetime
    real_at: datetime


class RequestCancellation(Struct, frozen=True, kw_only=True):
    """Cancels a stamped document. `deadline_at` ends the call, in real time."""

    motive: CancellationMotive
    provider: str
    deadline_at: datetime
    at: datetime
    substituted_by: UUID | None = None


class CancelDocument(RequestCancellation, frozen=True, kw_only=True):
    """Cancels a stamped document of an order: the invoice if `document_id` is None."""

    document_id: UUID | None = None


class Cancelled(Struct, frozen=True):
    """SAT cancelled the document."""


class CancellationPending(Struct, frozen=True):
    """The cancellation has no result yet. `unanswered`: it is unknown whether SAT has the request."""

    message: str | None = None
    unanswered: bool = False


class StillValid(Struct, frozen=True):
    """SAT reports the document as valid and no result of a cancellation: it may not have the request yet."""

    message: str


CancellationOutcome = Cancelled | CancellationPending | Refused | StillValid


class RepeatCancellation(Struct, frozen=True, kw_only=True):
    """Sends a cancellation again that has no result. SAT answers both requests alike."""

    document_id: UUID
    provider: str
    deadline_at: datetime
    at: datetime


class RecordCancellation(Struct, frozen=True, kw_only=True):
    """Records what the provider reports about a cancellation."""

    document_id: UUID
    outcome: CancellationOutcome
    at: datetime


def wants_credit_notes(request: StampRequest | None) -> bool:
    """Returns whether a timer, or a request for all documents or all credit notes, decides about refunds."""
    return request is None or (request.scope in {StampScope.ALL, StampScope.CREDIT_NOTES} and not request.document_ids)


def wants_invoice(request: StampRequest | None) -> bool:
    """Returns whether a request is for all documents or for the invoice, so that it replaces a cancelled one."""
    if request is None:
        return False
    return request.scope in {StampScope.ALL, StampScope.INVOICE} and not request.document_ids
