"""Subscriptions on a real ledger: what is charged, when, and what a decline makes of it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec import Raw
from tests.subscriptions.shop import SAVED_DECLINED, SAVED_STOLEN, Shop

from ledger.backup.rebuild import rebuild
from ledger.domain.fiscal_data import FiscalData
from ledger.domain.orders.terms import Tax
from ledger.domain.plans.commands import PlanUpdate
from ledger.domain.plans.terms import Interval, OnRetriesExhausted
from ledger.domain.rejections import ChargeRefused, DuplicateExternalId, PaymentMethodInUse, SubscriptionCanceled
from ledger.domain.subscriptions.commands import Proration
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus
from ledger.journal.append import ClaimTaken, VersionConflict
from ledger.operations.context.inputs import CustomerFields, RefundInput
from ledger.operations.customers.change import change_customer
from ledger.operations.orders.refund import refund_order
from ledger.operations.payment_methods.change import delete_payment_method
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.operations.plans.change import change_plan
from ledger.operations.subscriptions.cancel import cancel_subscription, resume_subscription
from ledger.operations.subscriptions.change import change_subscription
from ledger.operations.subscriptions.requests import SubscriptionUpdate
from ledger.operations.subscriptions.retry import retry_charge
from projections.orders.head import render_head

pytestmark = pytest.mark.anyio

ACTIVE, PAST_DUE, UNPAID = SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE, SubscriptionStatus.UNPAID
CANCELED, TRIALING = SubscriptionStatus.CANCELED, SubscriptionStatus.TRIALING


async def test_every_missed_period_is_charged_once_and_in_order(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    assert made.status is ACTIVE
    await shop.move(timedelta(days=100))
    state = await shop.at(made.subscription_id)
    paid = [invoice for invoice in state.invoices if invoice.status is InvoiceStatus.PAID]
    assert state.status is ACTIVE
    assert paid == list(state.invoices)
    assert [invoice.period for invoice in paid] == [0, 1, 2, 3]
    assert [invoice.period_start for invoice in paid[1:]] == [invoice.period_end for invoice in paid[:-1]]
    orders = await shop.charges()
    assert [order.amount_paid for order in orders] == [Decimal(10_000)] * 4
    assert [order.terms.order_id for order in orders] == [invoice.payment_order_id for invoice in paid]


async def test_renewals_are_invoiced_to_a_customer_with_fiscal_data(shop: Shop) -> None:
    plan = await shop.plan()
    metadata = Raw(b'{"a":1}')
    made = await shop.subscribe(plan, metadata=metadata)
    fiscal = FiscalData(tax_id="URE180429TM6", legal_name="UNIVERSIDAD ROBOTICA ESPAÑOLA")
    await change_customer(shop.ledger, shop.actor, "ana", CustomerFields(fiscal=fiscal))
    taxes = (Tax(type="IVA", rate=Decimal("0.08"), factor="Tasa", withholding=False),)
    await change_plan(
        shop.ledger, shop.actor, str(plan.plan_id), PlanUpdate(product_key="50201706", unit_key="KGM", taxes=taxes)
    )
    await shop.move(timedelta(days=32))
    first, renewal = (order.terms for order in await shop.charges())
    assert (first.fiscal, renewal.fiscal) == (None, fiscal)
    assert first.subscription_id == renewal.subscription_id == made.subscription_id
    assert first.metadata == renewal.metadata == metadata
    (line,) = renewal.line_items
    assert (line.description, line.unit_price, line.taxes) == ("Basic", renewal.amount, taxes)
    assert (line.product_key, line.unit_key, line.tax_included) == ("50201706", "KGM", True)
    assert b'"subscriptionId":"%b"' % str(made.subscription_id).encode() in render_head((await shop.charges())[1])


async def test_a_first_charge_that_is_declined_leaves_no_subscription(shop: Shop) -> None:
    plan, key = await shop.plan(), IdempotencyKey("key", "print")
    for _ in range(2):
        with pytest.raises(ChargeRefused) as refused:
            await shop.subscribe(plan, SAVED_DECLINED, external_id="s1", key=key)
        assert refused.value.facts["declineCode"] == "GENERIC_DECLINE"
    assert len(await shop.charges()) == 1
    made = await shop.subscribe(plan, external_id="s1")
    assert (made.status, len(made.invoices)) == (ACTIVE, 1)
    with pytest.raises(DuplicateExternalId):
        await shop.subscribe(plan, external_id="s1")


async def test_the_same_request_under_its_key_is_answered_again(shop: Shop) -> None:
    plan, key = await shop.plan(), IdempotencyKey("key", "print")
    made = await shop.subscribe(plan, key=key)
    again = await shop.subscribe(plan, key=key)
    assert made == again
    assert len(await shop.charges()) == 1


async def test_a_trial_is_announced_and_then_charged(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=14))
    assert (made.status, made.invoices) == (TRIALING, ())
    await shop.move(timedelta(days=12))
    assert (await shop.at(made.subscription_id)).trial_end_announced
    assert await shop.charges() == []
    await shop.move(timedelta(days=3))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.current_period_start) == (ACTIVE, made.trial_end)
    assert len(await shop.charges()) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "at_the_end", "attempts", "ends"),
    [
        (SAVED_DECLINED, OnRetriesExhausted.UNPAID, 3, UNPAID),
        (SAVED_DECLINED, OnRetriesExhausted.CANCEL, 3, CANCELED),
        (SAVED_STOLEN, OnRetriesExhausted.UNPAID, 1, UNPAID),
        (SAVED_STOLEN, OnRetriesExhausted.CANCEL, 1, CANCELED),
    ],
)
async def test_a_soft_decline_is_retried_and_a_hard_one_is_not(
    shop: Shop, number: str, at_the_end: OnRetriesExhausted, attempts: int, ends: SubscriptionStatus
) -> None:
    plan = await shop.plan(trial_period_days=5, max_retries=2, retry_delay_hours=24, on_retries_exhausted=at_the_end)
    made = await shop.subscribe(plan, number)
    await shop.move(timedelta(days=5, hours=2))
    assert (await shop.at(made.subscription_id)).status is (PAST_DUE if attempts > 1 else ends)
    await shop.move(timedelta(days=3))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[0].attempt_count, len(await shop.charges())) == (ends, attempts, attempts)
    await shop.move(timedelta(days=61))
    state = await shop.at(made.subscription_id)
    assert (state.status, len(await shop.charges())) == (CANCELED, attempts)
    assert {invoice.status for invoice in state.invoices} == {InvoiceStatus.UNCOLLECTIBLE}


@pytest.mark.long
async def test_another_card_pays_what_an_unpaid_subscription_owes(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1, max_retries=0), SAVED_DECLINED)
    await shop.move(timedelta(days=40))
    state = await shop.at(made.subscription_id)
    assert (state.status, [invoice.status for invoice in state.invoices]) == (UNPAID, ["OPEN", "DRAFT"])
    with pytest.raises(ChargeRefused):
        await retry_charge(shop.ledger, shop.actor, str(made.subscription_id))
    update = SubscriptionUpdate(payment_method=str(await shop.card()))
    state = (await change_subscription(shop.ledger, shop.actor, str(made.subscription_id), update)).state
    assert (state.status, state.invoices[0].status) == (ACTIVE, InvoiceStatus.PAID)
    await shop.move(timedelta(seconds=1))
    state = await shop.at(made.subscription_id)
    assert [invoice.status for invoice in state.invoices] == ["PAID", "VOID", "PAID"], "a new period has begun"


async def test_missed_periods_are_charged_if_the_merchant_requests_all(shop: Shop) -> None:
    made = await shop.subscribe(
        await shop.plan(trial_period_days=1, max_retries=0, interval=Interval.WEEK), SAVED_STOLEN
    )
    await shop.move(timedelta(days=18))
    state = await shop.at(made.subscription_id)
    assert (state.status, [invoice.status for invoice in state.invoices]) == (UNPAID, ["OPEN", "DRAFT", "DRAFT"])
    update = SubscriptionUpdate(payment_method=str(await shop.card()))
    await change_subscription(shop.ledger, shop.actor, str(made.subscription_id), update)
    key = IdempotencyKey("key", "print")
    for _ in range(2):
        await retry_charge(shop.ledger, shop.actor, str(made.subscription_id), drafts=True, key=key)
    await shop.move(timedelta(seconds=1))
    state = await shop.at(made.subscription_id)
    assert [invoice.status for invoice in state.invoices] == ["PAID", "PAID", "VOID", "PAID"]
    assert len([order for order in await shop.charges() if order.net]) == 3


async def test_a_refund_of_a_period_is_shown_on_its_invoice(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    (order,) = await shop.charges()
    for n in range(2):
        request = RefundInput(amount=Decimal(3_000), reason="goodwill", external_id=f"refund-{n}")
        await refund_order(shop.ledger, shop.actor, str(order.terms.order_id), request)
    await shop.move(timedelta(seconds=1))
    state = await shop.at(made.subscription_id)
    assert (state.invoices[0].status, state.invoices[0].amount_refunded) == (InvoiceStatus.PAID, Decimal(6_000))


async def test_subscriptions_of_an_earlier_release_are_rendered_again(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    read = "select doc from subscription union all select doc from subscription_invoice order by 1"
    async with await psycopg.AsyncConnection.connect(shop.url, autocommit=True) as connection:
        documents = await (await connection.execute(read)).fetchall()
        await connection.execute("update subscription set doc = '{}'")
        await connection.execute("update subscription_invoice set doc = '{}'")
        assert (await rebuild(shop.url, shop.ledger.journal.reader)).differs
        assert await (await connection.execute(read)).fetchall() == documents
        assert not (await rebuild(shop.url, shop.ledger.journal.reader)).differs
    assert (await shop.at(made.subscription_id)).status is ACTIVE


async def test_lines_that_wait_at_the_end_of_a_subscription_are_charged_once(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    other = await shop.plan("Pro", amount=Decimal(30_000))
    await change_subscription(
        shop.ledger, shop.actor, str(made.subscription_id), SubscriptionUpdate(plan=str(other.plan_id))
    )
    await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id))
    await shop.move(timedelta(days=40))
    state = await shop.at(made.subscription_id)
    last = state.invoices[-1]
    assert (state.status, last.status, last.amount > Decimal(19_000)) == (CANCELED, InvoiceStatus.PAID, True)
    assert [order.net for order in await shop.charges()] == [Decimal(10_000), last.amount]


async def test_cancellation_at_the_period_end_can_be_taken_back(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    name = str(made.subscription_id)
    state = (await cancel_subscription(shop.ledger, shop.actor, name)).state
    assert (state.status, state.cancel_at_period_end) == (ACTIVE, True)
    state = (await resume_subscription(shop.ledger, shop.actor, name)).state
    assert not state.cancel_at_period_end
    await cancel_subscription(shop.ledger, shop.actor, name)
    await shop.move(timedelta(days=40))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.ended_at, len(state.invoices)) == (CANCELED, made.current_period_end, 1)
    with pytest.raises(SubscriptionCanceled):
        await cancel_subscription(shop.ledger, shop.actor, name, at_period_end=False)


@pytest.mark.long
async def test_a_plan_with_an_end_is_billed_so_often(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan(interval=Interval.WEEK, expiry_count=3))
    await shop.move(timedelta(days=60))
    state = await shop.at(made.subscription_id)
    assert (state.status, state.ended_at) == (CANCELED, state.invoices[-1].period_end)
    assert len(await shop.charges()) == 3


async def test_a_change_of_plan_is_invoiced_now(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    other = await shop.plan("Pro", amount=Decimal(30_000))
    half = made.current_period_start + (made.current_period_end - made.current_period_start) / 2
    await shop.move(half)
    update = SubscriptionUpdate(plan=str(other.plan_id), proration=Proration.INVOICE_NOW)
    state = (await change_subscription(shop.ledger, shop.actor, str(made.subscription_id), update)).state
    lines = [int(line.amount) for line in state.invoices[1].lines]
    assert -5_001 <= lines[0] <= -4_999
    assert 14_998 <= lines[1] <= 15_001
    assert (state.invoices[1].status, state.invoices[1].amount) == (InvoiceStatus.PAID, Decimal(sum(lines)))
    await shop.move(made.current_period_end)
    state = await shop.at(made.subscription_id)
    assert [int(invoice.amount) for invoice in state.invoices] == [10_000, sum(lines), 30_000]
    assert sum(order.amount_paid for order in await shop.charges()) == sum(i.amount for i in state.invoices)


async def test_a_card_in_use_is_deleted_by_force_only(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    card = made.payment_method_id
    with pytest.raises(PaymentMethodInUse):
        await delete_payment_method(shop.ledger, shop.actor, made.customer_id, card)
    await delete_payment_method(shop.ledger, shop.actor, made.customer_id, card, force=True)
    await shop.move(made.current_period_end)
    state = await shop.at(made.subscription_id)
    assert (state.status, len(await shop.charges())) == (PAST_DUE, 1)


@pytest.mark.parametrize(("force", "status"), [(False, InvoiceStatus.PAID), (True, InvoiceStatus.UNCOLLECTIBLE)])
async def test_a_card_is_in_use_until_the_last_invoice_has_been_charged(
    shop: Shop, force: bool, status: InvoiceStatus
) -> None:
    made = await shop.subscribe(await shop.plan())
    pro = await shop.plan("Pro", amount=Decimal(30_000))
    await change_subscription(
        shop.ledger, shop.actor, str(made.subscription_id), SubscriptionUpdate(plan=str(pro.plan_id))
    )
    ended = (await cancel_subscription(shop.ledger, shop.actor, str(made.subscription_id), at_period_end=False)).state
    assert (ended.status, ended.invoices[-1].status) == (CANCELED, InvoiceStatus.OPEN)
    delete = partial(delete_payment_method, shop.ledger, shop.actor, made.customer_id, made.payment_method_id)
    with pytest.raises(PaymentMethodInUse):
        await delete()
    if force:
        await delete(force=True)
    await shop.move(timedelta(minutes=1))
    assert (await shop.at(made.subscription_id)).invoices[-1].status is status
    if not force:
        await delete()


@pytest.mark.parametrize("number", ["4000000000000010"])
async def test_a_charge_that_is_approved_for_a_part_is_given_back(shop: Shop, number: str) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1), number)
    await shop.move(timedelta(days=1))
    state = await shop.at(made.subscription_id)
    (order,) = await shop.charges()
    assert (state.status, state.invoices[0].last_decline) == (PAST_DUE, "INSUFFICIENT_FUNDS")
    assert (order.net, order.amount_refunded) == (0, Decimal(5_000))


async def test_a_refused_subscription_is_requested_again_also_after_another_conflict(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conflict about another stream comes between: the external id is known to be taken all the same."""
    plan = await shop.plan()
    with pytest.raises(ChargeRefused):
        await shop.subscribe(plan, SAVED_DECLINED, external_id="s1")
    await shop.card()
    (refused,) = await shop.subscriptions()
    commit, met = shop.ledger.journal.commit, []

    async def disturbed(*arguments: Any, **named: Any) -> int:
        if len(met) == 1:
            met.append("another stream")
            raise VersionConflict(plan.plan_id)
        try:
            return await commit(*arguments, **named)
        except ClaimTaken:
            met.append("the external id")
            raise

    monkeypatch.setattr(shop.ledger.journal, "commit", disturbed)
    made = await shop.subscribe(plan, external_id="s1")
    assert (made.subscription_id, met) == (refused, ["the external id", "another stream"])
