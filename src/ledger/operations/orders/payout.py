"""Refunds that the merchant pays out itself: it names an account for one of them, or confirms that it has paid.

The commit decides between the two: a refund that has been confirmed is not paid out by the processor as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.domain.orders.commands import ChangeRefundDestination, ConfirmPayout
from ledger.domain.orders.decide.payouts import decide_payout_confirmation, decide_refund_destination, find_refund
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import Destination
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, ConfirmationInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def change_refund_destination(
    ledger: Ledger,
    actor: Actor,
    reference: str,
    refund: str,
    destination: Destination,
    key: IdempotencyKey | None = None,
) -> OrderResult:
    """Names the account for a pending refund that the merchant was to pay out; the processor pays it out then.

    Raises like `execute_on_order`; OrderNotFound, RefundNotFound, InvalidOrderState, RefundInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)

    def decide(order: Order) -> Sequence[OrderEvent]:
        command = ChangeRefundDestination(
            reference=refund, destination=destination, deadline_at=ledger.call_deadline(), at=uow.now
        )
        return decide_refund_destination(order, command)

    return await _execute(uow, reference, refund, decide, SecretInputs(destination=destination))


async def confirm_payout(
    ledger: Ledger,
    actor: Actor,
    reference: str,
    refund: str,
    request: ConfirmationInput,
    key: IdempotencyKey | None = None,
) -> OrderResult:
    """Records that the merchant has paid out a pending refund.

    Raises like `execute_on_order`; OrderNotFound, RefundNotFound, InvalidField, InvalidOrderState, RefundInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)

    def decide(order: Order) -> Sequence[OrderEvent]:
        command = ConfirmPayout(
            reference=refund, at=uow.now, paid_at=request.paid_at, payout_reference=request.reference
        )
        return decide_payout_confirmation(order, command)

    return await _execute(uow, reference, refund, decide, SecretInputs())


async def _execute(
    uow: UnitOfWork,
    reference: str,
    refund: str,
    decide: Callable[[Order], Sequence[OrderEvent]],
    secrets: SecretInputs,
) -> OrderResult:
    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        events = decide(order)
        target = RequestTarget(refund_id=find_refund(order, refund).refund_id)
        return Plan(changes=[uow.change_order(order.terms.order_id, events)], target=target, secrets=secrets)

    return await uow.ledger.complete(execute_on_order(uow, attempt))
