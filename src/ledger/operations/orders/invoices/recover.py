"""Finds the outcomes of calls to the stamping provider that crashes and time-outs left open."""

from __future__ import annotations

from uuid import UUID

import structlog

from ledger.domain.invoices.commands import RecordStamping
from ledger.domain.invoices.decide.stamping import decide_outcome
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.state import Order
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.call import look_up
from ledger.operations.orders.invoices.cancel import update_cancellation
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork

_log = structlog.get_logger()


async def recover_document(
    ledger: Ledger, merchant_id: UUID, order: Order, document: Document, *, late_s: float, timeout_s: float
) -> bool:
    """Looks up the open call about a document and records its outcome. Returns False where it is still unknown.

    "Not found" can be final `late_s` seconds after the deadline; one look-up takes at most `timeout_s`. Raises a Fault.
    """
    order_id, document_id = order.terms.order_id, document.document_id
    if document.intent is None:
        await update_cancellation(ledger, merchant_id, order_id, document_id)
        return True
    outcome = await look_up(ledger, merchant_id, order, document, document.intent, late_s=late_s, timeout_s=timeout_s)
    if outcome is None:
        return False
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="recovery"), cause=document_id)

    async def attempt(_: Conflict | None) -> Plan:
        current = await uow.order(order_id)
        record = RecordStamping(document_id=document_id, outcome=outcome, at=uow.now)
        return Plan(changes=[uow.change_order(order_id, decide_outcome(current, record))])

    await execute(uow, attempt, is_fact=True)
    _log.info(
        "document_recovered", order_id=str(order_id), document_id=str(document_id), outcome=type(outcome).__name__
    )
    return True
