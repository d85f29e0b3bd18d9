"""The calls to the stamping provider about a document of an order: to stamp it, and to cancel it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import (
    CancellationOutcome,
    RecordCancellation,
    RecordStamping,
    StampingOutcome,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome
from ledger.domain.invoices.decide.stamping import decide_outcome
from ledger.domain.orders.invoices.events import DocumentCancellationRequested, InvoiceEvent, StampingRequested
from ledger.domain.orders.invoices.state import Document, DocumentCancellation, Stamp, StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms
from ledger.domain.orders.state import Order
from ledger.domain.streams import ORDERS, Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.mail import is_mailed
from ledger.operations.orders.invoices.printed_notes import printed_notes
from ledger.operations.stamping.cancellation_call import CancellationCall
from ledger.operations.stamping.provider_call import ProviderCall
from ledger.operations.stamping.stamping_call import Printing, StampingCall

_log = structlog.get_logger()


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


class DocumentCancellationCall(DocumentCall, CancellationCall, frozen=True, kw_only=True):
    """Has a stamped document of an order cancelled with SAT."""

    @property
    def stamp(self) -> Stamp:
        assert self.document.stamp is not None, "only a stamped document is cancelled"
        return self.document.stamp

    def cancellation_in(self, state: Order) -> DocumentCancellation | None:
        document = None if state.invoices is None else state.invoices.document(self.document_id)
        return None if document is None else document.cancellation

    @property
    def cancellation(self) -> DocumentCancellation:
        assert self.document.cancellation is not None, "a cancellation was requested"
        return self.document.cancellation

    def decide(self, state: Order, outcome: CancellationOutcome, now: datetime) -> Sequence[InvoiceEvent]:
        command = RecordCancellation(document_id=self.document_id, outcome=outcome, at=now)
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
    kind = DocumentCancellationCall if document.intent is None else DocumentStampingCall
    return kind(ledger=ledger, merchant_id=merchant_id, order=order, document=document)
