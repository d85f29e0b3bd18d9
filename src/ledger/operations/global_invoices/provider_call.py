"""The calls to the stamping provider about a global invoice: to stamp it, and to cancel it.

A refusal or a cancellation releases the orders in the same commit: no order is locked by a document that is not valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import CancellationOutcome, StampingOutcome
from ledger.domain.invoices.global_invoices.cancellation import decide_cancellation_outcome
from ledger.domain.invoices.global_invoices.decide import decide_outcome, decide_release
from ledger.domain.orders.global_invoices.events import (
    GlobalCancellationRequested,
    GlobalInvoiceEvent,
    GlobalStampingRequested,
)
from ledger.domain.orders.global_invoices.evolve import evolve
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import DocumentCancellation, Stamp, StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms
from ledger.domain.streams import GLOBAL_INVOICES, Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.stamping.cancellation_call import CancellationCall
from ledger.operations.stamping.provider_call import ProviderCall
from ledger.operations.stamping.stamping_call import Printing, StampingCall

_log = structlog.get_logger()

LOADED_AT_ONCE: Final = 25


class GlobalCall(ProviderCall, frozen=True, kw_only=True):
    """A call about a global invoice, which has the call as open."""

    invoice: GlobalInvoice

    stream: ClassVar[Stream[Any]] = GLOBAL_INVOICES

    @property
    def stream_id(self) -> UUID:
        return self.invoice.global_invoice_id

    @property
    def document_id(self) -> UUID:
        return self.stream_id

    @property
    def intent(self) -> StampingIntent:
        assert self.invoice.open_intent is not None, "its call has no outcome yet"
        return self.invoice.open_intent

    @property
    def about(self) -> Mapping[str, str]:
        return {"global_invoice_id": str(self.stream_id)}

    def log_recovered(self, outcome: StampingOutcome | CancellationOutcome) -> None:
        _log.info("global_invoice_recovered", outcome=type(outcome).__name__, **self.about)

    async def plan(self, uow: UnitOfWork, events: Sequence[GlobalInvoiceEvent]) -> Plan:
        """Returns the plan of the outcome's events, with the release of the orders that the document states no more."""
        changes = [uow.change(GLOBAL_INVOICES, self.stream_id, events)]
        invoice = await uow.load(GLOBAL_INVOICES, self.stream_id)
        assert invoice is not None, "its call was announced"
        if not invoice.has_released_orders and fold(evolve, invoice, events).has_released_orders:
            included = [each.order_id for each in invoice.orders]
            for n in range(0, len(included), LOADED_AT_ONCE):
                orders = await asyncio.gather(*[uow.order(each) for each in included[n : n + LOADED_AT_ONCE]])
                changes += [
                    uow.change_order(order.terms.order_id, released)
                    for order in orders
                    if (released := decide_release(order, invoice, uow.now))
                ]
        return Plan(changes=changes)


class GlobalStampingCall(GlobalCall, StampingCall, frozen=True, kw_only=True):
    """Has a global invoice stamped."""

    @property
    def terms(self) -> DocumentTerms:
        return self.invoice.terms

    async def printing(self) -> Printing:
        return Printing()

    def intent_in(self, state: GlobalInvoice) -> StampingIntent | None:
        return state.intent

    def decide(self, state: GlobalInvoice, outcome: StampingOutcome, now: datetime) -> Sequence[GlobalInvoiceEvent]:
        return decide_outcome(state, outcome, now)


class GlobalCancellationCall(GlobalCall, CancellationCall, frozen=True, kw_only=True):
    """Has a stamped global invoice cancelled with SAT."""

    @property
    def stamp(self) -> Stamp:
        assert self.invoice.stamp is not None, "only a stamped document is cancelled"
        return self.invoice.stamp

    @property
    def cancellation(self) -> DocumentCancellation:
        assert self.invoice.cancellation is not None, "a cancellation was requested"
        return self.invoice.cancellation

    def cancellation_in(self, state: GlobalInvoice) -> DocumentCancellation | None:
        return state.cancellation

    def decide(self, state: GlobalInvoice, outcome: CancellationOutcome, now: datetime) -> Sequence[GlobalInvoiceEvent]:
        return decide_cancellation_outcome(state, outcome, now)


def global_call(
    ledger: Ledger,
    merchant_id: UUID,
    invoice: GlobalInvoice,
    event: GlobalStampingRequested | GlobalCancellationRequested,
    _: object = None,
) -> GlobalCall | None:
    """Returns the call that an event of this global invoice announces; None if it has its outcome."""
    if invoice.open_intent is None or invoice.open_intent.deadline_at != event.deadline_at:
        return None
    return open_call(ledger, merchant_id, invoice)


def open_call(ledger: Ledger, merchant_id: UUID, invoice: GlobalInvoice) -> GlobalStampingCall | GlobalCancellationCall:
    """Returns the call about a global invoice that has no outcome, or the latest one about its cancellation."""
    kind = GlobalCancellationCall if invoice.intent is None else GlobalStampingCall
    return kind(ledger=ledger, merchant_id=merchant_id, invoice=invoice)
