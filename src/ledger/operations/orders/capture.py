"""Captures an authorised payment when the merchant asks for it.

A capture without an answer may have taken the money: recovery looks it up and nothing repeats it.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import CapturePayment
from ledger.domain.orders.decide.captures import decide_capture
from ledger.domain.orders.events import CaptureRequested
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, CaptureInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import WHOLE_ORDER, OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.accounts import rules_of
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def capture_order(
    ledger: Ledger, actor: Actor, reference: str, request: CaptureInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Captures `request.amount`, gross and in minor units, or all that is left of the authorisation (contract N41).

    Raises like `execute_on_order`; OrderNotFound, PaymentNotFound, InvalidField, InvalidOrderState,
    CaptureExceedsAuthorized, AmountExceedsPending, AmountNotChargeable.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        command = CapturePayment(
            idempotency_key=str(uuid7()),
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            amount=request.amount,
            payment_id=request.payment_id,
            final=request.final,
            rules=await rules_of(ledger, uow.merchant_id, order),
        )
        events = decide_capture(order, command)
        captured = (event.payment_id for event in events if isinstance(event, CaptureRequested))
        target = next((RequestTarget(payment_id=payment_id) for payment_id in captured), WHOLE_ORDER)
        return Plan(changes=[uow.change_order(order.terms.order_id, events)], target=target)

    return await ledger.complete(execute_on_order(uow, attempt))
