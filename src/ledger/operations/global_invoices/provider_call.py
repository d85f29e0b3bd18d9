"""The call to the stamping provider about a global invoice.

A refusal releases the orders in the same commit: no order is locked by a document that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import StampingOutcome
from ledger.domain.invoices.global_invoices.decide import decide_outcome, decide_release
from ledger.domain.orders.global_invoices.events import (
    GlobalInvoiceEvent,
    GlobalInvoiceRefused,
    GlobalStampingRequested,
)
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms
from ledger.domain.streams import GLOBAL_INVOICES, Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.stamping.stamping_call import Printing, StampingCall

_log = structlog.get_logger()

LOADED_AT_ONCE: Final = 25


class GlobalStampingCall(StampingCall, frozen=True, kw_only=True):
    """Has a global invoice stamped. The invoice has the call as open."""

    invoice: GlobalInvoice

    stream: ClassVar[Stream[Any]] = GLOBAL_INVOICES

    @property
    def stream_id(self) -> UUID:
        return self.invoice.global_invoice_id

    @property
    def document_id(self) -> UUID:
        return self.stream_id

    @property
    def terms(self) -> DocumentTerms:
        return self.invoice.terms

    @property
    def intent(self) -> StampingIntent:
        assert self.invoice.intent is not None, "its call has no outcome yet"
        return self.invoice.intent

    @property
    def about(self) -> Mapping[str, str]:
        return {"global_invoice_id": str(self.stream_id)}

    def log_recovered(self, outcome: StampingOutcome) -> None:
        _log.info("global_invoice_recovered", outcome=type(outcome).__name__, **self.about)

    async def printing(self) -> Printing:
        return Printing()

    def intent_in(self, state: GlobalInvoice) -> StampingIntent | None:
        return state.intent

    def decide(self, state: GlobalInvoice, outcome: StampingOutcome, now: datetime) -> Sequence[GlobalInvoiceEvent]:
        return decide_outcome(state, outcome, now)

    async def plan(self, uow: UnitOfWork, events: Sequence[GlobalInvoiceEvent]) -> Plan:
        """Returns the plan of the outcome's events, with the release of the orders of a refused document."""
        changes = [uow.change(GLOBAL_INVOICES, self.stream_id, events)]
        if any(isinstance(event, GlobalInvoiceRefused) for event in events):
            included = [each.order_id for each in self.invoice.orders]
            for n in range(0, len(included), LOADED_AT_ONCE):
                orders = await asyncio.gather(*[uow.order(each) for each in included[n : n + LOADED_AT_ONCE]])
                changes += [
                    uow.change_order(order.terms.order_id, released)
                    for order in orders
                    if (released := decide_release(order, self.invoice, uow.now))
                ]
        return Plan(changes=changes)


def global_call(
    ledger: Ledger, merchant_id: UUID, invoice: GlobalInvoice, event: GlobalStampingRequested, _: object = None
) -> GlobalStampingCall | None:
    """Returns the call that an event of this global invoice announces; None if it has its outcome."""
    if invoice.intent is None or invoice.intent.deadline_at != event.deadline_at:
        return None
    return GlobalStampingCall(ledger=ledger, merchant_id=merchant_id, invoice=invoice)
