"""A notification names logs to read first; what was never notified is found nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.background.conftest import rows
from tests.operations.conftest import an_order, by_card

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.commit.notifier import CHANNEL
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio


async def test_a_rest_after_a_notification_does_not_delay_the_sweep_of_all_logs(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, jobs: Jobs, connection: Connection, database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("ledger.background.reactions.runner._REST_S", 3600.0)
    monkeypatch.setattr("ledger.background.reactions.runner._LOOK_EVERYWHERE_S", 0.1)
    stop, notified = asyncio.Event(), asyncio.Event()
    sweep = dispatcher.sweep

    async def seen(on: Connection, merchants: Sequence[UUID] | None = None) -> bool:
        if merchants is not None:
            notified.set()
        return await sweep(on, merchants)

    dispatcher.sweep = seen  # type: ignore[method-assign]
    watching = asyncio.create_task(ReactionRunner(database_url, dispatcher, jobs).run(stop))
    try:
        async with asyncio.timeout(30):
            while not notified.is_set():
                await connection.execute("select pg_notify(%s, %s)", (CHANNEL, merchant.merchant_id.hex))
                await asyncio.sleep(0.01)
            order = (await create_order(ledger, merchant, an_order("1", by_card()))).order
            while rows(database_url, "select stream_id from due_time") != [(order.terms.order_id,)]:
                assert not watching.done()
                await asyncio.sleep(0.01)
    finally:
        stop.set()
        await watching
