"""A process that appends to another event store as fast as it can: what the journal is compared to.

Each append is one event of a new stream in a transaction of its own, of the bytes that the journal appends. Never make
a peer slower than its own clients do: each is called in one round trip if it allows that, with prepared statements.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from typing import Any, Final, Literal
from uuid import UUID, uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresAggregateRecorder, PostgresApplicationRecorder, PostgresDatastore
from msgspec import Struct
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool
from uuid_utils.compat import uuid7

from benchmarks.load import commits
from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample, sample
from ledger.journal.commit import append_statement
from ledger.postgres import arrays
from ledger.postgres.connection import apply_settings, connect_arguments, session_settings

Store = Literal["pool", "recorder", "aggregates", "message-db", "emmett"]
"""`pool`: the journal's own statement, once per command. `recorder` and `aggregates`: the library's application
recorder, and its aggregate recorder, which numbers no log. `message-db` and `emmett`: their SQL functions.
"""

MESSAGE_DB_PATH: Final = "message_store,public"
"""Where message-db's functions find each other."""
_OPEN_MAX_S: Final = 60.0


class PeerPlan(Struct, frozen=True, kw_only=True):
    """Appends of `event` to a store, `in_flight` at a time over so many connections, for `seconds` after `warm_up_s`.

    They go to the merchants in turn; a merchant is a category of message-db. The library's recorders block: they have a
    thread for each connection instead of `in_flight`.
    """

    url: str
    store: Store
    merchants: list[UUID]
    event: str
    connections: int
    in_flight: int
    seconds: float
    warm_up_s: float = 0.3


_Pool = AsyncConnectionPool[AsyncConnection[Any]]
_Append = Callable[[], Awaitable[None]]

_WRITE_MESSAGE: Final = "select write_message(%s::varchar, %s::varchar, 'lean-happened.v1', %s::jsonb, null, -1)"
_EMT_APPEND: Final = """
select success from emt_append_to_stream(array[%s]::text[], array[%s]::jsonb[], array['{}']::jsonb[], array['1'],
  array['lean-happened.v1'], array['E'], %s, 'order', 0, 'emt:default')
"""


@asynccontextmanager
async def _open(plan: PeerPlan) -> AsyncIterator[_Append]:
    """Yields what appends one event to the store of the plan, while its pool is open."""
    merchants = cycle(plan.merchants)
    if plan.store == "pool":
        lock = append_statement.LOCK_HEADS.encode()
        statement = append_statement.build_statement([commits.LEAN_TABLE]).encode()

        async def append(connection: AsyncConnection[Any]) -> None:
            command = [commits.lean_append(next(merchants))]
            async with connection.pipeline(), connection.transaction():
                cursor = AsyncRawCursor(connection)
                await cursor.execute(lock, append_statement.lock_parameters(command))
                await cursor.execute(statement, append_statement.append_parameters(command, [commits.LEAN_TABLE]))

        settings: Mapping[str, str] = session_settings()
    elif plan.store == "message-db":

        async def append(connection: AsyncConnection[Any]) -> None:
            stream = f"order{next(merchants).hex}-{uuid7()}"
            await connection.execute(_WRITE_MESSAGE, (str(uuid4()), stream, plan.event), prepare=True)

        settings = {"search_path": MESSAGE_DB_PATH}
    else:

        async def append(connection: AsyncConnection[Any]) -> None:
            stream = f"order-{next(merchants).hex}-{uuid7()}"
            await connection.execute(_EMT_APPEND, (str(uuid4()), plan.event, stream), prepare=True)

        settings = {"timezone": "UTC"}

    async with _Pool(
        plan.url,
        min_size=plan.connections,
        max_size=plan.connections,
        kwargs=connect_arguments("ledger-bench"),
        configure=partial(_configure, settings),
        open=False,
        timeout=_OPEN_MAX_S,
    ) as pool:
        await pool.wait()

        async def one() -> None:
            async with pool.connection() as connection:
                await append(connection)

        yield one


async def _configure(settings: Mapping[str, str], connection: AsyncConnection[Any]) -> None:
    connection.prepare_threshold = 0
    arrays.register(connection)
    await apply_settings(connection, settings)


class _Latencies:
    """The appends of a run that began and ended within its time, and what failed."""

    def __init__(self, plan: PeerPlan) -> None:
        self.begins_at = time.perf_counter() + plan.warm_up_s
        self.ends_at = self.begins_at + plan.seconds
        self.seen: list[float] = []
        self.others: dict[str, int] = {}

    def add(self, began: float, fault: Exception | None = None) -> bool:
        """Counts an append, and returns whether another begins."""
        now = time.perf_counter()
        if fault is not None:
            self.others[type(fault).__name__] = self.others.get(type(fault).__name__, 0) + 1
        elif began >= self.begins_at and now <= self.ends_at:
            self.seen.append(now - began)
        return now < self.ends_at


async def run(plan: PeerPlan, go: Go) -> Sample:
    """Appends what the plan describes. Raises psycopg.OperationalError if the database does not answer."""
    if plan.store in ("recorder", "aggregates"):
        return await asyncio.to_thread(_in_threads, plan, go)
    async with _open(plan) as append:
        go()
        latencies = _Latencies(plan)

        async def write() -> None:
            fault: Exception | None = None
            continues = True
            while continues:
                began, fault = time.perf_counter(), None
                try:
                    await append()
                except Exception as failed:  # noqa: BLE001 - a sample counts what went wrong instead of ending
                    fault = failed
                continues = latencies.add(began, fault)

        used = time.process_time()
        await asyncio.gather(*[write() for _ in range(plan.in_flight)])
        used = time.process_time() - used
    return sample(latencies.seen, plan.seconds, cpu_s=used, others=latencies.others)


def _in_threads(plan: PeerPlan, go: Go) -> Sample:
    """Does the same with the library's recorder, which blocks, in a thread for each connection."""
    datastore = PostgresDatastore(**_datastore(plan.url), pool_size=plan.connections)
    with datastore:
        datastore.pool.open(wait=True, timeout=_OPEN_MAX_S)
        recorder = _recorder(plan.store, datastore)
        recorder.create_table()
        new_event = partial(StoredEvent, originator_version=1, topic="lean-happened.v1", state=plan.event.encode())
        go()
        latencies = _Latencies(plan)

        def write() -> None:
            fault: Exception | None = None
            continues = True
            while continues:
                began, fault = time.perf_counter(), None
                try:
                    recorder.insert_events([new_event(originator_id=uuid7())])
                except Exception as failed:  # noqa: BLE001 - a sample counts what went wrong instead of ending
                    fault = failed
                continues = latencies.add(began, fault)

        threads = [threading.Thread(target=write) for _ in range(plan.connections)]
        used = time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used = time.process_time() - used
    return sample(latencies.seen, plan.seconds, cpu_s=used, others=latencies.others)


def _recorder(store: Store, datastore: PostgresDatastore) -> PostgresAggregateRecorder:
    if store == "recorder":
        return PostgresApplicationRecorder(datastore, events_table_name="peer_events")
    return PostgresAggregateRecorder(datastore, events_table_name="peer_aggregates")


def _datastore(url: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    return {name: given.get(name, "") for name in ("dbname", "host", "port", "user", "password")}


if __name__ == "__main__":
    work(PeerPlan, run)
