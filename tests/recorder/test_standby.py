"""An append that the standby may lack: it is not returned as appended, and no longer waits in vain."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from eventsourcing.persistence import InfrastructureFactory, OperationalError, StoredEvent
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import fetch, open_log
from tests.standbys import lose_standby, regain_standby, waiting_backends

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]


async def test_an_append_whose_wait_for_the_standby_was_cancelled_is_unknown(database_url: str) -> None:
    merchant, stream = open_log(database_url), uuid4()
    environment = {
        "PERSISTENCE_MODULE": "ledger.recorder",
        "LEDGER_DATABASE_URL": database_url,
        "LEDGER_MERCHANT_ID": str(merchant),
    }
    factory = InfrastructureFactory.construct(environment)
    recorder = factory.process_recorder()
    recorder.insert_events([StoredEvent(stream, 1, "something.v1", b"1")])
    try:
        await lose_standby(database_url)
        left = set(await waiting_backends(database_url))
        with ThreadPoolExecutor(1) as pool:
            appended = asyncio.wrap_future(
                pool.submit(recorder.insert_events, [StoredEvent(stream, 2, "something.v1", b"2")])
            )
            while not (waiting := set(await waiting_backends(database_url)) - left):
                assert not appended.done()
            fetch(database_url, "select pg_cancel_backend(%s)", *waiting)
            with pytest.raises(OperationalError, match="without the synchronous standby"):
                await asyncio.wait_for(appended, 20)
    finally:
        await regain_standby(database_url)
    recorder.insert_events([StoredEvent(stream, 3, "something.v1", b"3")])  # on a connection of its own
    factory.close()
