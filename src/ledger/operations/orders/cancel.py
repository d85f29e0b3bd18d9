"""Cancels an order or one payment of it: voids authorisations and, if the merchant asks for it, refunds what is
held.

The outcomes of all voids and refunds close the order. If a processor refuses a void, the cancellation is refused and
the order stays open.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import CancelOrder, CancelPayment
from ledger.domain.orders.decide.cancellation import decide_cancellation, decide_payment_cancellation
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, CancelInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.accounts import rules_of
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def cancel_order(
    ledger: Ledger, actor: Actor, reference: str, request: CancelInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Cancels the order that `reference` names (contract N40), or the one payment of it that the request names.

    Raises like `execute_on_order`; OrderNotFound, PaymentNotFound, OrderHasCapturedFunds, InvalidOrderState,
    OrderNotRefundable.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        events = await _decide(uow, order, request)
        change = uow.change_order(order.terms.order_id, events)
        return Plan(changes=[change], target=RequestTarget(payment_id=request.payment_id))

    return await ledger.complete(execute_on_order(uow, attempt))


async def _decide(uow: UnitOfWork, order: Order, request: CancelInput) -> list[OrderEvent]:
    deadline_at = uow.ledger.call_deadline()
    if request.payment_id is not None:
        return decide_payment_cancellation(
            order,
            CancelPayment(
                payment_id=request.payment_id, idempotency_key=str(uuid7()), deadline_at=deadline_at, at=uow.now
            ),
        )
    return decide_cancellation(
        order,
        CancelOrder(
            cancellation_id=uuid7(),
            refund_id=uuid7(),
            deadline_at=deadline_at,
            at=uow.now,
            refund_captured=request.refund_captured,
            reason=request.reason,
            rules=await rules_of(uow.ledger, uow.merchant_id, order),
        ),
    )
