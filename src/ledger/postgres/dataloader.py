"""A data loader: all reads that wait at the same time become one query.

Never take a pool's connection for each read. Taking it, running one query and returning it costs three times as much as
the query; if sixty-four readers share a round trip, each read costs a third of a query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import psycopg

from ledger.postgres.connection import ANSWER_MAX_S, Connection, QueryTimeout, connect_unless_one_waits, reconnect
from ledger.postgres.faults import DatabaseUnavailable, QueueFull
from ledger.telemetry.metrics import READER_BATCH_KEYS, RECONNECTS

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Fetch = Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V | DatabaseUnavailable]]]
"""Runs one query for many keys. The result lacks the keys without a value. A fault in the place of a value is that of
the callers of this key alone.
"""

BATCH_MAX = 256
_PENDING_MAX = 20_000
_RECONNECT_S = 1.0  # enough to replace a backend that was ended; a server that is down is not waited for
_LOCK_TIMEOUT = "500ms"  # a read waits only for a migration's locks, and a read behind another would wait for both


class DataLoader(Generic[K, V]):
    """One `fetch` at a time for the `get(key)` of all waiting callers, on a connection of its own. A fetch is for at
    most `at_once` keys; callers of the same key share its value.

    If the connection breaks, the fetch is repeated once on a new connection that opens within a second: reads change
    nothing. Else all callers get DatabaseUnavailable, those that wait for the next fetch too, and the loader goes on
    connecting. Callers wait for a later connection only while the database is known to be there, because another
    connection of the process has just opened, and at most until that try has failed.
    """

    _answer_max_s = ANSWER_MAX_S

    def __init__(self, url: str, name: str, fetch: Fetch[K, V], at_once: int = BATCH_MAX) -> None:
        self._url, self.name, self._fetch, self._at_once = url, name, fetch, at_once
        self._pending: dict[K, list[asyncio.Future[V | None]]] = {}
        self._wake = asyncio.Event()
        self._is_there = asyncio.Event()  # whether callers wait for the connection that is being opened
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._batch_keys = READER_BATCH_KEYS.labels(name)
        self._reconnects = RECONNECTS.labels(name)

    @property
    def alive(self) -> bool:
        """Whether reads are answered."""
        return self._connection is not None and self._task is not None and not self._task.done()

    @property
    def has_citus(self) -> bool:
        """Whether the database has Citus; False without a connection."""
        return self._connection is not None and self._connection.has_citus

    async def start(self) -> None:
        """Connects and begins to answer. Raises psycopg.OperationalError."""
        self._connection = await self._open()
        self.begin()

    def begin(self) -> None:
        """Begins to answer, as soon as the server does."""
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Stops answering. Callers that still wait get DatabaseUnavailable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._is_there.clear()
        self._fail_all()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def get(self, key: K) -> V | None:
        """Returns the value of a key, or None. Raises DatabaseUnavailable while the database is away, and QueueFull."""
        if self._connection is None and not self._is_there.is_set():
            raise DatabaseUnavailable("the database is away")
        if len(self._pending) >= _PENDING_MAX:
            raise QueueFull("too many reads wait")
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._pending.setdefault(key, []).append(future)
        self._wake.set()
        return await future

    def read_ahead(self, key: K) -> None:
        """Has a key read that no caller waits for, if there is a connection: `fetch` keeps what it finds."""
        if self._connection is not None and len(self._pending) < _PENDING_MAX:
            self._pending.setdefault(key, [])
            self._wake.set()

    async def _run(self) -> None:
        while True:
            if self._connection is None:
                self._connection = await reconnect(self.name, self._open_for_callers, self._is_there)
            if not self._pending:
                self._wake.clear()
                await self._wake.wait()
            keys = list(self._pending)[: self._at_once]
            callers = {key: self._pending.pop(key) for key in keys}
            try:
                found = await self._fetch_again_once(keys)
            except Exception as fault:  # noqa: BLE001 - the callers of these keys get it; the next keys may succeed
                _fail(callers, type(fault).__name__)
                continue
            except asyncio.CancelledError:  # by `stop`
                _fail(callers, "the service ends")
                raise
            for key, futures in callers.items():
                value = found.get(key)
                if isinstance(value, DatabaseUnavailable):
                    _fail({key: futures}, str(value))
                    continue
                for future in futures:
                    if not future.done():
                        future.set_result(value)

    async def _fetch_again_once(self, keys: Sequence[K]) -> Mapping[K, V | DatabaseUnavailable]:
        assert self._connection is not None
        self._batch_keys.observe(len(keys))
        try:
            with QueryTimeout(self._connection, self._answer_max_s):
                return await self._fetch(self._connection, keys)
        except psycopg.OperationalError:
            if not (self._connection.broken or self._connection.closed):
                raise
        self._connection = None
        self._reconnects.inc()
        self._is_there.set()
        async with asyncio.timeout(_RECONNECT_S):
            self._connection = await self._open_for_callers()
        with QueryTimeout(self._connection, self._answer_max_s):
            return await self._fetch(self._connection, keys)

    async def _open_for_callers(self) -> Connection:
        """Opens a connection. Raises psycopg.OperationalError, and answers the callers that wait for it."""
        try:
            return await self._open()
        except BaseException:
            self._fail_all()
            raise

    async def _open(self) -> Connection:
        return await connect_unless_one_waits(self._url, self.name, lock_timeout=_LOCK_TIMEOUT)

    def _fail_all(self) -> None:
        callers, self._pending = self._pending, {}
        _fail(callers, "the database is away")


def _fail(callers: Mapping[K, list[asyncio.Future[V | None]]], reason: str) -> None:
    for futures in callers.values():
        for future in futures:
            if not future.done():
                future.set_exception(DatabaseUnavailable(reason))
