"""Executes a merchant's request that may charge a subscription, and answers it with the outcome of the charge.

The first commit accepts the request and begins the charge; the answer is recorded once the outcome is. The same request
under the same key after a crash in between finds the charge by its payment, and completes it.
"""

from __future__ import annotations

import asyncio
import time
from typing import NoReturn
from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.declines import decline
from ledger.domain.rejections import ChargeRefused, ChargeRefusedByRisk, Rejected, RequestInProgress
from ledger.domain.subscriptions import charge_ids
from ledger.domain.subscriptions.events import RefusedBecause
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription
from ledger.operations.context.inputs import Actor
from ledger.operations.pipeline.execute import Attempt, execute
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.idempotency import find_record, record_refusal, record_rejection
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.subscriptions.charge import settle_charge
from ledger.operations.subscriptions.commit import load_subscription
from ledger.processors.contract import ProcessorUnavailable


async def execute_charging(uow: UnitOfWork, attempt: Attempt, *, must_be_paid: bool) -> StreamResult[Subscription]:
    """Executes a request on a subscription and waits for the charge that it begins, or that is in progress already.

    With `must_be_paid`, a decline is the answer. Raises what `attempt` raises, ConcurrentUpdate, a Fault; ChargeRefused
    and ChargeRefusedByRisk; RequestInProgress where the outcome is not known in time; ProcessorUnavailable; with a key
    also IdempotencyKeyReused.
    """
    record = None if uow.key is None else await find_record(uow)
    if record is not None:
        return await _repeated(uow, record, must_be_paid)
    try:
        plan = await execute(uow, attempt)
    except Rejected as rejection:
        if uow.key is not None:
            await record_rejection(uow, rejection)
        raise
    state: Subscription = plan.changes[0].after
    return await _finish(uow, state, _order_in_progress(state), must_be_paid, replayed=not plan.events)


async def _repeated(uow: UnitOfWork, record: IdempotencyRecord, must_be_paid: bool) -> StreamResult[Subscription]:
    """Returns the answer that the key has already, or continues with its request."""
    assert record.stream_id is not None, "an accepted request names its stream"
    if record.answer is not None:
        events = await uow.ledger.journal.reader.stream(uow.merchant_id, record.stream_id)
        answered, later = events[: record.answer.stream_version], events[record.answer.stream_version :]
        state = fold(evolve, None, answered)
        return StreamResult(state=state, replayed=record.answer.replayed, repeated=True, later=later)
    current = await load_subscription(uow, record.stream_id)
    assert current is not None, "an accepted request has begun"
    orders = [order_id for invoice in current.invoices for order_id in invoice.orders]
    order_id = next((order for order in orders if charge_ids.payment_id(order) == record.payment_id), None)
    result = await _finish(uow, current, order_id, must_be_paid, replayed=False)
    return StreamResult(state=result.state, repeated=True)


async def _finish(
    uow: UnitOfWork, state: Subscription, order_id: UUID | None, must_be_paid: bool, *, replayed: bool
) -> StreamResult[Subscription]:
    """Waits for the outcome of the charge by this order, and answers the request with it."""
    if order_id is not None:
        state = await _settled(uow, state, order_id)
    if must_be_paid or state.status is None:
        await _require_paid(uow, state, order_id)
    if uow.key is not None:
        uow.streams.pop(state.subscription_id, None)
        await load_subscription(uow, state.subscription_id)
        await _answer(uow, state, replayed)
    return StreamResult(state=state, replayed=replayed)


async def _answer(uow: UnitOfWork, state: Subscription, replayed: bool) -> None:
    record = await uow.load_record()
    if record is None or record.answer is None:
        plan = Plan(changes=[uow.change(state.subscription_id, evolve, [])])
        await uow.record_answer(plan, replayed=replayed)


async def _settled(uow: UnitOfWork, state: Subscription, order_id: UUID) -> Subscription:
    """Returns the subscription once the charge has an outcome, or as it is after the longest wait."""
    own = UnitOfWork(uow.ledger, Actor(merchant_id=uow.merchant_id, request_id="subscription"), cause=order_id)
    until = time.monotonic() + uow.ledger.call_timeouts.replay_wait_s
    pause = 0.02
    current: Subscription | None = state
    while current is not None and current.charge is not None and current.charge.order_id == order_id:
        if not await settle_charge(own, current):
            if time.monotonic() >= until:
                return current
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.25)
        own.streams.pop(state.subscription_id, None)
        current = await load_subscription(own, state.subscription_id)
    assert current is not None, "a subscription is never deleted"
    return current


async def _require_paid(uow: UnitOfWork, state: Subscription, order_id: UUID | None) -> None:
    """Returns where the charge was paid, or where there was none.

    Raises RequestInProgress, ProcessorUnavailable, ChargeRefused, ChargeRefusedByRisk.
    """
    if _order_in_progress(state) == order_id and order_id is not None:
        raise RequestInProgress(
            "The processor has not reported the outcome of the charge yet: send the request again after some seconds."
        )
    if state.refusal is not None:
        if state.refusal.because is RefusedBecause.NOT_SENT:
            await _not_sent(uow)
        await _refuse(uow, state.refusal.decline_code or "", by_risk=state.refusal.refused_by_risk)
    invoice = None if order_id is None else state.invoice_of(order_id)
    if invoice is None or invoice.status is InvoiceStatus.PAID:
        return
    if invoice.last_order_unsent:
        await _not_sent(uow)
    await _refuse(uow, invoice.last_decline or "", by_risk=invoice.refused_by_risk)


async def _not_sent(uow: UnitOfWork) -> NoReturn:
    await uow.release()
    raise ProcessorUnavailable("The payment processor cannot be reached; nothing was charged. Try again later.")


async def _refuse(uow: UnitOfWork, code: str, *, by_risk: bool) -> NoReturn:
    reason = decline(code)
    rejection = ChargeRefusedByRisk if by_risk else ChargeRefused
    refused = rejection(reason.message, declineCode=reason.code, retryable=reason.retryable, advice=reason.advice)
    if uow.key is not None:
        await record_refusal(uow, refused)
    raise refused


def _order_in_progress(state: Subscription) -> UUID | None:
    return None if state.charge is None else state.charge.order_id
