"""Traces of the worker: a job that is due begins one, in the worker's own process."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from msgspec.structs import replace
from tests.api.bodies import paid_order
from tests.api.storefront import opened
from tests.tracing.receiver import PATIENCE_S, Receiver

from ledger.background import worker
from ledger.settings import Settings

# The end of the authorisation is a week away; the worker has written it down once it is here.
_DUE_NOW = "update due_time set due_at = now() - interval '1 minute' where kind = 'LAPSE' returning stream_id"


@pytest.mark.anyio
@pytest.mark.long
async def test_a_job_of_the_worker_begins_a_trace(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, database_app_url=database_url, master_key="11" * 32, access_log="off"
    )
    stop, ready = asyncio.Event(), asyncio.Event()
    with Receiver() as receiver:
        working = asyncio.create_task(worker.run(replace(settings, otlp_endpoint=receiver.url), ready.set, stop))
        async with opened(settings) as store, asyncio.timeout(PATIENCE_S):
            merchant = await store.register()
            created = await merchant.create(paid_order(captureMethod="MANUAL"))
            assert created.status_code == 201, created.text
            await ready.wait()
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
                while await (await connection.execute(_DUE_NOW)).fetchone() is None:  # noqa: ASYNC110 - as a client waits
                    await asyncio.sleep(0.05)
            while not receiver.named("job LAPSE"):  # noqa: ASYNC110 - it comes from a thread of the receiver
                await asyncio.sleep(0.05)
            stop.set()
            await working
    job = receiver.named("job LAPSE")[0]
    assert (job.parent, job.attributes["ledger.stream_id"]) == ("", created.json()["id"])
