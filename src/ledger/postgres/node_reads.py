"""Reads of one merchant each on the node of Citus that has it, as on an ordinary Postgres: Citus plans each statement
that passes the coordinator anew, which costs more than most reads.

Never read the tables of a shard before `HOLD` has run in the same transaction. Citus leaves the former copy of a shard
that has moved where it was for a while, and begins a further one while the shard moves back.

The coordinator answers what a node cannot be sure of: a shard that is on its way, or has gone elsewhere.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, Generic, Protocol, TypeVar

import psycopg
import structlog
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, QueryTimeout, connect, connect_unless_one_waits
from ledger.postgres.dataloader import BATCH_MAX, DataLoader, K, V
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Pipeline, Rows, Statement
from ledger.postgres.shards import HOLD_ALL, NOT_HELD, Shard, Shards, is_divided, read_shards

T = TypeVar("T")

_log = structlog.get_logger()

READ_SHARDS: Final = "select set_config('plan_cache_mode', 'force_generic_plan', false)"
"""The setting of a session that reads the tables of shards: these statements need no plan of Citus."""

LOCK_TIMEOUT: Final = "20ms"
"""How long a read waits for its shard. A move holds it for as long as commits wait, and the coordinator answers."""

_SUSPENDED_S: Final = 1.0
"""How long the coordinator answers the reads of a shard that was not found."""

_LOOK_AGAIN_S: Final = 0.2
"""The pause between two looks at where the shards are, while reads fail."""

_ELSEWHERE: Final = (
    *NOT_HELD,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.UndefinedTable,  # Citus has removed what was left here of a shard that has moved
)

_PARAMETER: Final = re.compile(r"%\((\w+)\)s|%%")


class Elsewhere(Exception):
    """The node is not sure to have the shard. Nothing was read."""


class NodeReader(Protocol):
    """What reads on a node."""

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""

    async def stop(self) -> None:
        """Disconnects."""


R = TypeVar("R", bound=NodeReader)


class NodeReads(Generic[R]):
    """The readers of a process on all nodes of the database whose coordinator is at `url`, made by `new` for the URL of
    a node. On an ordinary Postgres there is none.

    Where the shards are is read at the start, when one is not found, and while a node's server cannot be reached.
    """

    def __init__(self, url: str, name: str, new: Callable[[str], R]) -> None:
        self._url, self._name, self._new = url, name, new
        self._shards = Shards()
        self._readers: dict[str, R] = {}
        self._suspended: dict[int, float] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def are_any(self) -> bool:
        """Whether Citus divides the database."""
        return bool(self._shards.servers)

    async def start(self) -> None:
        """Connects to every node that has a shard; to one that cannot be reached, as soon as it can. Raises
        psycopg.OperationalError if the coordinator does not answer.
        """
        await self._look()

    async def stop(self) -> None:
        """Disconnects from every node."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        while self._readers:
            _, reader = self._readers.popitem()
            await reader.stop()

    async def read(
        self, merchant_id: bytes, read: Callable[[R, Shard], Awaitable[T]], otherwise: Callable[[], Awaitable[T]]
    ) -> T:
        """Returns what `read` finds on the merchant's node, or `otherwise` through the coordinator if the node is not
        sure to have the shard. Only for a database that Citus divides.

        Raises DatabaseUnavailable: the node's server cannot be reached, which the coordinator could not either.
        """
        shard = self._shards.of(merchant_id)
        if self._is_suspended(shard):
            return await otherwise()
        if (reader := self._readers.get(shard.url)) is None:
            self._look_later()
            raise DatabaseUnavailable(f"{self._name} has no connection to the merchant's node: try again later")
        try:
            return await read(reader, shard)
        except Elsewhere:
            self._suspended[shard.id] = time.monotonic() + _SUSPENDED_S
            self._look_later()
        except DatabaseUnavailable:
            if self._readers.get(shard.url) is reader:
                self._look_later()  # another server may be the node now, as after a promotion
                raise
        return await otherwise()

    def _is_suspended(self, shard: Shard) -> bool:
        until_s = self._suspended.get(shard.id, 0.0)
        if until_s and until_s <= time.monotonic():
            del self._suspended[shard.id]
        return shard.id in self._suspended

    def _look_later(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again(), name=self._name)

    async def _look_again(self) -> None:
        try:
            await self._look()
        except psycopg.Error as fault:
            _log.warning("shards_not_read", of=self._name, reason=type(fault).__name__)
        await asyncio.sleep(_LOOK_AGAIN_S)

    async def _look(self) -> None:
        """Asks the coordinator where the shards are, and keeps a reader on each server that has one. Raises
        psycopg.Error: what was read before stays.
        """
        async with await connect(self._url, self._name) as connection:
            with QueryTimeout(connection):
                shards = await read_shards(connection, self._url) if await is_divided(connection) else ()
        servers = {shard.url for shard in shards}
        for url in servers - self._readers.keys():
            await self._start(url)
        self._shards.replace(shards)
        for url in self._readers.keys() - servers:
            await self._readers.pop(url).stop()

    async def _start(self, url: str) -> None:
        """Starts a reader on a server, if it answers."""
        reader = self._new(url)
        try:
            await reader.start()
            self._readers[url] = reader
        except psycopg.Error as fault:
            _log.warning("node_unavailable", of=self._name, reason=type(fault).__name__)
        finally:
            if url not in self._readers:
                await reader.stop()


Reading = tuple[Sequence[tuple[Statement, Sequence[Buffer | None]]], Callable[[Sequence[Rows]], Mapping[K, V]]]
"""Statements with their parameters, and what returns the values of keys by the rows of each statement."""


class NodeLoader(DataLoader[tuple[Shard, K], V]):
    """A data loader on a node, each of whose keys has its shard beside it. `reading` returns what is sent for keys of
    one shard; `numbered` is of the present connection.

    Keys of several shards are read by one transaction. If the node is not sure to have all of these shards, those of
    each are read apart.
    """

    def __init__(
        self,
        url: str,
        name: str,
        reading: Callable[[NumberedStatements, Shard, Sequence[K]], Reading[K, V]],
        at_once: int = BATCH_MAX,
    ) -> None:
        super().__init__(url, name, self._fetch_on_shards, at_once)
        self._reading = reading
        self._pipeline: Pipeline | None = None

    async def stop(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
        await super().stop()

    async def read(self, shard: Shard, key: K) -> V | None:
        """Returns the value of a key, or None. Raises Elsewhere, and like `get`."""
        found = await self.get((shard, key))
        if found is _NOT_HERE:
            raise Elsewhere
        return found

    async def _open(self) -> Connection:
        connection = await connect_unless_one_waits(self._url, self.name, lock_timeout=LOCK_TIMEOUT)
        await connection.execute(READ_SHARDS)
        self._numbered = NumberedStatements(connection)
        self._pipeline = Pipeline(connection, _noticed_later)
        return connection

    async def _fetch_on_shards(self, _: Connection, keys: Sequence[tuple[Shard, K]]) -> Mapping[tuple[Shard, K], Any]:
        of_shard: dict[Shard, list[K]] = {}
        for shard, key in keys:
            of_shard.setdefault(shard, []).append(key)
        try:
            return await self._fetch_together(of_shard)
        except _ELSEWHERE:
            found: dict[tuple[Shard, K], Any] = {}
            for shard, some in of_shard.items():
                try:
                    found |= await self._fetch_together({shard: some})
                except _ELSEWHERE:
                    found |= {(shard, key): _NOT_HERE for key in some}
            return found

    async def _fetch_together(self, of_shard: Mapping[Shard, Sequence[K]]) -> dict[tuple[Shard, K], Any]:
        """Reads keys of shards that are all held by one transaction. Raises psycopg.Error."""
        assert self._pipeline is not None, "the connection is open"
        readings = [self._reading(self._numbered, shard, some) for shard, some in of_shard.items()]
        hold = HOLD_ALL, [ENCODE_ARRAY["int8"]([shard.id for shard in of_shard])]

        def found(results: Sequence[Rows]) -> dict[tuple[Shard, K], Any]:
            behind_hold = iter(results[1:])
            return {
                (shard, key): value
                for shard, (statements, values) in zip(of_shard, readings, strict=True)
                for key, value in values(list(islice(behind_hold, len(statements)))).items()
            }

        return await self._pipeline.send([hold, *chain.from_iterable(sent for sent, _ in readings)], found)


class NumberedStatements:
    """Prepares statements with named values, as psycopg takes them, for a pipeline on this connection."""

    def __init__(self, connection: Connection) -> None:
        self._transformer = Transformer(connection)
        self._prepared: dict[tuple[str, tuple[int, ...]], Statement] = {}

    def statement(self, text: str, values: Mapping[str, Any]) -> tuple[Statement, Sequence[Buffer | None]]:
        """Returns a statement with the parameters that it takes."""
        numbered, names = _numbered(text)
        parameters = self._transformer.dump_sequence([values[name] for name in names], [PyFormat.BINARY] * len(names))
        types = self._transformer.types or ()
        if (made := self._prepared.get((text, types))) is None:
            made = Statement(b"ledger_numbered_%d" % len(self._prepared), numbered.encode(), types)
            self._prepared[text, types] = made
        return made, parameters


_NOT_HERE: Final = object()


def _noticed_later() -> None:
    """Does nothing: the next fetch finds the connection closed."""


@lru_cache(maxsize=4096)
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${names.setdefault(name, len(names) + 1)}"

    return _PARAMETER.sub(number, text), tuple(names)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Raises Elsewhere if a statement behind `HOLD` shows that the node is not sure to have the shard."""
    try:
        yield
    except _ELSEWHERE as fault:
        raise Elsewhere from fault
