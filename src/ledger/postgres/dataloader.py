"""Reads that wait together are answered by one query.

The rule a stranger would break: no pool checkout per read. Taking a connection from a pool, running one query and giving
it back costs three times what the query does; sixty-four readers that share one round trip cost a third.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import psycopg

from ledger.postgres.connection import Connection, QueryTimeout, connect, reconnect
from ledger.postgres.faults import DatabaseUnavailable, QueueFull
from ledger.telemetry.metrics import READER_BATCH_KEYS, RECONNECTS

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Fetch = Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V]]]
"""One query for many keys; keys without an answer are left out."""

_BATCH_MAX = 256
_WAITING_MAX = 20_000
_RECONNECT_S = 1.0  # a backend that was ended is replaced in milliseconds; a server that is gone is not waited for
_LOCK_TIMEOUT = "500ms"  # a read waits for nobody but a migration, and one behind another would wait for both


class DataLoader(Generic[K, V]):
    """Answers `get(key)` for any number of waiting callers with one `fetch` at a time, on a connection of its own.

    A fetch whose connection breaks is made again, once, where the next connection is there at once: reads change nothing.
    Otherwise whoever waits is told that the database is away, and connecting goes on.
    """

    def __init__(self, url: str, name: str, fetch: Fetch[K, V]) -> None:
        self._url, self.name, self._fetch = url, name, fetch
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._batch_keys = READER_BATCH_KEYS.labels(name)
        self._reconnects = RECONNECTS.labels(name)

    @property
    def alive(self) -> bool:
        """Whether reads are being answered."""
        return self._connection is not None and self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Connect and begin to answer. Raises psycopg.OperationalError."""
        self._connection = await connect(self._url, self.name, lock_timeout=_LOCK_TIMEOUT)
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Stop answering; whoever still waits is told that the database is away."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail_all()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def get(self, key: K) -> V | None:
        """The value of a key, or None. Raises DatabaseUnavailable while the database is away."""
        if self._connection is None:
            raise DatabaseUnavailable("the database is away")
        if len(self._waiting) >= _WAITING_MAX:
            raise QueueFull("too many reads wait")
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        self._wake.set()
        return await future

    async def _run(self) -> None:
        while True:
            if self._connection is None:
                self._connection = await reconnect(self._url, self.name, lock_timeout=_LOCK_TIMEOUT)
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            keys = list(self._waiting)[:_BATCH_MAX]
            callers = {key: self._waiting.pop(key) for key in keys}
            try:
                found = await self._fetch_again_once(keys)
            except Exception as fault:  # noqa: BLE001 - told to whoever waits for these keys; the next ones may fare better
                _fail(callers, type(fault).__name__)
                continue
            for key, futures in callers.items():
                for future in futures:
                    if not future.done():
                        future.set_result(found.get(key))

    async def _fetch_again_once(self, keys: Sequence[K]) -> Mapping[K, V]:
        assert self._connection is not None
        self._batch_keys.observe(len(keys))
        try:
            with QueryTimeout(self._connection):
                return await self._fetch(self._connection, keys)
        except psycopg.OperationalError:
            if not (self._connection.broken or self._connection.closed):
                raise
        self._connection = None
        self._fail_all()
        self._reconnects.inc()
        async with asyncio.timeout(_RECONNECT_S):
            self._connection = await connect(self._url, self.name, lock_timeout=_LOCK_TIMEOUT)
        with QueryTimeout(self._connection):
            return await self._fetch(self._connection, keys)

    def _fail_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        _fail(waiting, "the database is away")


def _fail(callers: Mapping[K, list[asyncio.Future[V | None]]], reason: str) -> None:
    for futures in callers.values():
        for future in futures:
            if not future.done():
                future.set_exception(DatabaseUnavailable(reason))
