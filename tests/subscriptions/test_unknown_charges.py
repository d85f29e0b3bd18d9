"""Charges without an answer: the reaction brings the outcome, and a request meanwhile makes no second charge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.operations.conftest import SILENT, by_card
from tests.operations.test_action_recovery import recover, wrap
from tests.subscriptions.shop import APPROVED_FOR_HALF, SAVED_DECLINED, Shop

from ledger.background.reactions.subscription_timers import HANDLERS, ChargeUnderWay
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Declined
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import ChargeRefusedByRisk, RequestInProgress
from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import RunDue
from ledger.domain.subscriptions.decide.due_work import decide_due
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus
from ledger.operations.context.inputs import Actor, CancelInput, PaymentInput, RefundInput
from ledger.operations.erasure.erase_customer import delete_customer, erase_payer
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork, find_order
from ledger.operations.subscriptions import bill, charge
from ledger.operations.subscriptions.bill import bill_subscription, settle_order
from ledger.operations.subscriptions.cancel import cancel_subscription
from ledger.operations.subscriptions.charge import load_charge_order
from ledger.operations.subscriptions.commit import subscription_plan
from ledger.operations.subscriptions.retry import retry_charge
from ledger.processors.contract import ProcessorUnavailable

pytestmark = pytest.mark.anyio

ACTIVE, PAST_DUE, CANCELED = SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE, SubscriptionStatus.CANCELED
A_MOMENT = timedelta(seconds=1)
"""Long enough for reactions, and shorter than the time after which a worker looks at a charge without an outcome."""


async def silent_card(shop: Shop) -> UUID:
    """Returns the saved card to whose charges the processor does not answer."""
    shop.ledger.call_timeouts = replace(shop.ledger.call_timeouts, replay_wait_s=0.0)
    await shop.card(SILENT)
    await recover(shop.url, shop.ledger)
    order = await find_order(shop.ledger, shop.merchant_id, f"save-ana-{SILENT}")
    method_id = order.payments[0].started.method.method_id
    assert method_id is not None
    shop.cards["ana", SILENT] = method_id
    return method_id


@pytest.mark.long
async def test_the_outcome_of_a_charge_without_an_answer_comes_with_its_order(shop: Shop) -> None:
    await silent_card(shop)
    made = await shop.subscribe(await shop.plan(trial_period_days=1), SILENT)
    name = str(made.subscription_id)
    await shop.move_only(timedelta(days=1, seconds=1))
    state = await bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id)
    assert state is not None
    assert state.charge is not None
    with pytest.raises(RequestInProgress):
        await retry_charge(shop.ledger, shop.actor, name)
    await recover(shop.url, shop.ledger)
    assert (await shop.at(made.subscription_id)).charge is not None, "nothing has looked at the order yet"
    await shop.move(A_MOMENT)
    state = await shop.at(made.subscription_id)
    (order,) = await shop.charges()
    assert (state.status, state.charge, state.invoices[0].status) == (ACTIVE, None, InvoiceStatus.PAID)
    assert (state.invoices[0].payment_order_id, order.net) == (order.terms.order_id, state.invoices[0].amount)
    assert (await retry_charge(shop.ledger, shop.actor, name)).replayed


async def test_the_timer_of_a_charge_looks_again_until_the_charge_has_an_outcome(shop: Shop) -> None:
    await silent_card(shop)
    made = await shop.subscribe(await shop.plan(trial_period_days=1), SILENT)
    await shop.move_only(timedelta(days=1, seconds=1))
    await bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id)
    about = shop.merchant_id, made.subscription_id, made.subscription_id, datetime.now(UTC)
    with pytest.raises(ChargeUnderWay):  # no other timer is left
        await HANDLERS["subscription-charge"](shop.ledger, *about)
    await recover(shop.url, shop.ledger)
    await HANDLERS["subscription-charge"](shop.ledger, *about)
    state = await shop.at(made.subscription_id)
    assert (state.status, state.charge, state.invoices[0].status) == (ACTIVE, None, InvoiceStatus.PAID)


@pytest.mark.long
async def test_a_first_charge_without_an_answer_ends_in_a_subscription(shop: Shop) -> None:
    await silent_card(shop)
    plan, key = await shop.plan(), IdempotencyKey("key", "print")
    with pytest.raises(RequestInProgress):
        await shop.subscribe(plan, SILENT, external_id="s1", key=key)
    (subscription_id,) = await shop.subscriptions()
    assert (await shop.at(subscription_id)).status is None
    with pytest.raises(RequestInProgress):
        await shop.subscribe(plan, SILENT, external_id="s1", key=key)
    await recover(shop.url, shop.ledger)
    await shop.move(A_MOMENT)
    made = await shop.subscribe(plan, SILENT, external_id="s1", key=key)
    assert (made.subscription_id, made.status, len(await shop.charges())) == (subscription_id, ACTIVE, 1)


@pytest.mark.long
async def test_a_customer_who_is_erased_during_the_first_charge_keeps_no_subscription(shop: Shop) -> None:
    await silent_card(shop)
    with pytest.raises(RequestInProgress):
        await shop.subscribe(await shop.plan(), SILENT)
    (subscription_id,) = await shop.subscriptions()

    async def no_orders(*_: Any) -> list[UUID]:
        return []

    await delete_customer(shop.ledger, shop.actor, "ana", no_orders)
    assert (await shop.at(subscription_id)).charge is not None
    await recover(shop.url, shop.ledger)
    await shop.move(A_MOMENT)
    customer_id = (await shop.at(subscription_id)).customer_id
    await erase_payer(shop.ledger, shop.actor, customer_id, no_orders)  # as the worker does until it is finished
    state = await shop.at(subscription_id)
    (order,) = await shop.charges()
    assert (state.status, state.canceled_because, order.net) == (CANCELED, "CUSTOMER_ERASED", order.amount)
    assert [invoice.status for invoice in state.invoices] == [InvoiceStatus.PAID]
    await shop.move(timedelta(days=70))
    assert len(await shop.charges()) == 1


def unreachable(_: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def call(_: Any) -> Any:
        raise ProcessorUnavailable("no connection")

    return call


async def test_a_first_charge_that_was_not_sent_leaves_its_external_id_and_its_key_free(shop: Shop) -> None:
    plan, key = await shop.plan(), IdempotencyKey("key", "print")
    await shop.card()
    authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]
    wrap(shop.ledger, "authorize", unreachable)
    with pytest.raises(ProcessorUnavailable):
        await shop.subscribe(plan, external_id="s1", key=key)
    (refused,) = await shop.subscriptions()
    assert (await shop.at(refused)).refusal is not None
    shop.ledger.processors.sandbox.authorize = authorize  # type: ignore[union-attr,method-assign]
    made = await shop.subscribe(plan, external_id="s1", key=key)
    assert (made.subscription_id, made.status, made.external_id) == (refused, ACTIVE, "s1")
    paid = [order for order in await shop.charges() if order.net]
    assert [order.terms.order_id for order in paid] == [made.invoices[0].payment_order_id]


async def test_a_renewal_that_is_not_sent_costs_one_order_however_long_the_processor_is_down(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]
    wrap(shop.ledger, "authorize", unreachable)
    await shop.move(timedelta(days=1, hours=2))
    (order,) = await shop.charges()
    assert len(order.payments) == 5, "at once, and after 5, 15, 35 and 75 minutes"
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].attempt_count) == (SubscriptionStatus.TRIALING, 0)
    shop.ledger.processors.sandbox.authorize = authorize  # type: ignore[union-attr,method-assign]
    await shop.move(timedelta(hours=6))
    (order,) = await shop.charges()
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].status, order.net) == (ACTIVE, InvoiceStatus.PAID, order.amount)


async def test_a_charge_that_was_not_made_before_the_end_is_never_made(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    await shop.move_only(timedelta(days=31))
    uow = UnitOfWork(shop.ledger, Actor(merchant_id=shop.merchant_id, request_id="due"))
    state = await uow.load(SUBSCRIPTIONS, made.subscription_id)
    assert state is not None
    begun = await subscription_plan(uow, made.subscription_id, decide_due(state, RunDue(at=uow.now)))
    await uow.commit(begun, calls=0)  # the worker ends before it makes the order
    await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id), at_period_end=False)
    await shop.move(timedelta(minutes=2))
    state = await shop.at(made.subscription_id)
    assert (state.charge, [invoice.status for invoice in state.invoices]) == (None, ["PAID", "VOID"])
    assert len(await shop.charges()) == 1


@pytest.mark.parametrize("is_paid_again", [False, True])
async def test_a_worker_that_was_stopped_before_it_made_a_charge_does_not_make_it_once_it_counts_as_not_made(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_paid_again: bool
) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    if is_paid_again:
        authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]
        wrap(shop.ledger, "authorize", unreachable)
        await shop.move(timedelta(days=1, seconds=1))
        shop.ledger.processors.sandbox.authorize = authorize  # type: ignore[union-attr,method-assign]
    await shop.move_only(timedelta(days=1, seconds=1))
    is_stopped, goes_on = asyncio.Event(), asyncio.Event()

    async def stop_and_create(*about: Any, **options: Any) -> Any:
        is_stopped.set()
        await goes_on.wait()
        return await create_order(*about, **options)

    with monkeypatch.context() as stopped:
        stopped.setattr(charge, "create_order", stop_and_create)
        billing = asyncio.create_task(bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id))
        await is_stopped.wait()
    await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id), at_period_end=False)
    await shop.move(timedelta(minutes=2))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.charge, state.invoices[0].status) == (CANCELED, None, InvoiceStatus.VOID)
    goes_on.set()
    assert await billing == state == await shop.at(made.subscription_id)
    assert [len(order.payments) for order in await shop.charges()] == [1] * is_paid_again
    assert not any(order.amount_paid for order in await shop.charges())


async def test_a_charge_that_is_made_while_another_worker_finds_it_not_made_ends_with_its_own_outcome(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    await shop.move_only(timedelta(days=1, seconds=1))
    is_asked, is_answered, is_found, records = [asyncio.Event() for _ in range(4)]
    authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]

    async def create_late(*about: Any, **options: Any) -> Any:
        await is_found.wait()
        return await create_order(*about, **options)

    async def answer_late(request: Any) -> Any:
        is_asked.set()
        await is_answered.wait()
        return await authorize(request)

    async def record_late(*about: Any) -> None:
        is_found.set()
        await records.wait()
        await record_outcome(*about)

    wrap(shop.ledger, "authorize", lambda _: answer_late)
    with monkeypatch.context() as stopped:
        stopped.setattr(charge, "create_order", create_late)
        charging = asyncio.create_task(bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id))
        while (await shop.at(made.subscription_id)).charge is None:  # noqa: ASYNC110 - the log is looked at
            await asyncio.sleep(0.01)
        await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id), at_period_end=False)
        stopped.setattr(bill, "record_outcome", record_late)
        looking = asyncio.create_task(bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id))
        await is_asked.wait()
    records.set()
    await looking
    state = await shop.at(made.subscription_id)
    assert (state.charge is not None, state.invoices[0].status) == (True, InvoiceStatus.OPEN)
    is_answered.set()
    await charging
    state = await shop.at(made.subscription_id)
    assert (state.status, state.charge, state.invoices[0].status) == (CANCELED, None, InvoiceStatus.PAID)


@pytest.mark.parametrize("at", ["load_charge_order", "refund_order"])
async def test_a_part_that_was_approved_is_not_given_back_once_the_rest_was_paid_by_hand(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1), APPROVED_FOR_HALF)
    await shop.move_only(timedelta(days=1, seconds=1))
    is_stopped, goes_on = asyncio.Event(), asyncio.Event()
    step = {"load_charge_order": load_charge_order, "refund_order": refund_order}[at]

    async def stop_and_go_on(*about: Any, **options: Any) -> Any:
        if await shop.charges():
            is_stopped.set()
            await goes_on.wait()
        return await step(*about, **options)

    with monkeypatch.context() as stopped:
        stopped.setattr(charge, at, stop_and_go_on)
        billing = asyncio.create_task(bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id))
        await is_stopped.wait()
    (order,) = await shop.charges()
    assert (order.amount_paid, order.net) == (5_000, 5_000)
    await charge_order(shop.ledger, shop.actor, str(order.terms.order_id), by_card())
    await shop.move(timedelta(minutes=2))
    assert (await shop.at(made.subscription_id)).invoices[0].status is InvoiceStatus.PAID
    goes_on.set()
    await billing
    (order,) = await shop.charges()
    assert (order.amount_paid, order.net) == (10_000, 10_000)
    assert (await shop.at(made.subscription_id)).status is ACTIVE


@pytest.mark.parametrize("at", ["load_charge_order", "subscription_plan"])
async def test_a_worker_that_was_stopped_takes_back_no_refund_that_was_recorded_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    made = await shop.subscribe(await shop.plan())
    (order,) = await shop.charges()
    order_id = order.terms.order_id
    await refund_order(shop.ledger, shop.actor, str(order_id), RefundInput(amount=Decimal(3_000)))
    has_read, goes_on = asyncio.Event(), asyncio.Event()
    step = {"load_charge_order": load_charge_order, "subscription_plan": subscription_plan}[at]

    async def go_on_and_stop(*about: Any) -> Any:
        found = await step(*about)  # type: ignore[operator]
        has_read.set()
        await goes_on.wait()
        return found

    with monkeypatch.context() as stopped:
        stopped.setattr(bill, at, go_on_and_stop)
        settling = asyncio.create_task(settle_order(shop.ledger, shop.merchant_id, order_id))
        await has_read.wait()
    await refund_order(shop.ledger, shop.actor, str(order_id), RefundInput(amount=Decimal(4_000)))
    await shop.move(A_MOMENT)
    assert (await shop.at(made.subscription_id)).invoices[0].amount_refunded == 7_000
    goes_on.set()
    await settling
    assert (await shop.at(made.subscription_id)).invoices[0].amount_refunded == 7_000


@pytest.mark.parametrize("cancels", [False, True])
async def test_a_payment_by_hand_on_an_unsent_order_holds_up_no_charge(shop: Shop, cancels: bool) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]
    wrap(shop.ledger, "authorize", unreachable)
    await shop.move(timedelta(days=1, seconds=1))
    shop.ledger.processors.sandbox.authorize = authorize  # type: ignore[union-attr,method-assign]
    (order,) = await shop.charges()
    name = str(order.terms.order_id)
    await charge_order(shop.ledger, shop.actor, name, PaymentInput(type=MethodType.SPEI))
    if cancels:
        await cancel_order(shop.ledger, shop.actor, name, CancelInput())
    await shop.move(timedelta(hours=1))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].status, state.invoices[0].last_decline) == (ACTIVE, "PAID", None)
    assert len([order for order in await shop.charges() if order.net]) == 1


async def test_a_crash_before_an_unsent_charge_begins_again_does_not_repeat_its_old_outcome(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    authorize = shop.ledger.processors.sandbox.authorize  # type: ignore[union-attr]
    wrap(shop.ledger, "authorize", unreachable)
    await shop.move(timedelta(days=1, seconds=1))
    shop.ledger.processors.sandbox.authorize = authorize  # type: ignore[union-attr,method-assign]
    await shop.move_only(timedelta(minutes=6))
    uow = UnitOfWork(shop.ledger, Actor(merchant_id=shop.merchant_id, request_id="due"))
    state = await uow.load(SUBSCRIPTIONS, made.subscription_id)
    assert state is not None
    begun = await subscription_plan(uow, made.subscription_id, decide_due(state, RunDue(at=uow.now)))
    await uow.commit(begun, calls=0)
    (order,) = await shop.charges()
    assert len(order.payments) == 1, "the worker has ended before it paid the order again"
    await settle_order(shop.ledger, shop.merchant_id, order.terms.order_id)  # the reaction to the first payment is late
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].status) == (ACTIVE, InvoiceStatus.PAID)
    (order,) = await shop.charges()
    assert order.net == order.amount


@pytest.mark.long
async def test_an_order_that_the_merchant_pays_by_hand_pays_its_invoice(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1), SAVED_DECLINED)
    await shop.move(timedelta(days=1, seconds=1))
    (order,) = await shop.charges()
    assert (await shop.at(made.subscription_id)).status is PAST_DUE
    await charge_order(shop.ledger, shop.actor, str(order.terms.order_id), by_card())
    await shop.move(A_MOMENT)
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].status) == (ACTIVE, InvoiceStatus.PAID)
    await shop.move(timedelta(days=5))
    assert len(await shop.charges()) == 1, "the retry that was planned is not made"


@pytest.mark.long
async def test_a_subscription_that_is_cancelled_during_a_charge_stays_cancelled(shop: Shop) -> None:
    await silent_card(shop)
    made = await shop.subscribe(await shop.plan(trial_period_days=1), SILENT)
    await shop.move_only(timedelta(days=1, seconds=1))
    await bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id)
    await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id), at_period_end=False)
    await recover(shop.url, shop.ledger)
    await shop.move(A_MOMENT)
    state = await shop.at(made.subscription_id)
    (order,) = await shop.charges()
    assert (state.status, state.charge, state.invoices[0].status) == (CANCELED, None, InvoiceStatus.PAID)
    assert order.net == state.invoices[0].amount


async def test_a_first_charge_that_risk_rules_refuse_is_answered_as_such_again_and_again(shop: Shop) -> None:
    plan, key = await shop.plan(), IdempotencyKey("key", "print")
    await shop.card()

    def refused(_: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(_: Any) -> Any:
            return Declined(code="SUSPECTED_FRAUD", refused_by=RefusedBy.RISK)

        return call

    wrap(shop.ledger, "authorize", refused)
    for _ in range(2):
        with pytest.raises(ChargeRefusedByRisk) as answer:
            await shop.subscribe(plan, external_id="s1", key=key)
        assert (answer.value.code, answer.value.facts["declineCode"]) == ("RISK_REJECTED", "SUSPECTED_FRAUD")
    (refused_id,) = await shop.subscriptions()
    state = await shop.at(refused_id)
    assert (state.status, state.notices, len(await shop.charges())) == (None, (), 1)
