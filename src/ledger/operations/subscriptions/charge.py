"""Charges an invoice of a subscription by a payment order, and brings the order's outcome into the subscription.

Every step can be repeated by another worker or after a crash: the order's ids follow from the attempt, which was
committed before. Never begin another charge before the outcome of this one is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final, NoReturn
from uuid import UUID

import structlog
from msgspec import UNSET

from ledger.domain.orders.declines import decline
from ledger.domain.orders.events import OrderCreated, RefusedBy
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import LineItem, MethodType, OrderTerms
from ledger.domain.plans.state import Plan as SubscriptionPlan
from ledger.domain.rejections import (
    ConcurrentUpdate,
    DuplicateExternalId,
    PaymentMethodExpired,
    Rejected,
    RequestInProgress,
)
from ledger.domain.streams import ORDERS, SUBSCRIPTIONS, Stream
from ledger.domain.subscriptions import charge_ids
from ledger.domain.subscriptions.commands import (
    ChargeFailed,
    ChargeNotSent,
    ChargeOutcome,
    ChargePaid,
    RecordCharge,
)
from ledger.domain.subscriptions.decide.charges import decide_outcome, is_surplus
from ledger.domain.subscriptions.events import ChargeBegun, ChargeUnsent, SubscriptionEvent
from ledger.domain.subscriptions.state import Invoice, Subscription, SubscriptionStatus
from ledger.journal.append import Change
from ledger.operations.context.inputs import (
    Actor,
    CustomerInput,
    CustomersFiscal,
    OrderInput,
    PaymentInput,
    RefundInput,
)
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.calls import Call, Failure, LookUp
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.subscriptions.commit import subscription_plan
from ledger.processors.contract import ProcessorUnavailable

_log = structlog.get_logger()

_PARTIAL: Final = "INSUFFICIENT_FUNDS"
"""The decline of a charge of which the issuer approved a part: the part is refunded."""

_PAYMENTS_MAX: Final = 30
"""How many payments that were not sent an order has at most: it is read and written whole with each."""

_PASSING: Final = (ConcurrentUpdate, RequestInProgress)


class ChargeSettled(Exception):
    """The charge has its outcome: another worker has recorded it since."""


class OrderChanged(Exception):
    """The order of a charge has changed since it was read."""


class ChargeCall(Call, frozen=True, kw_only=True):
    """The charge of an invoice, by a payment order that the subscription has begun.

    `payment_id` is the payment of that order whose outcome is the charge's. The call has no deadline: it consists of
    the calls of its order, each with a deadline of its own.
    """

    subscription: Subscription
    order_id: UUID
    payment_id: UUID

    stream: ClassVar[Stream[Any]] = SUBSCRIPTIONS

    @property
    def stream_id(self) -> UUID:
        return self.subscription.subscription_id

    @property
    def deadline_at(self) -> None:
        return None

    async def send(self, prepared: None = None, left_s: float = 0.0) -> ChargeOutcome | None:  # noqa: ARG002 - no deadline
        """Creates the order, or pays the order of an attempt that was not sent before. Returns None if another worker
        has recorded the outcome meanwhile: that nothing was sent, perhaps.

        A request that the ledger refuses before any call is a decline of the charge.

        Raises ConcurrentUpdate, RequestInProgress, a Fault.
        """
        actor = Actor(merchant_id=self.merchant_id, request_id="subscription")
        try:
            request = _order_input(self.subscription, await self._plan())
            order = (await create_order(self.ledger, actor, request, requires=self._in_progress)).order
        except _PASSING:
            raise
        except ChargeSettled:
            return None
        except ProcessorUnavailable:
            made = await load_charge_order(self.ledger, self.merchant_id, self.order_id)
            return ChargeNotSent() if made is None else await self._outcome(made)
        except DuplicateExternalId:
            made = await load_charge_order(self.ledger, self.merchant_id, self.order_id)
            if made is not None:  # the merchant has cancelled it since an earlier payment was not sent
                return ChargeNotSent(order_ended=True)
            return self._refused(DuplicateExternalId.code)
        except Rejected as rejection:
            code = "CARD_EXPIRED" if isinstance(rejection, PaymentMethodExpired) else rejection.code
            return self._refused(code)
        return await self._outcome(order)

    async def _in_progress(self, uow: UnitOfWork) -> Change:
        """Returns the check that the subscription is as it was read, with this charge in progress. Raises
        ChargeSettled.
        """
        state = await uow.load(SUBSCRIPTIONS, self.stream_id)
        if state is None or state.charge is None or state.charge.payment_id != self.payment_id:
            raise ChargeSettled
        return uow.change(SUBSCRIPTIONS, self.stream_id, ())

    async def _plan(self) -> SubscriptionPlan | None:
        """Returns the plan of the invoice as it is now: its keys and taxes are those of the invoices from now on."""
        invoice = self.subscription.invoice_of(self.order_id)
        plan_id = self.subscription.plan_id if invoice is None else invoice.plan_id
        return await self.ledger.plan(self.merchant_id, plan_id)

    def _refused(self, code: str) -> ChargeFailed:
        ids = {"merchant_id": str(self.merchant_id), "subscription_id": str(self.stream_id)}
        _log.warning("subscription_charge_refused", code=code, **ids)
        return ChargeFailed(code=code, hard=False)

    async def _outcome(self, order: Order) -> ChargeOutcome | None:
        """Returns what became of the charge. An order that has not taken its payment is paid, or being paid, by the
        merchant: another one is made then.
        """
        if not order.has_payment(self.payment_id) and order.amount_paid < order.amount:
            return ChargeNotSent(order_ended=True)
        outcome = await charge_outcome(self.ledger, self.merchant_id, order, self.payment_id)
        if isinstance(outcome, ChargeNotSent) and len(order.payments) >= _PAYMENTS_MAX:
            return ChargeNotSent(order_ended=True)
        return outcome

    def without_answer(self, failure: Failure) -> NoReturn:
        """Raises what was raised: the order has the unknown outcome, and the charge is looked up by it."""
        assert failure.fault is not None, "no deadline of it can pass"
        raise failure.fault

    async def look_up(self, how: LookUp | None = None) -> ChargeOutcome | None:  # noqa: ARG002 - reads the log alone
        """Returns what became of the charge's payment, which is made now if a crash has prevented it."""
        order = await load_charge_order(self.ledger, self.merchant_id, self.order_id)
        if order is None or not order.has_payment(self.payment_id):
            return ChargeNotSent() if self._is_over else await self.send()
        return await self._outcome(order)

    @property
    def _is_over(self) -> bool:
        """Whether the subscription has ended, and what is charged is not its last invoice: nothing more is sent."""
        invoice = self.subscription.invoice_of(self.order_id)
        is_last = invoice is not None and invoice.is_final
        return self.subscription.status is SubscriptionStatus.CANCELED and not is_last

    def needs_first(self, state: Subscription | None, outcome: ChargeOutcome) -> Call | None:
        """Returns the refund of an order that paid what another one had paid, or nothing at all.

        It comes before the outcome: after a crash in between, the charge is looked up and refunded again, once.
        """
        if not isinstance(outcome, ChargePaid) or not is_surplus(state, self.order_id):
            return None
        return _SurplusRefund(
            ledger=self.ledger,
            merchant_id=self.merchant_id,
            subscription=self.subscription,
            order_id=self.order_id,
            payment_id=self.payment_id,
        )

    def record(self, state: Subscription, outcome: ChargeOutcome, now: datetime) -> Sequence[SubscriptionEvent]:
        command = RecordCharge(
            order_id=self.order_id,
            payment_id=self.payment_id,
            outcome=outcome,
            at=now,
            unpaid_days=self.ledger.subscription_unpaid_days,
        )
        return decide_outcome(state, command)

    async def plan(self, uow: UnitOfWork, events: Sequence[SubscriptionEvent]) -> Plan:
        """Returns the plan of an outcome. That nothing was sent is recorded only if no other worker has made the
        payment since it was looked for.
        """
        if not any(isinstance(event, ChargeUnsent) for event in events):
            return await subscription_plan(uow, self.stream_id, events)
        order = await uow.load(ORDERS, self.order_id)
        if order is None:
            return await subscription_plan(uow, self.stream_id, events, uow.absence(self.order_id))
        if order.has_payment(self.payment_id) and not order.payment(self.payment_id).was_not_sent:
            events = ()
        return await subscription_plan(uow, self.stream_id, events, uow.change_order(self.order_id, ()))


class _SurplusRefund(ChargeCall, frozen=True, kw_only=True):
    """Refunds the order of a charge; its outcome is that of the charge."""

    async def send(self, prepared: None = None, left_s: float = 0.0) -> ChargePaid:  # noqa: ARG002 - no deadline
        await _refund(self.ledger, self.merchant_id, self.order_id)
        return ChargePaid()

    def needs_first(self, state: Subscription | None, outcome: ChargeOutcome) -> None:  # noqa: ARG002 - it has ended
        return None


def charge_call(
    ledger: Ledger, merchant_id: UUID, subscription: Subscription, event: ChargeBegun, _: object = None
) -> ChargeCall | None:
    """Returns the charge that an event of this subscription begins; None if it has ended already."""
    charge = subscription.charge
    if charge is None or charge.payment_id != event.payment_id:
        return None
    return charge_in_progress(ledger, merchant_id, subscription)


def charge_in_progress(ledger: Ledger, merchant_id: UUID, subscription: Subscription) -> ChargeCall:
    """Returns the charge that a subscription has in progress."""
    charge = subscription.charge
    assert charge is not None, "a charge is in progress"
    return ChargeCall(
        ledger=ledger,
        merchant_id=merchant_id,
        subscription=subscription,
        order_id=charge.order_id,
        payment_id=charge.payment_id,
    )


def subscription_of(order: OrderCreated) -> UUID | None:
    """Returns the subscription that an order charges, None for any other order."""
    return order.subscription_id or charge_ids.subscription_in(order.order_id, order.external_id)


async def load_charge_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order | None:
    """Returns the payment order of a charge from the log, None before it is made."""
    order, _ = await ledger.journal.load(merchant_id, ORDERS, order_id)
    return order


async def charge_outcome(ledger: Ledger, merchant_id: UUID, order: Order, payment_id: UUID) -> ChargeOutcome | None:
    """Returns what became of a charge by this payment of its order, None if that is not known yet.

    The issuer may have approved a part: it is refunded, and the charge counts as declined.
    """
    if order.amount_paid >= order.amount:
        return ChargePaid()
    if _is_under_way(order):
        return None
    if order.net > 0:
        try:
            await _refund(ledger, merchant_id, order.terms.order_id, is_part=True)
        except OrderChanged:  # the merchant may have paid the rest
            changed = await load_charge_order(ledger, merchant_id, order.terms.order_id)
            assert changed is not None, "an order is never deleted"
            return await charge_outcome(ledger, merchant_id, changed, payment_id)
    if order.amount_paid > 0:
        return ChargeFailed(code=_PARTIAL, hard=False)
    return _failure(order.payment(payment_id))


def _is_under_way(order: Order) -> bool:
    return any(payment.status in LIVE or payment.intent is not None for payment in order.payments)


def _failure(payment: Payment) -> ChargeOutcome:
    if payment.was_not_sent:
        return ChargeNotSent()
    if payment.failure is None:  # voided or expired
        return ChargeFailed(code=decline("").code, hard=False)
    reason = decline(payment.failure.code, payment.failure.network_advice)
    by_risk = payment.failure.refused_by is RefusedBy.RISK
    return ChargeFailed(code=reason.code, hard=reason.advice is Advice.DO_NOT_RETRY, by_risk=by_risk)


def _order_input(subscription: Subscription, plan: SubscriptionPlan | None) -> OrderInput:
    """Returns the payment order of an attempt: merchant-initiated, of the invoice's amount and no surcharge.

    It is invoiced if the customer has fiscal data. Its one line is the plan, also if the amount includes the lines of a
    change of plan: an electronic invoice has no line with a negative amount.
    """
    charge = subscription.charge
    assert charge is not None, "a charge is in progress"
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
            metadata=subscription.metadata or UNSET,
            line_items=(_line(invoice, plan),),
            subscription_id=subscription.subscription_id,
        ),
        customers_fiscal=CustomersFiscal.IF_THERE,
        customer=CustomerInput(id=str(subscription.customer_id)),
        payment=PaymentInput(
            type=MethodType.CARD,
            payment_id=charge.payment_id,
            saved_method_id=str(charge.payment_method_id),
            virtual_terminal=True,
        ),
    )


def _line(invoice: Invoice, plan: SubscriptionPlan | None) -> LineItem:
    return LineItem(
        description=invoice.plan_name,
        quantity=Decimal(1),
        unit_price=invoice.amount,
        tax_included=True,
        product_key=None if plan is None else plan.product_key,
        unit_key=None if plan is None else plan.unit_key,
        taxes=() if plan is None or plan.taxes is None else plan.taxes,
    )


async def _refund(ledger: Ledger, merchant_id: UUID, order_id: UUID, *, is_part: bool = False) -> None:
    """Refunds what an order of a charge holds, once. With `is_part`, only if that is a part of its amount, and no
    payment is under way: raises OrderChanged.
    """
    order = await load_charge_order(ledger, merchant_id, order_id)
    if order is None or order.refundable <= Decimal(0):
        return
    held = order.refundable

    def require(now: Order) -> None:
        if is_part and (now.refundable != held or now.amount_paid >= now.amount or _is_under_way(now)):
            raise OrderChanged

    actor = Actor(merchant_id=merchant_id, request_id="subscription")
    request = RefundInput(amount=held, reason="subscription", external_id=f"{order_id}:surplus")
    try:
        await refund_order(ledger, actor, str(order_id), request, require=require)
    except _PASSING:
        raise
    except Rejected as rejection:  # the money stays on the order, where the merchant sees it
        _log.error("surplus_not_refunded", code=rejection.code, order_id=str(order_id))
