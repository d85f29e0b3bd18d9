"""Releases the rest of a partly captured authorisation when the merchant asks for it.

A release without an answer may have ended the hold: until its outcome is known, nothing of it is captured.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import ReleaseRest
from ledger.domain.orders.decide.releases import decide_release_of_rest
from ledger.domain.orders.events import ReleaseRequested
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, ReleaseInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import WHOLE_ORDER, OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def release_rest(
    ledger: Ledger, actor: Actor, reference: str, request: ReleaseInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Ends the hold on what a partial capture has left, of the payment that is named or of the newest one with a rest.

    Raises like `execute_on_order`; OrderNotFound, PaymentNotFound, InvalidOrderState.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        command = ReleaseRest(
            idempotency_key=str(uuid7()),
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            payment_id=request.payment_id,
        )
        events = decide_release_of_rest(order, command)
        released = (event.payment_id for event in events if isinstance(event, ReleaseRequested))
        target = next((RequestTarget(payment_id=payment_id) for payment_id in released), WHOLE_ORDER)
        return Plan(changes=[uow.change_order(order.terms.order_id, events)], target=target)

    return await ledger.complete(execute_on_order(uow, attempt))
