"""Goes on with a global invoice that is not stamped: looks its open call up, or sends it again after a pause."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from ledger.domain.invoices.global_invoices.commands import SendGlobalInvoice
from ledger.domain.invoices.global_invoices.decide import decide_sending
from ledger.domain.orders.global_invoices.state import MARGIN, GlobalInvoice
from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.streams import GLOBAL_INVOICES
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.global_invoices.provider_call import GlobalStampingCall
from ledger.operations.pipeline.calls import look_up_from_timer
from ledger.operations.pipeline.execute import execute, record_outcome
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.stamping.building import load_libraries


class GlobalStampUnderWay(Exception):
    """A global invoice is being stamped, or the outcome of its call is not known yet."""


async def find_global_invoice(ledger: Ledger, merchant_id: UUID, reference: str) -> GlobalInvoice:
    """Returns the global invoice that a path names, to a caller that changes nothing. Raises GlobalInvoiceNotFound."""
    return await UnitOfWork(ledger, Actor(merchant_id=merchant_id)).find(GLOBAL_INVOICES, reference)


async def advance_global_invoice(ledger: Ledger, merchant_id: UUID, global_invoice_id: UUID) -> None:
    """Stamps a global invoice that is due, or finds the outcome of its call. Does nothing once it has ended.

    Raises GlobalStampUnderWay, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=global_invoice_id)
    invoice = await uow.load(GLOBAL_INVOICES, global_invoice_id)
    if invoice is None or invoice.status is not DocumentStatus.PENDING:
        return
    if invoice.intent is not None:
        if datetime.now(UTC) < invoice.intent.deadline_at + MARGIN:
            raise GlobalStampUnderWay
        call = GlobalStampingCall(ledger=ledger, merchant_id=merchant_id, invoice=invoice)
        try:
            outcome = await call.look_up(look_up_from_timer(ledger))
        except (ProviderTimedOut, ProviderUnavailable, TimeoutError, IssuerMissing):
            outcome = None
        if outcome is None:
            raise GlobalStampUnderWay
        await record_outcome(uow, call, outcome)
        call.log_recovered(outcome)
    await _send(uow, global_invoice_id)


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
