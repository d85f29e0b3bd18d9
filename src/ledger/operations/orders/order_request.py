"""Executes a merchant's request on an order, with the calls to the processor that it announces."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.state import Order
from ledger.domain.streams import CUSTOMERS, ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.results import NothingSent, OrderResult, RequestTarget
from ledger.operations.pipeline.execute import Attempt
from ledger.operations.pipeline.execute_request import execute_request, wait_until
from ledger.operations.pipeline.execute_stream import answered, stream_of
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, Plan, UnitOfWork, in_progress


def execute_on_order(uow: UnitOfWork, attempt: Attempt) -> Coroutine[Any, Any, OrderResult]:
    """Executes a request on an order. Raises like `execute_request`; ProcessorUnavailable if nothing was sent.

    The order's customer, who is in the answer, is read before the commit: if its record does not open, the request is
    refused, and not carried out without an answer.
    """

    async def attempt_that_can_be_answered(conflict: Conflict | None) -> Plan:
        plan = await attempt(conflict)
        await read_customer(uow, plan)
        return plan

    return execute_with_customer(uow, attempt_that_can_be_answered)


def execute_with_customer(uow: UnitOfWork, attempt: Attempt) -> Coroutine[Any, Any, OrderResult]:
    """Executes a request on an order, whose attempt reads the order's customer. Raises like `execute_on_order`."""
    return execute_request(uow, attempt, _ANSWER)


async def read_customer(uow: UnitOfWork, plan: Plan) -> None:
    """Reads the customer of a plan's order if the plan changes the order. Raises a Fault."""
    if plan.events:
        order: Order = plan.changes[0].after
        await uow.load(CUSTOMERS, order.terms.customer_id)


class _OrderAnswer:
    """Answers with the order, its customer, and the payment or refund that the request is about."""

    when = AnsweredWhen.AT_COMMIT

    async def after(self, uow: UnitOfWork, plan: Plan) -> OrderResult:
        if not plan.events:
            await wait_until(uow.ledger, lambda: _has_no_open_call(uow, plan))
        order = uow.known(ORDERS, plan.stream_id) or await uow.order(plan.stream_id)
        if plan.events and uow.nothing_was_sent:
            raise uow.withheld_because or NothingSent(order)
        customer_id = order.terms.customer_id
        customer = uow.known(CUSTOMERS, customer_id) or await uow.shown(CUSTOMERS, customer_id)
        if order.payer_forgotten and customer is not None and not customer.erased:  # it was erased during the calls
            customer = await uow.load(CUSTOMERS, customer_id, fresh=True)
        assert customer is not None, "an order's customer is never deleted"
        return OrderResult(
            order=order,
            customer=customer,
            payment_id=plan.target.payment_id,
            refund_id=plan.target.refund_id,
            created=uow.creates and bool(plan.events),
            replayed=not plan.events,
        )

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> OrderResult | None:
        target = RequestTarget(payment_id=record.payment_id, refund_id=record.refund_id)
        order = await answered_order(uow, record, target)
        if order is None:
            return None
        customer = await uow.ledger.customers.by_id(uow.merchant_id, order.terms.customer_id)
        assert customer is not None, "an order's customer is never deleted"
        return OrderResult(
            order=order,
            customer=customer.customer,
            payment_id=target.payment_id,
            refund_id=target.refund_id,
            created=uow.creates if record.answer is None else record.answer.created,
            replayed=record.answer is not None and record.answer.replayed,
            repeated=True,
        )


_ANSWER: Final = _OrderAnswer()


async def answered_order(uow: UnitOfWork, record: IdempotencyRecord, target: RequestTarget) -> Order | None:
    """Returns the order as the request was answered with it, or as it is if only the answer is missing.

    Returns None for a call that was not sent, of a record that was written before releases were. Raises
    RequestInProgress while a call about the target is under way.
    """
    if record.answer is not None:
        return (await answered(uow, record, ORDERS)).state
    order = await uow.order(stream_of(record))
    if target.payment_id is not None and order.payment(target.payment_id).was_not_sent:
        return None
    if has_open_call(order, target):
        raise in_progress()
    return order


async def _has_no_open_call(uow: UnitOfWork, plan: Plan) -> bool:
    """Returns whether no call about the plan's target is under way, and reads the order again the next time if one
    is.
    """
    if not has_open_call(await uow.order(plan.stream_id), plan.target):
        return True
    uow.forget(plan.stream_id)
    return False


def has_open_call(order: Order, target: RequestTarget) -> bool:
    """Returns whether a processor call about the target is under way.

    A call whose outcome is unknown does not count, and one that is sent again later does not either.
    """
    for payment in order.payments:
        intent = payment.intent
        if intent is None or intent.unknown or intent.unsent or target.payment_id not in {None, payment.payment_id}:
            continue
        if target.refund_id in {None, intent.refund_id}:
            return True
    return False
