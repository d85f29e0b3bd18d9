"""The calls to the stamping provider about a document: to stamp it, and to cancel it.

Record a stamp only once its files are stored: a stamp whose files could not be stored counts as unknown, and the
recovery looks the document up again. A cancellation can be repeated: the provider answers a repeated one with the state
of the first. So one without an answer counts as pending; its state is asked for later, and it is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

import structlog

from ledger.domain.customers.state import Customer
from ledger.domain.invoices.commands import (
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    NotFound,
    NotSent,
    RecordCancellation,
    RecordStamping,
    Refused,
    Stamped,
    StampingOutcome,
    StillValid,
    Unanswered,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome
from ledger.domain.invoices.decide.stamping import decide_outcome
from ledger.domain.orders.invoices.events import DocumentCancellationRequested, InvoiceEvent, StampingRequested
from ledger.domain.orders.invoices.state import Document, StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms, Issuer
from ledger.domain.orders.state import Order
from ledger.domain.streams import ORDERS, Stream
from ledger.invoicing import contract
from ledger.invoicing.contract import CancelRequest, ProviderTimedOut, ProviderUnavailable, StampRequest, StatusRequest
from ledger.invoicing.files import FilesUnavailable
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.issuers import IssuerMissing
from ledger.invoicing.pdf.notes import Notes
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.mail import is_mailed
from ledger.operations.orders.invoices.printed_notes import printed_notes
from ledger.operations.pipeline.calls import Call, Ended, Failure, LookUp
from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import STAMPS

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language

_log = structlog.get_logger()

_SILENT: Final = Unanswered("The stamping provider did not answer in time.")
_UNREADABLE: Final = Unanswered("The stamping provider's answer could not be read.")
_NOT_STORED: Final = Unanswered("The stamped document could not be stored.")
_CANCELLATION_SILENT: Final = CancellationPending("The provider did not answer in time.", unanswered=True)
_NOT_REPEATED: Final = CancellationPending("The stamping provider could not be reached again.", unanswered=True)
_NOT_CANCELLED: Final = Refused("NOT_SENT", "The stamping provider could not be reached; nothing was cancelled.")
NOT_BUILT: Final = "CFDI_NOT_BUILT"
"""The code of a document that could not be built or sealed: nothing was sent."""


class DocumentCall(Call, frozen=True, kw_only=True):
    """A call about a document of an order, which has the call as open."""

    order: Order
    document: Document

    stream: ClassVar[Stream[Any]] = ORDERS

    @property
    def stream_id(self) -> UUID:
        return self.order.terms.order_id

    @property
    def intent(self) -> StampingIntent:
        assert self.document.open_intent is not None, "its call has no outcome yet"
        return self.document.open_intent

    @property
    def deadline_at(self) -> datetime:
        return self.intent.deadline_at

    @property
    def key(self) -> str:
        return str(self.document.document_id)

    @property
    def cause(self) -> UUID:
        return self.document.document_id

    def log_recovered(self, outcome: StampingOutcome | CancellationOutcome) -> None:
        _log.info("document_recovered", outcome=type(outcome).__name__, **self.about)

    @property
    def about(self) -> Mapping[str, str]:
        return {"order_id": str(self.stream_id), "document_id": str(self.document.document_id)}


class StampingCall(DocumentCall, frozen=True, kw_only=True):
    """Has a document stamped, and stores its files."""

    async def prepare(self) -> bytes:
        """Returns the sealed CFDI. Raises ProviderUnavailable, IssuerMissing, a Fault, whatever building it raises."""
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            raise ProviderUnavailable("no stamping provider is configured")
        return await sealed_xml(invoicing, self.merchant_id, self.document.terms, self.intent)

    async def send(self, prepared: bytes, left_s: float) -> contract.Stamped | contract.Refused:  # noqa: ARG002
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        assert invoicing.provider is not None, "the call was prepared"
        request = StampRequest(
            merchant_id=self.merchant_id,
            document_id=self.document.document_id,
            deadline_at=self.deadline_at,
            xml=prepared,
        )
        return await invoicing.provider.stamp(request)

    async def read(self, answer: contract.Stamped | contract.Refused) -> StampingOutcome:
        """Stores the files of a stamp, after the deadline too: the recovery would store the same ones."""
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        return await _outcome(self.ledger, invoicing, self.merchant_id, self.order, self.document, answer)

    def without_answer(self, failure: Failure) -> StampingOutcome:
        fault, reason = failure.fault, type(failure.fault).__name__
        match failure.ended:
            case Ended.NOT_SENT if fault is None or isinstance(fault, ProviderUnavailable | Fault | IssuerMissing):
                return NotSent()
            case Ended.NOT_SENT:  # it is shown to the merchant, who can send other fiscal data
                _log.error("document_not_built", document_id=str(self.document.document_id), reason=reason)
                return Refused(NOT_BUILT, f"The document could not be built: {fault}")
            case Ended.TIMED_OUT:
                return _SILENT
            case Ended.UNREADABLE:
                _log.error("stamping_provider_failed", provider=self.intent.provider, reason=reason)
                return _UNREADABLE

    def was_sent(self, outcome: StampingOutcome) -> bool:
        return not isinstance(outcome, NotSent)

    async def look_up(self, how: LookUp) -> StampingOutcome | None:
        """Returns the outcome; None also while a stamp's files cannot be stored. Raises as the provider does, a Fault.

        A provider that keeps a row for each document recognises a repeated one by its id: no late call can stamp it.
        """
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            return None
        provider, now = invoicing.provider, datetime.now(UTC)
        can_fence, late_s = provider.capabilities.can_fence, provider.capabilities.late_arrival_s
        is_final = how.is_final(self.deadline_at, can_fence=can_fence, late_arrival_s=late_s)
        request = contract.LookUp(
            merchant_id=self.merchant_id,
            document_id=self.document.document_id,
            deadline_at=now + timedelta(seconds=how.timeout_s),
            xml=await sealed_xml(invoicing, self.merchant_id, self.document.terms, self.intent),
            fence=False,  # the document is sent again under this id, which a fence would refuse for ever
        )
        async with asyncio.timeout(how.timeout_s):
            found = await provider.look_up(request)
        if found is None:
            return NotFound() if is_final else None
        outcome = await _outcome(self.ledger, invoicing, self.merchant_id, self.order, self.document, found)
        return None if isinstance(outcome, Unanswered) else outcome

    def record(self, state: Order, outcome: StampingOutcome, now: datetime) -> Sequence[InvoiceEvent]:
        """Returns the events of the outcome. Without a stamp it ends this call alone, and not one that began since."""
        document = None if state.invoices is None else state.invoices.document(self.document.document_id)
        current = None if document is None else document.intent
        if current is not None and current.deadline_at != self.deadline_at and not isinstance(outcome, Stamped):
            return []
        command = RecordStamping(document_id=self.document.document_id, outcome=outcome, at=now)
        return decide_outcome(state, command)


class CancellationCall(DocumentCall, frozen=True, kw_only=True):
    """Has a stamped document cancelled with SAT."""

    async def prepare(self) -> tuple[bytes, Any]:
        """Returns the stamped document and the issuer's signer. Raises ProviderUnavailable, a Fault."""
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "a process that cancels has an access to stamping"
        assert self.document.stamp is not None, "only a stamped document is cancelled"
        xml = await invoicing.files.read(self.document.stamp.xml_key)
        _, signer = await invoicing.issuers.signer_of(self.merchant_id)
        if xml is None or invoicing.provider is None:
            raise ProviderUnavailable("the document's file is missing")
        return xml, signer

    async def send(self, prepared: tuple[bytes, Any], left_s: float) -> CancellationOutcome:  # noqa: ARG002
        invoicing, stamp, cancellation = self.ledger.invoicing, self.document.stamp, self.document.cancellation
        assert invoicing is not None, "the call was prepared"
        assert invoicing.provider is not None, "the call was prepared"
        assert stamp is not None, "only a stamped document is cancelled"
        assert cancellation is not None, "a cancellation was requested"
        xml, signer = prepared
        request = CancelRequest(
            merchant_id=self.merchant_id,
            document_id=self.document.document_id,
            deadline_at=self.deadline_at,
            fiscal_uuid=stamp.fiscal_uuid,
            xml=xml,
            motive=cancellation.motive.value,
            substituted_by=cancellation.substituted_by,
            signer=signer,
        )
        match await invoicing.provider.cancel(request):
            case contract.Refused(code=code, message=message):
                return Refused(code, message)
            case contract.CancellationPending():
                return CancellationPending()
            case contract.Cancelled():
                return Cancelled()

    def without_answer(self, failure: Failure) -> CancellationOutcome:
        about = {"reason": type(failure.fault).__name__, "document_id": str(self.document.document_id)}
        if failure.ended is Ended.NOT_SENT:
            if failure.fault is not None and not isinstance(failure.fault, ProviderUnavailable):
                _log.error("cancellation_not_sent", **about)
            cancellation = self.document.cancellation
            is_repeated = cancellation is not None and cancellation.requests > 1
            return _NOT_REPEATED if is_repeated else _NOT_CANCELLED
        _log.warning("cancellation_unanswered", **about)
        return _CANCELLATION_SILENT

    def was_sent(self, outcome: CancellationOutcome) -> bool:
        return outcome not in {_NOT_CANCELLED, _NOT_REPEATED}

    async def look_up(self, how: LookUp | None = None) -> CancellationOutcome:  # noqa: ARG002
        """Returns what SAT reports now: PENDING if it reports nothing else. Raises a Fault."""
        invoicing, stamp, cancellation = self.ledger.invoicing, self.document.stamp, self.document.cancellation
        assert cancellation is not None, "a cancellation was requested"
        is_unknown = cancellation.intent is not None or cancellation.unanswered > 0
        unknown = CancellationPending(unanswered=is_unknown)
        if invoicing is None or invoicing.provider is None or stamp is None:
            return unknown
        xml = await invoicing.files.read(stamp.xml_key)
        if xml is None:
            return unknown
        request = StatusRequest(
            merchant_id=self.merchant_id,
            document_id=self.document.document_id,
            deadline_at=datetime.now(UTC) + timedelta(seconds=invoicing.timeout_s),
            fiscal_uuid=stamp.fiscal_uuid,
            xml=xml,
        )
        try:
            async with asyncio.timeout(invoicing.timeout_s):
                reported = await invoicing.provider.status(request)
        except (ProviderTimedOut, ProviderUnavailable, TimeoutError):
            return unknown
        match reported.state:
            case "CANCELLED":
                return Cancelled()
            case "CANCELLATION_REFUSED" if not is_unknown:
                return Refused("CANCELLATION_REFUSED", reported.detail or "The receiver refused the cancellation.")
            case "ACTIVE" | "CANCELLATION_REFUSED":  # the refusal may be that of an earlier request
                return StillValid(reported.detail or "SAT reports the document as valid.")
            case "CANCELLATION_PENDING":
                return CancellationPending()
            case "NOT_FOUND":
                return unknown

    def record(self, state: Order, outcome: CancellationOutcome, now: datetime) -> Sequence[InvoiceEvent]:
        """Returns the events of the outcome. It ends this call alone, and not one that began since, unless the document
        is cancelled.
        """
        document = None if state.invoices is None else state.invoices.document(self.document.document_id)
        current = None if document is None or document.cancellation is None else document.cancellation.intent
        own = None if self.document.cancellation is None else self.document.cancellation.intent
        is_own = current is None or (own is not None and own.deadline_at == current.deadline_at)
        if not is_own and not isinstance(outcome, Cancelled):
            return []
        command = RecordCancellation(document_id=self.document.document_id, outcome=outcome, at=now)
        return decide_cancellation_outcome(state, command)


def document_call(
    ledger: Ledger,
    merchant_id: UUID,
    order: Order,
    event: StampingRequested | DocumentCancellationRequested,
    _: object = None,
) -> DocumentCall | None:
    """Returns the call that an event of this order announces; None if a later event has given its outcome already."""
    document = None if order.invoices is None else order.invoices.document(event.document_id)
    return None if document is None else open_call(ledger, merchant_id, order, document)


def open_call(ledger: Ledger, merchant_id: UUID, order: Order, document: Document) -> DocumentCall | None:
    """Returns the call about a document that has no outcome, or None."""
    if document.open_intent is None:
        return None
    kind = CancellationCall if document.intent is None else StampingCall
    return kind(ledger=ledger, merchant_id=merchant_id, order=order, document=document)


async def sealed_xml(invoicing: Invoicing, merchant_id: UUID, terms: DocumentTerms, intent: StampingIntent) -> bytes:
    """Returns the sealed CFDI of a document: the same bytes each time. Raises a Fault, IssuerMissing."""
    issuer, signer = await invoicing.issuers.signer_of(merchant_id, intent.certificate)
    return await asyncio.to_thread(_build, terms, issuer, signer)


async def _outcome(
    ledger: Ledger,
    invoicing: Invoicing,
    merchant_id: UUID,
    order: Order,
    document: Document,
    answer: contract.Stamped | contract.Refused,
) -> StampingOutcome:
    if isinstance(answer, contract.Refused):
        STAMPS.labels("refused").inc()
        return Refused(answer.code, answer.message)
    document_id = document.document_id
    try:
        logo = await invoicing.issuers.logo_of(merchant_id)
        found = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
        customer = None if found is None else found.customer
        pdf = await asyncio.to_thread(
            printed, answer.xml, _language(customer), logo, printed_notes(order, document.terms)
        )
        files = await invoicing.files.put(merchant_id, document_id, answer.fiscal_uuid, answer.xml, pdf)
    except Exception as fault:  # noqa: BLE001 - the stamp exists, and is looked up until its files are stored
        reason = str(fault) if isinstance(fault, FilesUnavailable) else type(fault).__name__
        _log.error("stamped_document_not_stored", document_id=str(document_id), reason=reason)
        return _NOT_STORED
    STAMPS.labels("stamped").inc()
    return Stamped(
        fiscal_uuid=answer.fiscal_uuid,
        invoice_id=answer.invoice_id,
        stamped_at=answer.stamped_at,
        xml_key=files.xml_key,
        pdf_key=files.pdf_key,
        xml_sha256=files.sha256,
        mail=customer is not None and is_mailed(ledger, customer, document.terms.receiver.email),
    )


def load_libraries() -> None:
    """Imports what builds and prints documents. It takes seconds: call it in a thread, before a deadline is set."""
    import ledger.invoicing.cfdi.build
    import ledger.invoicing.pdf.render  # noqa: F401 - imported for its effect


def _build(terms: DocumentTerms, issuer: Issuer, signer: Any) -> bytes:
    from ledger.invoicing.cfdi.build import build

    return build(terms, issuer, signer)


def _language(customer: Customer | None) -> Language:
    """Returns the language that the customer prefers (contract N49). Spanish after an erasure."""
    return "en" if customer is not None and customer.preferences.language == "en" else "es"


def printed(xml: bytes, language: Language, logo: bytes | None, notes: Notes) -> bytes:
    """Returns the printed form of a stamped document. It takes long: call it in a thread."""
    from ledger.invoicing.pdf.render import render

    return render(xml, language=language, logo=logo, notes=notes)
