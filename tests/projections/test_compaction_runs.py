"""The worker packs the lines of searches, continues after a fault, and stops when asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from tests.projections.shop import Shop

from ledger.background import periodic, worker
from ledger.postgres.faults import DatabaseUnavailable
from ledger.settings import read_settings

pytestmark = pytest.mark.anyio


async def test_the_worker_packs_the_lines_of_appends(shop: Shop, database_url: str, tmp_path: Path) -> None:
    for n in range(20):
        await shop.order(f"order-{n}")
    stop, ready = asyncio.Event(), asyncio.Event()
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    working = asyncio.create_task(worker.run(settings, ready.set, stop))
    await asyncio.wait_for(ready.wait(), 30)
    with psycopg.connect(database_url, autocommit=True) as connection:
        for _ in range(600):
            [blocks] = connection.execute("select count(*) from search_block where kind = 1").fetchall()
            if blocks == (1,):
                break
            await asyncio.sleep(0.1)
    assert blocks == (1,)
    stop.set()
    await asyncio.wait_for(working, 30)


async def test_a_failed_compaction_is_repeated_until_the_worker_stops() -> None:
    stop = asyncio.Event()
    tries = 0

    async def compact() -> int:
        nonlocal tries
        tries += 1
        if tries == 3:
            stop.set()
        if tries < 3:
            raise DatabaseUnavailable("away")
        return 0

    await asyncio.wait_for(periodic.run_periodically(compact, stop, pause_s=0.01), 30)
    assert tries == 3
