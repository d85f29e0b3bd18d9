"""Goes on with a global invoice: looks its open call up, has it stamped after a pause, asks about its cancellation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from ledger.domain.invoices.commands import StillValid
from ledger.domain.invoices.global_invoices.cancellation import decide_cancellation_again
from ledger.domain.invoices.global_invoices.commands import SendGlobalInvoice
from ledger.domain.invoices.global_invoices.decide import decide_sending
from ledger.domain.invoices.global_invoices.due import MARGIN
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import CancellationStatus, DocumentStatus, StampingIntent
from ledger.domain.streams import GLOBAL_INVOICES
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.global_invoices.provider_call import open_call
from ledger.operations.pipeline.calls import look_up_from_timer
from ledger.operations.pipeline.execute import execute, record_outcome
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.stamping.building import load_libraries


class GlobalStampUnderWay(Exception):
    """A global invoice is being stamped or cancelled, or the outcome of its call is not known yet."""


async def find_global_invoice(ledger: Ledger, merchant_id: UUID, reference: str) -> GlobalInvoice:
    """Returns the global invoice that a path names, to a caller that changes nothing. Raises GlobalInvoiceNotFound."""
    return await UnitOfWork(ledger, Actor(merchant_id=merchant_id)).find(GLOBAL_INVOICES, reference)


async def advance_global_invoice(ledger: Ledger, merchant_id: UUID, global_invoice_id: UUID) -> None:
    """Stamps a global invoice that is due, finds the outcome of its call, or asks for that of its cancellation. Does
    nothing once both have ended.

    Raises GlobalStampUnderWay, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=global_invoice_id)
    invoice = await uow.load(GLOBAL_INVOICES, global_invoice_id)
    if invoice is None:
        return
    if invoice.open_intent is not None:
        await _look_up(uow, invoice, invoice.open_intent)
    elif invoice.cancellation is not None and invoice.cancellation.status is CancellationStatus.PENDING:
        await _ask(uow, invoice)
    if invoice.status is DocumentStatus.PENDING:
        await _send(uow, global_invoice_id)


async def _look_up(uow: UnitOfWork, invoice: GlobalInvoice, intent: StampingIntent) -> None:
    """Records the outcome of the open call. Raises GlobalStampUnderWay if it is not known."""
    if datetime.now(UTC) < intent.deadline_at + MARGIN:
        raise GlobalStampUnderWay
    call = open_call(uow.ledger, uow.merchant_id, invoice)
    try:
        outcome = await call.look_up(look_up_from_timer(uow.ledger))
    except (ProviderTimedOut, ProviderUnavailable, TimeoutError, IssuerMissing):
        outcome = None
    if outcome is None:
        raise GlobalStampUnderWay
    await record_outcome(uow, call, outcome)
    call.log_recovered(outcome)


async def _ask(uow: UnitOfWork, invoice: GlobalInvoice) -> None:
    """Records what SAT reports about a cancellation without a result. Sends it again if the document is still valid:
    the request may never have arrived.
    """
    invoicing, call = uow.ledger.invoicing, open_call(uow.ledger, uow.merchant_id, invoice)
    outcome = await call.look_up(look_up_from_timer(uow.ledger))
    if not isinstance(outcome, StillValid) or invoicing is None or invoicing.provider is None:
        await record_outcome(uow, call, outcome)
        return
    provider = invoicing.provider.capabilities.name

    async def attempt(_: Conflict | None) -> Plan:
        present = await uow.load(GLOBAL_INVOICES, invoice.global_invoice_id)
        assert present is not None, "it was loaded before"
        events = decide_cancellation_again(present, provider, uow.ledger.call_deadline(), uow.now)
        return Plan(changes=[uow.change(GLOBAL_INVOICES, invoice.global_invoice_id, events)])

    await execute(uow, attempt)


async def _send(uow: UnitOfWork, global_invoice_id: UUID) -> None:
    invoicing = uow.ledger.invoicing
    if invoicing is None or invoicing.provider is None:
        raise GlobalStampUnderWay
    try:
        _, signer = await invoicing.issuers.signer_of(uow.merchant_id)
    except IssuerMissing:
        raise GlobalStampUnderWay from None
    await asyncio.to_thread(load_libraries)
    provider = invoicing.provider.capabilities.name

    async def attempt(_: Conflict | None) -> Plan:
        invoice = await uow.load(GLOBAL_INVOICES, global_invoice_id)
        assert invoice is not None, "it was loaded before"
        command = SendGlobalInvoice(
            provider=provider,
            certificate=signer.certificate_number,
            deadline_at=uow.ledger.call_deadline(),
            at=uow.now,
        )
        return Plan(changes=[uow.change(GLOBAL_INVOICES, global_invoice_id, decide_sending(invoice, command))])

    await execute(uow, attempt)
