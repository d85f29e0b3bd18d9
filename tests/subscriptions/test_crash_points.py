"""Wherever a process ends during a charge, others end it once: one order, one capture, a legal subscription."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.operations.conftest import Open
from tests.operations.test_action_recovery import recover
from tests.sealing import MASTER_KEY
from tests.subscriptions.shop import Shop

from ledger.background.recovery import Windows
from ledger.domain.rejections import Rejected
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus
from ledger.operations.context.ledger import Ledger
from ledger.operations.subscriptions.bill import bill_subscription
from ledger.operations.subscriptions.cancel import cancel_subscription
from ledger.operations.subscriptions.retry import retry_charge
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = [pytest.mark.anyio, pytest.mark.long]

FIRST_CHARGE = [("before", 1), ("after", 1), ("after", 2), ("before", 4)]
RENEWAL = [("after", 1), ("after", 3)]
"""A charge has four commits: it begins, its order is announced, the order's outcome, the charge's outcome."""
AT_ONCE = Windows(margin_s=0.0, late_s=0.0)


class Crash(BaseException):
    """The end of a process: no handler of the product catches it."""


@pytest.fixture
async def dying(database_url: str) -> AsyncIterator[Ledger]:
    """A ledger whose calls are over after a second, so that the recovery need not wait."""
    settings = Settings(
        database_url=database_url, database_vault_url=database_url, master_key=MASTER_KEY, processor_timeout_s=1.0
    )
    async with open_ledger(settings) as ledger:
        yield ledger


def arm(ledger: Ledger, moment: str, at: int) -> None:
    """Makes every commit of a process fail from this one on."""
    commit, commits = ledger.journal.commit, 0

    async def deadly(*arguments: Any, **named: Any) -> int:
        nonlocal commits
        commits += 1
        if commits > at or (commits == at and moment == "before"):
            raise Crash
        position = await commit(*arguments, **named)
        if commits == at:
            raise Crash
        return position

    ledger.journal.commit = deadly  # type: ignore[method-assign]


async def finish(shop: Shop, other: Ledger) -> None:
    """Does what workers do after a crash, until nothing is left: recovery, reactions and timers."""
    for _ in range(3):
        await asyncio.sleep(0.1)
        await recover(shop.url, shop.ledger, other, windows=AT_ONCE)
        await shop.move(timedelta(minutes=2))


async def check(shop: Shop) -> None:
    """Checks that every paid invoice has its own order, and that orders have captured what invoices were paid."""
    captured = {order.terms.order_id: order for order in await shop.charges() if order.net}
    for subscription_id in await shop.subscriptions():
        state = await shop.at(subscription_id)
        assert state.charge is None
        for invoice in state.invoices:
            if invoice.status is InvoiceStatus.PAID:
                assert invoice.payment_order_id is not None
                order = captured.pop(invoice.payment_order_id)
                assert order.net == invoice.amount
    assert captured == {}, "money without an invoice"


@pytest.mark.parametrize(("moment", "at"), FIRST_CHARGE)
async def test_a_first_charge_ends_in_a_paid_subscription_or_in_none(
    shop: Shop, dying: Ledger, moment: str, at: int
) -> None:
    plan = await shop.plan()
    await shop.card()
    arm(dying, moment, at)
    with pytest.raises(Crash):
        await Shop(dying, shop.actor, shop.url, shop.cards).subscribe(plan)
    await asyncio.sleep(1.0)  # the deadline of the call
    await finish(shop, shop.ledger)
    await check(shop)
    made = [await shop.at(one) for one in await shop.subscriptions()]
    statuses = [state.status for state in made if state.status is not None]
    assert statuses == ([] if (moment, at) == ("before", 1) else [SubscriptionStatus.ACTIVE]) or (
        made[0].refusal is not None
    )


@pytest.mark.parametrize(("moment", "at"), RENEWAL)
async def test_a_renewal_is_charged_once(shop: Shop, dying: Ledger, moment: str, at: int) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    await shop.move_only(timedelta(days=1, seconds=1))
    arm(dying, moment, at)
    with pytest.raises(Crash):
        await bill_subscription(dying, shop.merchant_id, made.subscription_id)
    await asyncio.sleep(1.0)
    await finish(shop, shop.ledger)
    await check(shop)
    state = await shop.at(made.subscription_id)
    assert (state.periods_billed, len(state.invoices)) == (1, 1)
    assert state.status in (SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE)


async def test_two_workers_charge_a_period_once(shop: Shop, open_another: Open) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    await shop.move_only(timedelta(days=70))
    ledgers = [shop.ledger, await open_another()]
    await asyncio.gather(*[bill_subscription(one, shop.merchant_id, made.subscription_id) for one in ledgers * 2])
    await check(shop)
    state = await shop.at(made.subscription_id)
    assert [invoice.period for invoice in state.invoices] == [0, 1, 2]
    assert len(await shop.charges()) == 3


async def test_requests_during_a_renewal_end_legally_with_one_charge(shop: Shop, open_another: Open) -> None:
    made = await shop.subscribe(await shop.plan(trial_period_days=1))
    name = str(made.subscription_id)
    await shop.move_only(timedelta(days=1, seconds=1))
    other = await open_another()
    requests = [
        bill_subscription(shop.ledger, shop.merchant_id, made.subscription_id),
        retry_charge(other, shop.actor, name),
        retry_charge(shop.ledger, shop.actor, name),
        cancel_subscription(other, shop.actor, name, at_period_end=False),
        cancel_subscription(shop.ledger, shop.actor, name, at_period_end=False),
    ]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert all(not isinstance(answer, Exception) or isinstance(answer, Rejected) for answer in answers), answers
    await finish(shop, other)
    await check(shop)
    state = await shop.at(made.subscription_id)
    assert state.status is SubscriptionStatus.CANCELED
    assert len(await shop.charges()) <= 1
