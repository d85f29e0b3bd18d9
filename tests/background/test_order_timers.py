"""A timer of an order runs when the merchant's clock reaches it, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from tests.background.conftest import Open, rows
from tests.operations.conftest import an_order, by_card
from tests.operations.test_action_recovery import recover
from tests.sealing import MASTER_KEY

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.jobs import Jobs
from ledger.background.worker import run
from ledger.domain.money import SCALE
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod
from ledger.domain.orders.timers import TimerKind, timers_of
from ledger.operations.context.inputs import Actor, DeviceDataInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.authenticate import submit_device_data
from ledger.operations.orders.create import create_order
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.connection import Connection
from ledger.processors.contract import ProcessorUnavailable
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

FRICTIONLESS = "4000000000003055"


async def authenticated(ledger: Ledger, merchant: Actor, name: str) -> UUID:
    """Returns an order whose payer was authenticated: its capture is due some seconds later."""
    receipt = await create_order(ledger, merchant, an_order(name, by_card(FRICTIONLESS)))
    await submit_device_data(ledger, merchant, name, DeviceDataInput())
    return receipt.order.terms.order_id


async def order_at(ledger: Ledger, merchant: Actor, order_id: UUID) -> Order:
    return await load_order(ledger, merchant.merchant_id, order_id)


def ahead(**by: int) -> Callable[[datetime], datetime]:
    return lambda now: now + timedelta(**by)


def moved(url: str, kind: str) -> list[int]:
    """Returns the amounts that the sandbox's rows record for calls of a kind."""
    query = "select moved from sandbox_call where kind = %s and accepted"
    return [amount // SCALE for (amount,) in rows(url, query, kind)]


async def test_money_is_captured_when_the_clock_is_moved_past_the_delay(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"capture_delay_seconds": 3600})
    order_id = await authenticated(ledger, merchant, "1")
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)
    order = await order_at(ledger, merchant, order_id)
    (due,) = timers_of(order)
    passed = await advancer.advance(merchant.merchant_id, "advanceTo", lambda _: due.at - timedelta(minutes=10))
    order = await order_at(ledger, merchant, order_id)
    assert (passed.jobs_run, order.status, moved(database_url, "CAPTURE")) == (0, OrderStatus.AUTHORIZED, [])
    passed = await advancer.advance(merchant.merchant_id, "advanceTo", lambda _: due.at)
    order = await order_at(ledger, merchant, order_id)
    assert (passed.jobs_run, order.status, moved(database_url, "CAPTURE")) == (1, OrderStatus.COMPLETED, [10_000])
    assert order.updated_at >= due.at


async def test_a_worker_captures_after_the_merchants_delay_in_real_time(
    ledger: Ledger, merchant: Actor, database_url: str, tmp_path: Path
) -> None:
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"capture_delay_seconds": 1})
    settings = Settings(database_url=database_url, master_key=MASTER_KEY, data_dir=tmp_path)
    stop, ready = asyncio.Event(), asyncio.Event()
    workers = [asyncio.create_task(run(settings, ready.set, stop)) for _ in range(2)]
    await ready.wait()
    made = [await authenticated(ledger, merchant, str(n)) for n in range(5)]
    async with asyncio.timeout(30):
        while any([(await order_at(ledger, merchant, one)).status is not OrderStatus.COMPLETED for one in made]):
            assert not any(worker.done() for worker in workers), workers
            await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(*workers)
    assert moved(database_url, "CAPTURE") == [10_000] * 5
    for one in made:
        order = await order_at(ledger, merchant, one)
        payment = order.payments[0]
        assert payment.lapses_at is not None
        assert order.updated_at - (payment.lapses_at - timedelta(days=7)) >= timedelta(seconds=1)


async def test_the_same_capture_in_two_workers_is_made_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    order_id = await authenticated(ledger, merchant, "1")
    (due,) = timers_of(await order_at(ledger, merchant, order_id))
    await ClockAdvancer(database_url, ledger, (), {}).advance(merchant.merchant_id, "advanceBy", ahead(minutes=1))
    ledgers = [ledger, await open_another(), await open_another()]
    args = (merchant.merchant_id, order_id, TimerKind.CAPTURE, due.payment_id, due.at)
    await asyncio.gather(*[run_timer(one, *args) for one in ledgers * 3])
    assert moved(database_url, "CAPTURE") == [10_000]
    assert (await order_at(ledger, merchant, order_id)).amount_paid == 10_000


async def test_an_automatic_capture_that_was_not_sent_is_sent_again_under_its_key(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await authenticated(ledger, merchant, "1")
    processor = ledger.processors.sandbox
    assert processor is not None
    capture, asked = processor.capture, 0

    async def away_twice(request):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        if asked <= 2:
            raise ProcessorUnavailable("away")
        return await capture(request)

    monkeypatch.setattr(processor, "capture", away_twice)
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)
    await advancer.advance(merchant.merchant_id, "advanceBy", ahead(seconds=50))
    assert (asked, (await order_at(ledger, merchant, order_id)).status) == (1, OrderStatus.AUTHORIZED)
    for _ in range(2):
        await recover(database_url, ledger)
    assert asked == 3
    assert (await order_at(ledger, merchant, order_id)).status is OrderStatus.COMPLETED
    assert moved(database_url, "CAPTURE") == [10_000]


async def test_an_authorisation_that_is_not_captured_expires_after_seven_days(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(), capture_method=CaptureMethod.MANUAL))
    order_id = receipt.order.terms.order_id
    assert receipt.order.payments[0].status is PaymentStatus.AUTHORIZED
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)
    moved = await advancer.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(days=6, hours=23))
    order = await load_order(ledger, merchant.merchant_id, order_id)
    assert (moved.jobs_run, order.payments[0].status) == (0, PaymentStatus.AUTHORIZED)
    moved = await advancer.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(hours=2))
    order = await load_order(ledger, merchant.merchant_id, order_id)
    assert (moved.jobs_run, order.payments[0].status) == (1, PaymentStatus.EXPIRED)
    again = await advancer.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(days=30))
    assert again.jobs_run == 0


@pytest.mark.parametrize(
    "number", ["4242424242424242", "4000000000000010", "4000000000003220", FRICTIONLESS, "4000000000007015"]
)
@pytest.mark.parametrize("capture_method", list(CaptureMethod))
async def test_the_stored_timers_are_those_of_the_order_however_it_was_paid(
    number: str,
    capture_method: CaptureMethod,
    ledger: Ledger,
    merchant: Actor,
    jobs: Jobs,
    connection: Connection,
    database_url: str,
) -> None:
    draft = an_order("1", by_card(number), capture_method=capture_method)
    receipt = await create_order(ledger, merchant, draft)
    if number == FRICTIONLESS:
        await submit_device_data(ledger, merchant, "1", DeviceDataInput())
    assert await Dispatcher(ledger.journal, jobs, REACTIONS).sweep(connection)
    order = await order_at(ledger, merchant, receipt.order.terms.order_id)
    kept = rows(
        database_url, "select kind, payment_id, due_at from due_time where stream_id = %s", order.terms.order_id
    )
    assert sorted(kept) == sorted((due.kind, due.payment_id, due.at) for due in timers_of(order))
