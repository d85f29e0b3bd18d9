"""Charges an invoice of a subscription by a payment order, and brings the order's outcome into the subscription.

Every step can be repeated by another worker or after a crash: the order's ids follow from the attempt, which was
committed before. Never begin another charge before the outcome of this one is recorded.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final
from uuid import UUID

import structlog

from ledger.domain.orders.declines import Advice, decline
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.terms import MethodType, OrderTerms
from ledger.domain.rejections import (
    ConcurrentUpdate,
    PaymentMethodExpired,
    Rejected,
    RequestInProgress,
)
from ledger.domain.subscriptions import charge_ids
from ledger.domain.subscriptions.commands import (
    ChargeFailed,
    ChargeNotSent,
    ChargeOutcome,
    ChargePaid,
    RecordCharge,
)
from ledger.domain.subscriptions.decide.charges import decide_outcome, is_surplus
from ledger.domain.subscriptions.state import Charge, Subscription
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, CustomerInput, OrderInput, PaymentInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.subscriptions.commit import load_subscription, subscription_plan
from ledger.processors.contract import ProcessorUnavailable

_log = structlog.get_logger()

_PARTIAL: Final = "INSUFFICIENT_FUNDS"
"""The decline of a charge of which the issuer approved a part: the part is refunded."""

_PASSING: Final = (ConcurrentUpdate, RequestInProgress)


async def settle_charge(uow: UnitOfWork, subscription: Subscription, *, begun_now: bool = False) -> bool:
    """Makes the payment order of the charge in progress, unless it is made, and records its outcome.

    `begun_now`: the caller has just begun the charge, so its order is not looked for before it is made. Returns False
    where the outcome is not known yet. Raises ConcurrentUpdate, a Fault.
    """
    charge = subscription.charge
    assert charge is not None, "a charge is in progress"
    order = None if begun_now else await load_charge_order(uow.ledger, uow.merchant_id, charge.order_id)
    outcome = await _make(uow, subscription, charge) if order is None else await charge_outcome(uow, order)
    if outcome is None:
        return False
    await record_charge(uow, subscription.subscription_id, charge.order_id, outcome)
    return True


async def record_charge(uow: UnitOfWork, subscription_id: UUID, order_id: UUID, outcome: ChargeOutcome) -> None:
    """Records the outcome of a charge, once. Refunds an order that paid what another one had paid, or nothing at all.

    Raises ConcurrentUpdate, a Fault.
    """

    async def attempt(_: Conflict | None) -> Plan:
        state = await load_subscription(uow, subscription_id)
        if isinstance(outcome, ChargePaid) and is_surplus(state, order_id):
            await _refund(uow, order_id)
        assert state is not None, "a charge's subscription was requested"
        command = RecordCharge(
            order_id=order_id, outcome=outcome, at=uow.now, unpaid_days=uow.ledger.subscription_unpaid_days
        )
        return await subscription_plan(uow, subscription_id, decide_outcome(state, command))

    await execute(uow, attempt, is_fact=True)


async def load_charge_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order | None:
    """Returns the payment order of a charge from the log, None before it is made."""
    order: Order | None
    order, _ = await ledger.journal.load(merchant_id, order_id, evolve_order)
    return order


async def charge_outcome(uow: UnitOfWork, order: Order) -> ChargeOutcome | None:
    """Returns what became of a charge's order, None where that is not known yet.

    The issuer may have approved a part: it is refunded, and the charge counts as declined.
    """
    if order.amount_paid >= order.amount:
        return ChargePaid()
    if any(payment.status in LIVE or payment.intent is not None for payment in order.payments):
        return None
    if order.net > 0:
        await _refund(uow, order.terms.order_id)
    if order.amount_paid > 0:
        return ChargeFailed(code=_PARTIAL, hard=False)
    return _failure(order.payments[-1])


def _failure(payment: Payment) -> ChargeOutcome:
    if payment.was_not_sent:
        return ChargeNotSent()
    if payment.failure is None:  # voided or expired
        return ChargeFailed(code=decline("").code, hard=False)
    reason = decline(payment.failure.code)
    by_risk = payment.failure.refused_by is RefusedBy.RISK
    return ChargeFailed(code=reason.code, hard=reason.advice is Advice.DO_NOT_RETRY, by_risk=by_risk)


async def _make(uow: UnitOfWork, subscription: Subscription, charge: Charge) -> ChargeOutcome | None:
    """Creates the order of a charge. A request that the ledger refuses before any call is a decline of the charge."""
    ledger = uow.ledger
    actor = Actor(merchant_id=uow.merchant_id, request_id="subscription")
    try:
        order = (await create_order(ledger, actor, _order_input(subscription, charge))).order
    except _PASSING:
        raise
    except ProcessorUnavailable:
        made = await load_charge_order(ledger, uow.merchant_id, charge.order_id)
        return ChargeNotSent() if made is None else await charge_outcome(uow, made)
    except Rejected as rejection:
        code = "CARD_EXPIRED" if isinstance(rejection, PaymentMethodExpired) else rejection.code
        ids = {"merchant_id": str(uow.merchant_id), "subscription_id": str(subscription.subscription_id)}
        _log.warning("subscription_charge_refused", code=code, **ids)
        return ChargeFailed(code=code, hard=False)
    return await charge_outcome(uow, order)


def _order_input(subscription: Subscription, charge: Charge) -> OrderInput:
    """Returns the payment order of an attempt: merchant-initiated, of the invoice's amount and no surcharge."""
    invoice = subscription.invoice(charge.invoice_id)
    external_id = charge_ids.external_id(subscription.subscription_id, invoice.ordinal, charge.attempt)
    return OrderInput(
        order_id=charge.order_id,
        surcharged=False,
        terms=OrderTerms(
            external_id=external_id,
            amount=invoice.amount,
            currency=invoice.currency,
            virtual_terminal=True,
            description=f"{invoice.plan_name} {invoice.number}",
            invoice_number=invoice.number,
        ),
        customer=CustomerInput(id=str(subscription.customer_id)),
        payment=PaymentInput(
            type=MethodType.CARD,
            payment_id=charge.payment_id,
            saved_method_id=str(charge.payment_method_id),
            virtual_terminal=True,
        ),
    )


async def _refund(uow: UnitOfWork, order_id: UUID) -> None:
    """Refunds what an order of a charge holds, once."""
    order = await load_charge_order(uow.ledger, uow.merchant_id, order_id)
    if order is None or order.refundable <= Decimal(0):
        return
    actor = Actor(merchant_id=uow.merchant_id, request_id="subscription")
    request = RefundInput(amount=order.refundable, reason="subscription", external_id=f"{order_id}:surplus")
    try:
        await refund_order(uow.ledger, actor, str(order_id), request)
    except _PASSING:
        raise
    except Rejected as rejection:  # the money stays on the order, where the merchant sees it
        _log.error("surplus_not_refunded", code=rejection.code, order_id=str(order_id))
