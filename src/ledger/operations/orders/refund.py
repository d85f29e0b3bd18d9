"""Refunds an order.

The commit of the intent takes the refund off the refundable amount before the processor hears of it. Therefore
concurrent refunds never give back more than was captured.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import RefundOrder
from ledger.domain.orders.decide.refunds import decide_refund
from ledger.domain.orders.state import Order
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.accounts import rules_of
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def refund_order(
    ledger: Ledger,
    actor: Actor,
    reference: str,
    request: RefundInput,
    key: IdempotencyKey | None = None,
    *,
    require: Callable[[Order], None] | None = None,
) -> OrderResult:
    """Refunds `request.amount`, gross and in minor units (contract N35 to N39, sections 8.7 and 8.11).

    `require` is given the order as it is refunded, and may raise. Raises what it raises, and like `execute_on_order`;
    OrderNotFound, PaymentNotFound, OrderNotRefundable, RefundInProgress, RefundExceedsBalance, RefundWindowExpired,
    IdempotencyMismatch, InvalidField, InvalidOrderState, AmountNotChargeable.
    """
    uow = UnitOfWork(ledger, actor, key, creates=True)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        if require is not None:
            require(order)
        command = RefundOrder(
            refund_id=uuid7(),
            amount=request.amount,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            reason=request.reason,
            payment_id=request.payment_id,
            external_id=request.external_id,
            allocations=request.allocations,
            destination=request.destination,
            rules=await rules_of(ledger, uow.merchant_id, order),
        )
        events = decide_refund(order, command)
        change = uow.change_order(order.terms.order_id, events)
        return Plan(
            changes=[change],
            target=RequestTarget(refund_id=_target_refund(order, command)),
            secrets=SecretInputs(destination=request.destination),
        )

    return await ledger.complete(execute_on_order(uow, attempt))


def _target_refund(order: Order, command: RefundOrder) -> UUID:
    """Returns the refund that the merchant has named so before, or else the new one."""
    existing = None if command.external_id is None else order.refund_by_external_id(command.external_id)
    return command.refund_id if existing is None else existing.refund_id
