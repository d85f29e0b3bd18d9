"""Wherever a worker is killed around a capture that is due, two others make it once and leave nothing undone."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from campaigns.chaos import rules
from campaigns.chaos.evidence import gather
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running
from tests.background.test_order_timers import authenticated, moved
from tests.crash.due_points import DUE_POINTS
from tests.crash.scenario import exit_of
from tests.operations.conftest import register
from tests.sealing import MASTER_KEY

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.domain.orders.events import PaymentCaptured
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import ConcurrentUpdate
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are told of their parent's end by the kernel"),
]

_ORDERS_EACH = 3  # so that they become one job
_PATIENCE_S = 120
_LEFT = "select (select count(*) from due_time), (select count(*) from procrastinate_jobs)"


async def killed_at(point: str, ledger: Ledger, installation: Installation, log: Path) -> Actor:
    """Returns a merchant with captures that are due, after a worker was killed at this point of them."""
    merchant = await register(ledger)
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"capture_delay_seconds": 1})
    for n in range(_ORDERS_EACH):
        await authenticated(ledger, merchant, str(n))
    command = [*LEDGER[:2], "-m", "tests.crash.launcher", "worker", point]
    with Running(command, installation.environment, log) as launcher:
        launcher.wait_ready()
        assert await exit_of(launcher) == -9, point
    return merchant


async def done_by_others(ledger: Ledger, installation: Installation, merchants: list[UUID]) -> None:
    """Moves the clocks past second attempts until nothing is due and no job is left."""
    advancer = ClockAdvancer(installation.url, ledger, REACTIONS, HANDLERS)
    options = "-c search_path=public,public_jobs"
    async with (
        asyncio.timeout(_PATIENCE_S),
        await psycopg.AsyncConnection.connect(installation.url, autocommit=True, options=options) as connection,
    ):
        while True:
            for merchant_id in merchants:
                try:
                    await advancer.advance(merchant_id, "advanceBy", lambda now: now + timedelta(minutes=2))
                except ConcurrentUpdate:
                    continue
            open_calls = "select count(*) from payment_order where call_deadline_at is not null"
            calls = await (await connection.execute(open_calls)).fetchone()
            if calls == (0,) and await (await connection.execute(_LEFT)).fetchone() == (0, 0):
                return
            await asyncio.sleep(0.5)


async def test_a_capture_that_is_due_is_made_once_wherever_its_worker_was_killed(
    postgres_url: str, template_database: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with installed(postgres_url, template_database, {}) as installation:
        settings = Settings(database_url=installation.url, master_key=MASTER_KEY)
        async with open_ledger(settings) as ledger:
            merchants = [await killed_at(point, ledger, installation, log) for point in DUE_POINTS]
            worker = [*LEDGER, "worker"]
            with (
                Running(worker, installation.environment, log) as one,
                Running(worker, installation.environment, log) as two,
            ):
                one.wait_ready()
                two.wait_ready()
                await done_by_others(ledger, installation, [merchant.merchant_id for merchant in merchants])
        evidence = await gather(installation.url)
        captured = moved(installation.url, "CAPTURE")
    orders = [order for merchant in evidence for order in merchant.orders.values()]
    assert [order.status for order in orders] == [OrderStatus.COMPLETED] * _ORDERS_EACH * len(DUE_POINTS)
    assert captured == [10_000] * len(orders)
    facts = [recorded for merchant in evidence for recorded in merchant.log]
    assert sum(isinstance(recorded.event, PaymentCaptured) for recorded in facts) == len(orders)
    for merchant in evidence:
        assert not rules.everything(merchant)
