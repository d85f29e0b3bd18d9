"""Stamps the documents of an order, one after another: for a timer, and for a merchant's request.

Each step is one commit: the outcome of the last call, the documents that are due by then, and the intent of the next
call. A crash between two commits leaves at most one open call, which recovery looks up before anything is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    EnableInvoicing,
    NotSent,
    RecordStamping,
    Stamped,
    StampingOutcome,
    StampNext,
    StampRequest,
)
from ledger.domain.invoices.decide.stamping import decide_enabling, decide_next, decide_outcome
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import InvoiceEvent, InvoicingBlocked, StampingRequested
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import FiscalDataIncomplete, Rejected, RequestInProgress
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, StampInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.call import load_libraries, stamp
from ledger.operations.orders.invoices.policy import invoicing_policy
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.idempotency import answered_before, find_record, record_rejection
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_NO_PROVIDER: Final = "STAMPING_NOT_CONFIGURED"
"""The failure of an invoice that is due where no stamping provider is configured. Stamp the order afterwards."""

_LINES_ON_LOOP: Final = 20
"""For how many lines an invoice is composed on the event loop, at 0.1 ms each; one of more lines in a thread."""


class StampResult(Struct, frozen=True, kw_only=True):
    """The order after a request to stamp it. `repeated` marks the answer that its idempotency key received before."""

    order: Order
    repeated: bool = False


class _Step(Struct, frozen=True, kw_only=True):
    """The outcome of a call, to be recorded with the next step."""

    document_id: UUID
    outcome: StampingOutcome


async def stamp_due(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order:
    """Stamps what is due on an order by its merchant's clock, and returns the order.

    Does nothing where nothing is due. Raises ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=order_id)
    await _stamp_in_order(uow, order_id, None, StampInput())
    return await uow.order(order_id)


async def stamp_order(
    ledger: Ledger, actor: Actor, reference: str, request: StampInput, key: IdempotencyKey | None = None
) -> StampResult:
    """Stamps the pending and failed documents that the request asks for (contract N43), and returns the order.

    A document that the provider refuses stays FAILED, and one whose outcome is unknown PENDING. Raises OrderNotFound,
    DocumentNotFound, FiscalDataIncomplete, AmountNotStampable, InvalidField; ProviderUnavailable where the provider
    could not be reached; ConcurrentUpdate, a Fault; with a key also IdempotencyKeyReused and RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)
    return await ledger.complete(_execute_request(uow, reference, request))


async def _execute_request(uow: UnitOfWork, reference: str, request: StampInput) -> StampResult:
    if uow.key is not None:
        answered = await answered_stamping(uow)
        if answered is not None:
            return answered
    uow.calls_open += 1  # until the last document is done, no commit answers the request
    try:
        order_id = (await uow.find_order(reference)).terms.order_id
        last, stamped = await _stamp_beside_others(uow, order_id, request)
    except Rejected as rejection:
        if uow.key is not None:
            await record_rejection(uow, rejection)
        raise
    uow.calls_open -= 1
    if isinstance(last, NotSent) and not stamped:
        await uow.release()
        raise ProviderUnavailable("the stamping provider could not be reached")
    order = await uow.order(order_id)
    if uow.key is not None:
        await uow.record_answer(Plan(changes=[uow.change_order(order_id, [])]), replayed=False)
    return StampResult(order=order)


async def _stamp_beside_others(
    uow: UnitOfWork, order_id: UUID, request: StampInput
) -> tuple[StampingOutcome | None, int]:
    """Stamps what is asked for, and waits a limited time for a call that the worker or another request has open."""
    until = time.monotonic() + uow.ledger.call_timeouts.replay_wait_s
    pause = 0.01
    while True:
        last, stamped = await _stamp_in_order(uow, order_id, request.stamp, request)
        if last is not None or time.monotonic() > until or not _has_open_call(await uow.order(order_id)):
            return last, stamped
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.25)
        uow.streams.pop(order_id, None)


def _has_open_call(order: Order) -> bool:
    """Returns whether a call about a document is under way. A call whose outcome is unknown does not count."""
    intent = None if order.invoices is None else order.invoices.open_intent
    return intent is not None and not intent.unknown


async def answered_stamping(uow: UnitOfWork) -> StampResult | None:
    """Returns the answer that the key has, None for a new request. Raises RequestInProgress while a call is open."""
    record = await find_record(uow)
    if record is None:
        return None
    if record.answer is None and record.stream_id is not None and _has_open_call(await uow.order(record.stream_id)):
        raise RequestInProgress(
            "A request with this Idempotency-Key is being carried out: send the request again after a second."
        )
    answer = await answered_before(uow)
    return None if answer is None else StampResult(order=answer.order, repeated=True)


async def _stamp_in_order(
    uow: UnitOfWork, order_id: UUID, request: StampRequest | None, given: StampInput
) -> tuple[StampingOutcome | None, int]:
    """Stamps documents until none is due, or one is not stamped; returns the last outcome and how many were stamped."""
    step: _Step | None = None
    stamped = 0
    while True:
        started = await _commit(uow, order_id, request, given, step)
        if started is None:
            return None if step is None else step.outcome, stamped
        order = await uow.order(order_id)
        assert order.invoices is not None, "a document was started"
        document = order.invoices.document(started)
        assert document is not None, "the order has the document that was started"
        assert document.intent is not None, "its intent was just committed"
        outcome = await stamp(uow.ledger, uow.merchant_id, order, document, document.intent)
        uow.now = await uow.ledger.clock.refresh(uow.merchant_id)  # the call took time
        stamped += isinstance(outcome, Stamped)
        step = _Step(document_id=started, outcome=outcome)


async def _commit(
    uow: UnitOfWork, order_id: UUID, request: StampRequest | None, given: StampInput, step: _Step | None
) -> UUID | None:
    """Commits the last call's outcome and the start of the next document; returns that document's id, or None."""

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        events: list[InvoiceEvent] = []
        if step is not None:
            record = RecordStamping(document_id=step.document_id, outcome=step.outcome, at=uow.now)
            events += decide_outcome(order, record)
        elif request is not None:
            events += await _enabling(uow, order, given)
        if step is None or isinstance(step.outcome, Stamped):
            after = fold(evolve, order, events)
            events += await _next(uow, after, request, is_first=step is None)
        return Plan(changes=[uow.change_order(order_id, events)])

    plan = await execute(uow, attempt, is_fact=step is not None)
    return _started(plan.events)


def _started(events: Sequence[Any]) -> UUID | None:
    return next((event.document_id for event in events if isinstance(event, StampingRequested)), None)


async def _enabling(uow: UnitOfWork, order: Order, given: StampInput) -> list[InvoiceEvent]:
    """Returns the events of fiscal data that came with the request. Raises FiscalDataIncomplete where there is none."""
    fiscal: FiscalData | None = given.fiscal
    if fiscal is None and order.terms.fiscal is None and order.invoices is None:
        raise FiscalDataIncomplete("The order has no fiscal data: send fiscalConfig.", ["fiscalConfig.taxId"])
    policy = invoicing_policy(await uow.ledger.merchant(uow.merchant_id), given.exchange_rate)
    return decide_enabling(order, EnableInvoicing(policy=policy, at=uow.now, fiscal=fiscal))


async def _next(
    uow: UnitOfWork, order: Order, request: StampRequest | None, *, is_first: bool
) -> Sequence[InvoiceEvent]:
    """Returns the next step's events. Once a document was stamped, what prevents the next one is no refusal."""
    invoicing = uow.ledger.invoicing
    assert invoicing is not None, "a process that stamps has an access to stamping"
    if invoicing.provider is None:
        if request is not None:
            raise ProviderUnavailable("no stamping provider is configured")
        return _blocked(order, _NO_PROVIDER, "No stamping provider is configured.", uow.now)
    try:
        issuer, signer = await invoicing.issuers.signer_of(uow.merchant_id)
        await asyncio.to_thread(load_libraries)
        command = StampNext(
            issuer=issuer,
            certificate=signer.certificate_number,
            provider=invoicing.provider.capabilities.name,
            deadline_at=uow.ledger.call_deadline(),
            at=uow.now,
            request=request,
        )
        if len(order.terms.line_items) > _LINES_ON_LOOP:
            return await asyncio.to_thread(decide_next, order, command)
        return decide_next(order, command)
    except IssuerMissing:
        rejection: Rejected = FiscalDataIncomplete("The merchant has set no issuer of invoices.", ["fiscalIssuer"])
    except Rejected as refused:
        rejection = refused
    if request is not None and is_first:
        raise rejection
    if request is not None:
        return []
    return _blocked(order, rejection.code, rejection.message, uow.now)


def _blocked(order: Order, code: str, message: str, at: datetime) -> list[InvoiceEvent]:
    """Returns the event that records, once, why nothing can be drawn up."""
    blocked = None if order.invoices is None else order.invoices.blocked
    return [] if blocked is not None and blocked.code == code else [InvoicingBlocked(code=code, message=message, at=at)]
