"""Adds a payment to an order that allows partial payments.

Other payments may be under way at the same time. The core reserves what they may still take, and the version check of
the commit decides which of two payments was first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.domain.orders.commands import AddPayment, NewPayment
from ledger.domain.orders.decide.payments import decide_payment
from ledger.domain.orders.events import OrderEvent
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.orders.new_payment import new_payment, payment_plan
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.payment_methods.card_tokens import with_card_for_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def add_payment(
    ledger: Ledger, actor: Actor, reference: str, request: PaymentInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Pays `request.amount` of the order's subtotal, in minor units, or all that is unpaid (contract N32 to N34,
    section 8.7).

    Raises like `execute_on_order`; OrderNotFound, PaymentMethodNotFound, MethodNotEnabled, PartialsNotAllowed,
    OrderNotPayable, AmountExceedsPending, IdempotencyMismatch, InvalidField, CardTokenInvalid.
    """
    request = await with_card_for_order(ledger, actor, reference, request)
    uow = UnitOfWork(ledger, actor, key, creates=True)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        payment = await new_payment(ledger, await ledger.merchant(uow.merchant_id), request)

        def decide(payment: NewPayment) -> Sequence[OrderEvent]:
            return decide_payment(order, AddPayment(payment=payment, at=uow.now))

        return await payment_plan(uow, order, request, payment, decide)

    return await ledger.complete(execute_on_order(uow, attempt))
