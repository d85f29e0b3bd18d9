"""Cancels a stamped global invoice with SAT. Its orders are free once SAT has cancelled it."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.invoices.commands import RequestCancellation
from ledger.domain.invoices.global_invoices.cancellation import decide_cancellation
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.streams import GLOBAL_INVOICES
from ledger.invoicing.contract import ProviderUnavailable
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def cancel_global_invoice(
    ledger: Ledger, actor: Actor, reference: str, motive: CancellationMotive, substituted_by: UUID | None
) -> GlobalInvoice:
    """Asks SAT to cancel a global invoice, and returns it with the cancellation's progress. Sent again, it changes
    nothing unless the earlier request was refused.

    Raises GlobalInvoiceNotFound, InvalidField for `substitutedBy`, InvoiceNotReady; ProviderUnavailable if the provider
    could not be reached; ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, actor)

    async def attempt(_: Conflict | None) -> Plan:
        if ledger.invoicing is None or ledger.invoicing.provider is None:
            raise ProviderUnavailable("no stamping provider is configured")
        invoice = await uow.find(GLOBAL_INVOICES, reference)
        command = RequestCancellation(
            motive=motive,
            substituted_by=substituted_by,
            provider=ledger.invoicing.provider.capabilities.name,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
        )
        events = decide_cancellation(invoice, command)
        return Plan(changes=[uow.change(GLOBAL_INVOICES, invoice.global_invoice_id, events)])

    plan = await ledger.complete(execute(uow, attempt))
    if uow.nothing_was_sent:
        raise ProviderUnavailable("the stamping provider could not be reached")
    invoice = await uow.shown(GLOBAL_INVOICES, plan.stream_id)
    assert invoice is not None, "it was found before"
    return invoice
