"""The calls to the stamping provider about a document of an order: to stamp it, and to cancel it.

A cancellation can be repeated: the provider answers a repeated one with the state of the first. So one without an
answer counts as pending; its state is asked for later, and it is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import (
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    RecordCancellation,
    RecordStamping,
    Refused,
    StampingOutcome,
    StillValid,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome
from ledger.domain.invoices.decide.stamping import decide_outcome
from ledger.domain.orders.invoices.events import DocumentCancellationRequested, InvoiceEvent, StampingRequested
from ledger.domain.orders.invoices.state import Document, StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms
from ledger.domain.orders.state import Order
from ledger.domain.streams import ORDERS, Stream
from ledger.invoicing import contract
from ledger.invoicing.contract import CancelRequest, ProviderTimedOut, ProviderUnavailable, StatusRequest
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.mail import is_mailed
from ledger.operations.orders.invoices.printed_notes import printed_notes
from ledger.operations.pipeline.calls import Ended, Failure, LookUp
from ledger.operations.stamping.provider_call import ProviderCall
from ledger.operations.stamping.stamping_call import Printing, StampingCall

_log = structlog.get_logger()

_CANCELLATION_SILENT: Final = CancellationPending("The provider did not answer in time.", unanswered=True)
_NOT_REPEATED: Final = CancellationPending("The stamping provider could not be reached again.", unanswered=True)
_NOT_CANCELLED: Final = Refused("NOT_SENT", "The stamping provider could not be reached; nothing was cancelled.")


class DocumentCall(ProviderCall, frozen=True, kw_only=True):
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
    def document_id(self) -> UUID:
        return self.document.document_id

    def log_recovered(self, outcome: StampingOutcome | CancellationOutcome) -> None:
        _log.info("document_recovered", outcome=type(outcome).__name__, **self.about)

    @property
    def about(self) -> Mapping[str, str]:
        return {"order_id": str(self.stream_id), "document_id": str(self.document_id)}


class DocumentStampingCall(DocumentCall, StampingCall, frozen=True, kw_only=True):
    """Has a document of an order stamped."""

    @property
    def terms(self) -> DocumentTerms:
        return self.document.terms

    async def printing(self) -> Printing:
        """Returns it as the order's customer prefers it. After an erasure it is Spanish (contract N49), and not mailed.

        Raises a Fault.
        """
        found = await self.ledger.customers.by_id(self.merchant_id, self.order.terms.customer_id)
        notes = printed_notes(self.order, self.terms)
        if found is None:
            return Printing(notes=notes)
        customer = found.customer
        return Printing(
            language="en" if customer.preferences.language == "en" else "es",
            notes=notes,
            mail=is_mailed(self.ledger, customer, self.terms.receiver.email),
        )

    def intent_in(self, state: Order) -> StampingIntent | None:
        document = None if state.invoices is None else state.invoices.document(self.document_id)
        return None if document is None else document.intent

    def decide(self, state: Order, outcome: StampingOutcome, now: datetime) -> Sequence[InvoiceEvent]:
        return decide_outcome(state, RecordStamping(document_id=self.document_id, outcome=outcome, at=now))


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
    kind = CancellationCall if document.intent is None else DocumentStampingCall
    return kind(ledger=ledger, merchant_id=merchant_id, order=order, document=document)
