"""Cancels a stamped document with SAT, and asks later for the result of a cancellation that is pending.

A cancellation can be repeated: the provider answers a repeated one with the state of the first. So one without an
answer counts as pending, and its state is asked for later.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    RecordCancellation,
    Refused,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome, decide_document_cancellation
from ledger.domain.orders.invoices.events import DocumentCancellationRequested
from ledger.domain.orders.invoices.state import CancellationStatus, Document
from ledger.domain.orders.state import Order
from ledger.domain.rejections import Rejected
from ledger.invoicing import contract
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable, StampingProvider
from ledger.invoicing.invoicing import Invoicing
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, CancelDocumentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.stamp import StampResult, answered_stamping
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.idempotency import record_rejection
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork, load_order

_log = structlog.get_logger()

_SILENT: Final = CancellationPending("The provider did not answer in time.")
_NOT_SENT: Final = Refused("NOT_SENT", "The stamping provider could not be reached; nothing was cancelled.")


async def cancel_document(
    ledger: Ledger, actor: Actor, reference: str, request: CancelDocumentInput, key: IdempotencyKey | None = None
) -> StampResult:
    """Cancels a stamped document of an order, and returns the order with the cancellation's progress.

    Raises OrderNotFound, DocumentNotFound, InvoiceNotReady, InvoiceInUse, InvalidField; ProviderUnavailable where the
    provider could not be reached; ConcurrentUpdate, a Fault; with a key also IdempotencyKeyReused, RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)
    return await ledger.complete(_execute_request(uow, reference, request))


async def update_cancellation(ledger: Ledger, merchant_id: UUID, order_id: UUID, document_id: UUID) -> None:
    """Records what SAT reports about a cancellation without a result, where it reports one. Raises a Fault."""
    order = await load_order(ledger, merchant_id, order_id)
    document = None if order.invoices is None else order.invoices.document(document_id)
    if document is None or document.stamp is None or document.cancellation is None:
        return
    if document.cancellation.status not in {CancellationStatus.PENDING, CancellationStatus.REQUESTED}:
        return
    outcome = await _status(ledger, merchant_id, document)
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=document_id)
    await _record(uow, order_id, document_id, outcome)


async def _execute_request(uow: UnitOfWork, reference: str, request: CancelDocumentInput) -> StampResult:
    if uow.key is not None:
        answered = await answered_stamping(uow)
        if answered is not None:
            return answered
    invoicing = uow.ledger.invoicing
    if invoicing is None or invoicing.provider is None:
        raise ProviderUnavailable("no stamping provider is configured")
    uow.calls_open += 1  # until the provider has answered, no commit answers the request
    try:
        order = await uow.find_order(reference)
        order_id = order.terms.order_id
        document_id = await _request(uow, order_id, request, invoicing.provider)
    except Rejected as rejection:
        if uow.key is not None:
            await record_rejection(uow, rejection)
        raise
    if document_id is not None:
        document = _document(await uow.order(order_id), document_id)
        outcome = await _cancel(invoicing, invoicing.provider, uow.merchant_id, document)
        uow.now = await uow.ledger.clock.refresh(uow.merchant_id)  # the call took time
        await _record(uow, order_id, document_id, outcome)
        if outcome is _NOT_SENT:
            await uow.release()
            raise ProviderUnavailable("the stamping provider could not be reached")
    uow.calls_open -= 1
    order = await uow.order(order_id)
    if uow.key is not None:
        await uow.record_answer(Plan(changes=[uow.change_order(order_id, [])]), replayed=False)
    return StampResult(order=order)


async def _request(
    uow: UnitOfWork, order_id: UUID, request: CancelDocumentInput, provider: StampingProvider
) -> UUID | None:
    """Commits the intent; returns the document's id, or None where its cancellation was requested before."""

    async def attempt(_: Conflict | None) -> Plan:
        command = CancelDocument(
            motive=request.motive,
            provider=provider.capabilities.name,
            deadline_at=uow.ledger.call_deadline(),
            at=uow.now,
            document_id=request.document_id,
            substituted_by=request.substituted_by,
        )
        events = decide_document_cancellation(await uow.order(order_id), command)
        return Plan(changes=[uow.change_order(order_id, events)])

    plan = await execute(uow, attempt)
    return next((event.document_id for event in plan.events if isinstance(event, DocumentCancellationRequested)), None)


async def _record(uow: UnitOfWork, order_id: UUID, document_id: UUID, outcome: CancellationOutcome) -> None:
    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        command = RecordCancellation(document_id=document_id, outcome=outcome, at=uow.now)
        return Plan(changes=[uow.change_order(order_id, decide_cancellation_outcome(order, command))])

    await execute(uow, attempt, is_fact=True)


def _document(order: Order, document_id: UUID) -> Document:
    document = None if order.invoices is None else order.invoices.document(document_id)
    assert document is not None, "its cancellation was just committed"
    return document


async def _cancel(
    invoicing: Invoicing, provider: StampingProvider, merchant_id: UUID, document: Document
) -> CancellationOutcome:
    """Makes the call by its deadline. Never raises."""
    stamp, cancellation = document.stamp, document.cancellation
    assert stamp is not None, "only a stamped document is cancelled"
    assert cancellation is not None, "a cancellation was requested"
    assert cancellation.intent is not None, "its call has no outcome yet"
    deadline_at = cancellation.intent.deadline_at
    try:
        xml = await invoicing.files.read(stamp.xml_key)
        _, signer = await invoicing.issuers.signer_of(merchant_id)
        if xml is None:
            return _NOT_SENT
    except Exception as fault:  # noqa: BLE001 - whatever it was, nothing was sent
        _log.error("cancellation_not_sent", reason=type(fault).__name__, document_id=str(document.document_id))
        return _NOT_SENT
    request = contract.CancelRequest(
        merchant_id=merchant_id,
        document_id=document.document_id,
        deadline_at=deadline_at,
        fiscal_uuid=stamp.fiscal_uuid,
        xml=xml,
        motive=cancellation.motive.value,
        substituted_by=cancellation.substituted_by,
        signer=signer,
    )
    left_s = (deadline_at - datetime.now(UTC)).total_seconds()
    if left_s <= 0:  # the recovery asks for the state from then on, and could record what the call is about to change
        return _NOT_SENT
    try:
        async with asyncio.timeout(left_s):
            answer = await provider.cancel(request)
    except ProviderUnavailable:
        return _NOT_SENT
    except Exception as fault:  # noqa: BLE001 - a missing or unreadable answer: its state is asked for later
        _log.warning("cancellation_unanswered", reason=type(fault).__name__, document_id=str(document.document_id))
        return _SILENT
    match answer:
        case contract.Refused(code=code, message=message):
            return Refused(code, message)
        case contract.CancellationPending():
            return CancellationPending()
        case contract.Cancelled():
            return Cancelled()


async def _status(ledger: Ledger, merchant_id: UUID, document: Document) -> CancellationOutcome:
    """Returns what SAT reports now: PENDING where it reports nothing else. Raises a Fault."""
    invoicing, stamp = ledger.invoicing, document.stamp
    if invoicing is None or invoicing.provider is None or stamp is None:
        return CancellationPending()
    xml = await invoicing.files.read(stamp.xml_key)
    if xml is None:
        return CancellationPending()
    request = contract.StatusRequest(
        merchant_id=merchant_id,
        document_id=document.document_id,
        deadline_at=datetime.now(UTC) + timedelta(seconds=invoicing.timeout_s),
        fiscal_uuid=stamp.fiscal_uuid,
        xml=xml,
    )
    try:
        async with asyncio.timeout(invoicing.timeout_s):
            reported = await invoicing.provider.status(request)
    except (ProviderTimedOut, ProviderUnavailable, TimeoutError):
        return CancellationPending()
    match reported.state:
        case "CANCELLED":
            return Cancelled()
        case "ACTIVE":
            return Refused("ACTIVE", reported.detail or "SAT reports the document as valid.")
        case _:
            return CancellationPending()
