"""Executes a merchant's request that may charge a subscription, and answers it with the outcome of the charge.

The first commit accepts the request and begins the charge; the answer is recorded once the outcome is. The same request
under the same key after a crash in between finds the charge by its payment, and completes it.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.declines import decline
from ledger.domain.rejections import ChargeRefused, ChargeRefusedByRisk, RequestInProgress
from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.events import RefusedBecause
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription
from ledger.operations.context.inputs import Actor
from ledger.operations.pipeline.execute import Attempt, record_outcome
from ledger.operations.pipeline.execute_request import execute_request, wait_until
from ledger.operations.pipeline.execute_stream import StreamResult, answered, stream_of
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, Plan, UnitOfWork
from ledger.operations.subscriptions.charge import charge_in_progress
from ledger.processors.contract import ProcessorUnavailable


async def execute_charging(uow: UnitOfWork, attempt: Attempt, *, must_be_paid: bool) -> StreamResult[Subscription]:
    """Executes a request on a subscription and waits for the charge that it begins, or that is in progress already.

    With `must_be_paid`, a decline is the answer. Raises like `execute_request`; ChargeRefused and ChargeRefusedByRisk;
    RequestInProgress if the outcome is not known in time; ProcessorUnavailable.
    """
    return await execute_request(uow, attempt, _ChargeAnswer(must_be_paid))


class _ChargeAnswer:
    """Answers with the subscription after its charge, or with the decline."""

    when = AnsweredWhen.AFTER_CALLS

    def __init__(self, must_be_paid: bool) -> None:
        self._must_be_paid = must_be_paid

    async def after(self, uow: UnitOfWork, plan: Plan) -> StreamResult[Subscription]:
        order_id = _order_in_progress(plan.changes[0].after)
        state = await self._ended(uow, plan.stream_id, order_id)
        return StreamResult(state=state, replayed=not plan.events)

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> StreamResult[Subscription]:
        if record.answer is not None:
            return await answered(uow, record, SUBSCRIPTIONS)
        current = await uow.load(SUBSCRIPTIONS, stream_of(record))
        assert current is not None, "an accepted request has begun"
        attempts = [attempt for invoice in current.invoices for attempt in invoice.attempts]
        order_id = next((each.order_id for each in attempts if record.payment_id in each.payment_ids), None)
        return StreamResult(state=await self._ended(uow, current.subscription_id, order_id), repeated=True)

    async def _ended(self, uow: UnitOfWork, subscription_id: UUID, order_id: UUID | None) -> Subscription:
        """Returns the subscription once its charge by this order has ended, or after the longest wait."""
        if order_id is not None and await _is_charged(uow, subscription_id, order_id):
            own = UnitOfWork(uow.ledger, Actor(merchant_id=uow.merchant_id, request_id="subscription"), cause=order_id)
            await wait_until(uow.ledger, lambda: _has_ended(own, subscription_id, order_id))
            uow.forget(subscription_id)
        state = await uow.load(SUBSCRIPTIONS, subscription_id)
        assert state is not None, "a subscription is never deleted"
        if self._must_be_paid or state.status is None:
            _require_paid(state, order_id)
        return state


async def _is_charged(uow: UnitOfWork, subscription_id: UUID, order_id: UUID) -> bool:
    state = await uow.load(SUBSCRIPTIONS, subscription_id)
    return state is not None and _order_in_progress(state) == order_id


async def _has_ended(uow: UnitOfWork, subscription_id: UUID, order_id: UUID) -> bool:
    """Returns whether the charge has its outcome; looks it up and records it if it has none."""
    state = await uow.load(SUBSCRIPTIONS, subscription_id, fresh=True)
    if state is None or _order_in_progress(state) != order_id:
        return True
    call = charge_in_progress(uow.ledger, uow.merchant_id, state)
    outcome = await call.look_up()
    if outcome is None:
        return False
    await record_outcome(uow, call, outcome)
    return True


def _require_paid(state: Subscription, order_id: UUID | None) -> None:
    """Checks that the charge was paid, or that there was none.

    Raises RequestInProgress, ProcessorUnavailable, ChargeRefused, ChargeRefusedByRisk.
    """
    if _order_in_progress(state) == order_id and order_id is not None:
        raise RequestInProgress(
            "The processor has not reported the outcome of the charge yet: send the request again after some seconds."
        )
    if state.refusal is not None:
        if state.refusal.because is RefusedBecause.NOT_SENT:
            raise _not_sent()
        raise _refusal(state.refusal.decline_code or "", by_risk=state.refusal.refused_by_risk)
    invoice = None if order_id is None else state.invoice_of(order_id)
    if invoice is None or invoice.status is InvoiceStatus.PAID:
        return
    if invoice.last_order_unsent:
        raise _not_sent()
    raise _refusal(invoice.last_decline or "", by_risk=invoice.refused_by_risk)


def _not_sent() -> ProcessorUnavailable:
    return ProcessorUnavailable("The payment processor cannot be reached; nothing was charged. Try again later.")


def _refusal(code: str, *, by_risk: bool) -> ChargeRefused | ChargeRefusedByRisk:
    reason = decline(code)
    rejection = ChargeRefusedByRisk if by_risk else ChargeRefused
    return rejection(reason.message, declineCode=reason.code, retryable=reason.retryable, advice=reason.advice)


def _order_in_progress(state: Subscription) -> UUID | None:
    return None if state.charge is None else state.charge.order_id
