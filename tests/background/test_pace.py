"""Due renewals begin at a pace; other tasks do not wait for them, and a stop ends every wait."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.background.conftest import LOOK_AFTER, NO_PAYMENT, worker_connection
from uuid_utils.compat import uuid7

from ledger.background.effects import EnqueueJob
from ledger.background.pace import Pace
from ledger.background.scheduler.jobs import Jobs
from ledger.operations.context.ledger import Ledger

pytestmark = pytest.mark.anyio

ONE_A_MONTH = 1 / 2_600_000
PACED = "renewal"


async def test_the_first_begins_at_once_the_next_waits_and_another_kind_does_not() -> None:
    stop = asyncio.Event()
    pace = Pace([PACED], ONE_A_MONTH, stop)
    await pace.turn(PACED)
    waiting = asyncio.create_task(pace.turn(PACED))
    await pace.turn("capture")
    assert not waiting.done()
    stop.set()
    await asyncio.wait_for(waiting, 60)


async def test_a_stopped_worker_puts_back_what_waits_for_its_turn(
    database_url: str, ledger: Ledger, stack: AsyncExitStack
) -> None:
    stop, begun, merchant_id = asyncio.Event(), asyncio.Event(), uuid7()
    done: list[tuple[str, UUID]] = []

    def handler(kind: str) -> Any:
        async def handle(_: Ledger, __: UUID, stream_id: UUID, *___: Any) -> None:
            done.append((kind, stream_id))
            if {kind for kind, _ in done} == {PACED, LOOK_AFTER}:
                begun.set()

        return handle

    handlers = {kind: handler(kind) for kind in (PACED, LOOK_AFTER)}
    pace = Pace([PACED], ONE_A_MONTH, stop)
    jobs = await stack.enter_async_context(Jobs(database_url, ledger, handlers, pace=pace))
    connection = await worker_connection(database_url, stack)
    tasks = [EnqueueJob(kind, uuid7(), NO_PAYMENT, datetime.now(UTC)) for kind in (PACED, PACED, PACED, LOOK_AFTER)]
    await jobs.enqueue(connection, [(merchant_id, task) for task in tasks])
    running = asyncio.create_task(jobs.run(stop))
    await asyncio.wait_for(begun.wait(), 60)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert sorted(kind for kind, _ in done) == sorted([PACED, LOOK_AFTER])
    query = "select sum(jsonb_array_length(args->'things')) from procrastinate_jobs where status = 'todo'"
    assert await (await connection.execute(query)).fetchone() == (2,)
