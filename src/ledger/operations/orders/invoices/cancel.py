"""Cancels a stamped document with SAT, and asks later for the result of a cancellation that is pending.

A cancellation that SAT does not know is sent again: SAT answers a repeated request with the state of the first.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.invoices.commands import CancelDocument, RepeatCancellation, StillValid
from ledger.domain.invoices.decide.cancellation import decide_document_cancellation, decide_repeated_cancellation
from ledger.domain.orders.invoices.state import CancellationStatus
from ledger.domain.streams import ORDERS
from ledger.invoicing.contract import ProviderUnavailable
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, CancelDocumentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.document_request import DocumentAnswer, DocumentResult
from ledger.operations.orders.invoices.provider_calls import DocumentCancellationCall
from ledger.operations.pipeline.execute import execute, record_outcome
from ledger.operations.pipeline.execute_request import execute_request
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork, load_order


async def cancel_document(
    ledger: Ledger, actor: Actor, reference: str, request: CancelDocumentInput, key: IdempotencyKey | None = None
) -> DocumentResult:
    """Cancels a stamped document of an order, and returns the order with the cancellation's progress.

    Raises OrderNotFound, DocumentNotFound, InvoiceNotReady, InvoiceInUse, InvalidField; ProviderUnavailable if the
    provider could not be reached, FilesUnavailable while the store of files does not answer; ConcurrentUpdate, a Fault;
    with a key also IdempotencyKeyReused, RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        if ledger.invoicing is None or ledger.invoicing.provider is None:
            raise ProviderUnavailable("no stamping provider is configured")
        order = await uow.find(ORDERS, reference)
        ledger.invoicing.files.require_answering()
        command = CancelDocument(
            motive=request.motive,
            provider=ledger.invoicing.provider.capabilities.name,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            document_id=request.document_id,
            substituted_by=request.substituted_by,
        )
        return Plan(changes=[uow.change_order(order.terms.order_id, decide_document_cancellation(order, command))])

    return await ledger.complete(execute_request(uow, attempt, DocumentAnswer()))


async def update_cancellation(ledger: Ledger, merchant_id: UUID, order_id: UUID, document_id: UUID) -> None:
    """Records what SAT reports about a cancellation without a result. Sends it again if the document is still valid:
    the request may never have arrived. A call that is open is left to the recovery. Raises ConcurrentUpdate, a Fault.
    """
    order = await load_order(ledger, merchant_id, order_id)
    document = None if order.invoices is None else order.invoices.document(document_id)
    if document is None or document.stamp is None or document.cancellation is None:
        return
    if document.cancellation.status is not CancellationStatus.PENDING:
        return
    call = DocumentCancellationCall(ledger=ledger, merchant_id=merchant_id, order=order, document=document)
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=document_id)
    outcome = await call.look_up()
    if isinstance(outcome, StillValid) and ledger.invoicing is not None and ledger.invoicing.provider is not None:
        await _send_again(uow, order_id, document_id, ledger.invoicing.provider.capabilities.name)
    else:
        await record_outcome(uow, call, outcome)


async def _send_again(uow: UnitOfWork, order_id: UUID, document_id: UUID, provider: str) -> None:
    async def attempt(_: Conflict | None) -> Plan:
        command = RepeatCancellation(
            document_id=document_id, provider=provider, deadline_at=uow.ledger.call_deadline(), at=uow.now
        )
        events = decide_repeated_cancellation(await uow.order(order_id), command)
        return Plan(changes=[uow.change_order(order_id, events)])

    await execute(uow, attempt)
