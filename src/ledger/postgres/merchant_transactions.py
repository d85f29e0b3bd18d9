"""Transactions of one merchant each, on the server that has the merchant; and those of all merchants, group by group.

On an ordinary Postgres they are those of the caller's connection. On Citus they are those of the node that has the
merchant, on the tables of its shard, so that no commit has two phases and every statement of PostgreSQL is allowed:
Citus refuses some of those that change rows, and plans others anew for each call. A statement that Citus has all nodes
answer fails if one of them is down. A read of each shard apart leaves the merchants of the others their rows.

In a block, name the tables of `distribution.DISTRIBUTED` alone, as in any other statement: their names become those of
the shard. A column that is named with its table has the table's alias.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from itertools import chain
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import psycopg
import structlog
from msgspec import Struct
from psycopg import IsolationLevel
from psycopg.abc import Params, PQGen, Query
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, tuple_row
from psycopg.sql import Composable

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import ANSWER_MAX_S, Connection, QueryTimeout, connect_as, require_none_waits
from ledger.postgres.faults import UNAVAILABLE
from ledger.postgres.node_reads import LOCK_TIMEOUT
from ledger.postgres.shards import (
    HOLD,
    HOLD_SOME,
    NOT_HELD,
    WRITE_TO_SHARDS,
    Shard,
    Shards,
    is_divided,
    read_shards,
)
from ledger.postgres.silent_servers import WAIT_INTERVAL_S, has_ended

T = TypeVar("T")

_log = structlog.get_logger()

# Whether the coordinator knows a shard on a node.
_IS_ON_NODE: Final = "select from pg_dist_placement where shardid = %s and groupid = %s"

# What the views of this schema select.
_VIEWS: Final = """
select relname, rtrim(pg_get_viewdef(oid), ';') from pg_class
 where relkind = 'v' and relnamespace = current_schema()::regnamespace
"""

# Changes the settings of a session.
_SET: Final = "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) as s(name, value)"

_USUAL: Final[Mapping[str, str]] = {}

# A shard on its way to another node keeps a read of all merchants waiting no longer, in its transaction.
_WAIT_BRIEFLY: Final = f"select set_config('lock_timeout', '{LOCK_TIMEOUT}', true)"

_ON_THEIR_WAY: Final = (*NOT_HELD, psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable)
"""What a read of shards raises if the node is not sure to have one of them: its tables may be gone already."""

_REST_OF_FAILURE: Final = 4
_REST_MAX_S: Final = 15.0
"""A server is left alone by reads of all merchants for so many times as long as it took to fail, and at most so long: a
refused connection costs nothing, and a silent server seconds, in which the merchants of the others wait too.
"""

Values = Sequence[Any] | Mapping[str, Any]
Rows = Sequence[tuple[Any, ...]]


class RowsOfAll(Struct, frozen=True):
    """The rows of a statement over all merchants: those of each group of merchants that one server answers for at once.

    Those of the merchants for whom `is_away` returns True are missing: their server could not be asked, and nothing is
    known of them. `is_whole`: there is no such server.
    """

    groups: Sequence[Rows]
    is_away: Callable[[UUID], bool]
    is_whole: bool

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """All rows."""
        return chain.from_iterable(self.groups)


class Group(Struct, frozen=True, eq=False):
    """Merchants whose rows one transaction on one connection reads and writes: all merchants, or on Citus those of a
    shard, on a connection to its node. `coordinator` is the one that the groups were asked for with.
    """

    connection: Connection
    coordinator: Connection
    shards: Shards | None = None
    shard: Shard | None = None

    @property
    def key(self) -> tuple[Connection, int | None]:
        """The same for the same merchants on the same connection: not for another server, nor on another node."""
        return self.connection, None if self.shard is None else self.shard.id

    def has(self, merchant_id: UUID) -> bool:
        """Returns whether a merchant is one of these."""
        return self.shards is None or self.shards.of(merchant_id.bytes) is self.shard


class ShardConnection(Connection):
    """A connection to a node. Its statements are for the tables of `shard`. `url` names its server.

    Views are of tables of all nodes: in the place of each one is what it selects, which `views` has by their names.

    A server that leaves a statement unanswered for `waits_max_s` seconds has the connection cut: it may be stopped, and
    another one may be the node by now. None waits without end.
    """

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.shard: Shard | None = None
        self.url = ""
        self.views: Mapping[str, str] = {}
        self.waits_max_s: float | None = None
        self.cursor_factory = _ShardCursor
        self.server_cursor_factory = _ShardServerCursor

    async def wait(self, gen: PQGen[T], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> T:  # noqa: ASYNC109 - psycopg's signature
        with nullcontext() if self.waits_max_s is None else QueryTimeout(self, self.waits_max_s):
            return await super().wait(gen, interval, timeout)

    def on_shard(self, query: Query) -> bytes:
        """Returns a statement for the tables of the shard."""
        text = query.as_string(self) if isinstance(query, Composable) else query
        assert isinstance(text, str), "the statements of the program are texts"
        if self.shard is None:
            return text.encode()
        for view, selected in self.views.items():
            text = text.replace(f" from {view} ", f" from ({selected}) as {view} ")
        return self.shard.statement(text).encode()


class _ShardCursor(psycopg.AsyncCursor[Any]):
    async def execute(
        self, query: Query, params: Params | None = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        return await super().execute(_on_shard(self.connection, query), params, prepare=prepare, binary=binary)

    async def executemany(self, query: Query, params_seq: Any, *, returning: bool = False) -> None:
        await super().executemany(_on_shard(self.connection, query), params_seq, returning=returning)


class _ShardServerCursor(psycopg.AsyncServerCursor[Any]):
    async def execute(
        self, query: Query, params: Params | None = None, *, binary: bool | None = None, **kwargs: Any
    ) -> Self:
        return await super().execute(_on_shard(self.connection, query), params, binary=binary, **kwargs)


def _on_shard(connection: psycopg.AsyncConnection[Any], query: Query) -> bytes:
    assert isinstance(connection, ShardConnection), "no other connection has these cursors"
    return connection.on_shard(query)


class MerchantTransactions:
    """One task's connections for transactions of one merchant each.

    `url` names the database; on Citus, its coordinator. A connection to a node is opened when it is first needed, with
    these `settings` of the session beside the usual ones. Use it in an `async with` block, or call `stop` at the end.
    """

    def __init__(self, url: str, name: str, settings: Mapping[str, str] = _USUAL) -> None:
        self._url, self._name, self._settings = url, name, settings
        self._waits_max_s = None if "statement_timeout" in settings else ANSWER_MAX_S
        self._shards: Shards | None = None
        self._is_read = False
        self._nodes: dict[int, ShardConnection] = {}
        self._left_alone: dict[str, float] = {}  # until which monotonic time, by the URLs of servers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Disconnects from the nodes."""
        while self._nodes:
            _, node = self._nodes.popitem()
            await node.close()

    async def groups(self, connection: Connection) -> tuple[Sequence[Group], bool]:
        """Returns all groups of merchants, each with a connection to the server that the node is now, and whether that
        is all of them. On Citus it connects to each node that has a shard, where that is not done; those of a node that
        does not answer are left out, which is logged. Raises psycopg.Error.

        `connection` is one to the database of `url`, outside a transaction.
        """
        self._is_read = False
        shards = await self._read(connection)
        if shards is None:
            return [Group(connection, connection)], True
        of_nodes, found = shards.of_each_node(), list[Group]()
        for of_node in of_nodes:
            async with self._asked(of_node[0].url) as may_ask:
                if may_ask:
                    node = await self._node(of_node[0], connection)
                    found += [Group(node, connection, shards, shard) for shard in of_node]
        return found, len(found) == sum(map(len, of_nodes))

    @asynccontextmanager
    async def begin_group(self, group: Group) -> AsyncIterator[Connection]:
        """Yields the connection of a group for a transaction, which ends with the block: that very connection, and no
        other one if it was lost. Raises psycopg.Error; CannotConnectNow if the shard is on another node now.
        """
        if group.shard is None:
            async with group.connection.transaction():
                yield group.connection
            return
        node = group.connection
        assert isinstance(node, ShardConnection), "shards are on nodes"
        node.shard = group.shard
        try:
            async with node.transaction():
                await self._hold(group.shard, node, group.coordinator)
                yield node
        except psycopg.OperationalError:
            self._is_read = False  # it may have moved, or another server may be the node now
            raise

    @asynccontextmanager
    async def begin(self, connection: Connection, merchant_id: UUID) -> AsyncIterator[Connection]:
        """Yields the connection for a transaction, which ends with the block. It has the isolation of `connection`, and
        writes nothing if that is to write nothing.

        `connection` is one to the database of `url`, outside a transaction. Raises psycopg.Error; CannotConnectNow if
        the merchant's shard moves again and again: nothing is written then.
        """
        begun = False
        for is_last in (False, True):
            try:
                async with self._begun(connection, merchant_id) as node:
                    begun = True
                    yield node
            except psycopg.errors.CannotConnectNow:  # it is on another node now
                if begun or is_last:
                    raise
            else:
                return

    @asynccontextmanager
    async def _begun(self, connection: Connection, merchant_id: UUID) -> AsyncIterator[Connection]:
        """Yields the connection for a transaction where the merchant's shard was when the shards were read last."""
        shard = await self._shard_of(connection, merchant_id)
        try:
            server = connection if shard is None else await self._node(shard, connection)
        except psycopg.OperationalError:
            self._is_read = False
            raise
        async with self.begin_group(Group(server, connection, self._shards, shard)):
            yield server

    async def execute(
        self, connection: Connection, merchant_id: UUID, statement: str, values: Values
    ) -> psycopg.AsyncCursor[Any]:
        """Executes one statement as a transaction. Returns its cursor. Raises psycopg.Error."""
        if await self._shard_of(connection, merchant_id) is None:
            return await connection.execute(statement, values)
        async with self.begin(connection, merchant_id) as node:
            return await node.execute(statement, values)

    async def read_all(
        self, connection: Connection, statement: str, values: Values, merchants: Iterable[UUID] | None = None
    ) -> RowsOfAll:
        """Returns the rows of a statement over all merchants, or over these, which it has to name itself. On Citus it
        is executed on each shard that has some, and those of a node that cannot be read now are left out, which is
        logged.

        `connection` is one to the database of `url`, outside a transaction. Raises psycopg.Error.
        """
        shards = await self._read(connection)
        if shards is None:
            cursor = await connection.cursor(binary=True).execute(statement, values)
            return RowsOfAll([await cursor.fetchall()], _is_never, is_whole=True)
        of_nodes = shards.of_each_node(None if merchants is None else [each.bytes for each in merchants])
        reads = [self._read_node(connection, of_node, statement, values) for of_node in of_nodes]
        found: dict[int, Rows] = {}
        for rows in await asyncio.gather(*reads):
            found |= rows
        return RowsOfAll(
            list(found.values()),
            lambda merchant_id: shards.of(merchant_id.bytes).id not in found,
            is_whole=len(found) == sum(map(len, of_nodes)),
        )

    async def _read_node(
        self, connection: Connection, of_node: Sequence[Shard], statement: str, values: Values
    ) -> dict[int, Rows]:
        """Returns the rows of each shard of a node, by its id, without those that cannot be read now."""
        found: dict[int, Rows] = {}
        async with self._asked(of_node[0].url) as may_ask:
            if not may_ask:
                return found
            node = await self._node(of_node[0], connection)
            try:
                return await _rows_of(node, of_node, statement, values)
            except _ON_THEIR_WAY:
                self._is_read = False
            for shard in of_node:  # those that are here are read without the one that is not
                try:
                    found |= await _rows_of(node, [shard], statement, values)
                except _ON_THEIR_WAY as fault:
                    _log.warning("node_unavailable", of=self._name, reason=type(fault).__name__)
        return found

    @asynccontextmanager
    async def _asked(self, url: str) -> AsyncIterator[bool]:
        """Ends a block at once in which a server does not answer, and logs it. It yields False if the server is to be
        left alone.
        """
        began_s = time.monotonic()
        may_ask = began_s >= self._left_alone.get(url, 0.0)
        if not may_ask:
            self._is_read = False  # another server may be the node now
        try:
            yield may_ask
        except UNAVAILABLE as fault:
            self._is_read = False
            failed_s = time.monotonic()
            self._left_alone[url] = failed_s + min(_REST_OF_FAILURE * (failed_s - began_s), _REST_MAX_S)
            _log.warning("node_unavailable", of=self._name, reason=type(fault).__name__)

    async def _shard_of(self, connection: Connection, merchant_id: UUID) -> Shard | None:
        """Returns a merchant's shard, None if Citus divides nothing."""
        shards = await self._read(connection)
        return None if shards is None else shards.of(merchant_id.bytes)

    async def _read(self, connection: Connection) -> Shards | None:
        """Returns the shards as they were read last, None if Citus divides nothing."""
        if not connection.has_citus:
            return None
        if not self._is_read:
            found = await read_shards(connection, self._url) if await is_divided(connection) else ()
            self._shards = Shards(found) if found else None
            self._is_read = True
        return self._shards

    async def _node(self, shard: Shard, connection: Connection) -> ShardConnection:
        node = self._nodes.get(shard.node)
        if node is not None and (has_ended(node) or node.url != shard.url):
            await node.close()
            node = None
        if node is None:
            node = self._nodes[shard.node] = await self._connected(shard)
        node.shard = shard
        await node.set_isolation_level(connection.isolation_level)
        await node.set_read_only(connection.read_only)
        return node

    async def _connected(self, shard: Shard) -> ShardConnection:
        """Returns a connection to a shard's node, which is used once it has all of its settings."""
        node = await connect_as(ShardConnection, shard.url, self._name)
        try:
            node.url, node.waits_max_s = shard.url, self._waits_max_s
            await require_none_waits(node, self._name)
            await node.execute(WRITE_TO_SHARDS)
            await node.execute(_SET, (list(self._settings), list(self._settings.values())))
            node.views = dict(await (await node.execute(_VIEWS)).fetchall())
        except BaseException:
            await node.close()
            raise
        return node

    async def _hold(self, shard: Shard, node: ShardConnection, coordinator: Connection) -> None:
        """Holds the shard where it is until the transaction ends. Raises CannotConnectNow if it is on another node.

        A transaction that only reads one snapshot holds nothing: what it reads stays as it is, and a move that waited
        for it would keep every commit to the shard waiting. The node has to know the shard in that snapshot.
        """
        is_snapshot = node.isolation_level not in {None, IsolationLevel.READ_COMMITTED}
        if is_snapshot and node.read_only:
            await _require_shard(shard, node)
        else:
            try:
                await node.execute(HOLD.format(shard=shard.id))
            except NOT_HELD as fault:
                raise _moved(shard) from fault
        if is_snapshot:
            # It may be older than the hold, and show the shard where it was. The coordinator is asked behind both.
            await _require_shard(shard, coordinator)


async def _rows_of(node: ShardConnection, of_node: Sequence[Shard], statement: str, values: Values) -> dict[int, Rows]:
    """Returns the rows of each of these shards, by its id, in one transaction and one round trip."""
    cursors: dict[int, psycopg.AsyncCursor[Any]] = {}
    async with node.pipeline():  # without a `begin`, all of it is one transaction
        await node.execute(_WAIT_BRIEFLY)
        await node.execute(HOLD_SOME, [ENCODE_ARRAY["int8"]([shard.id for shard in of_node])])
        for node.shard in of_node:
            cursors[node.shard.id] = await node.cursor(binary=True).execute(statement, values)
    return {shard_id: await cursor.fetchall() for shard_id, cursor in cursors.items()}


def _is_never(_: UUID) -> bool:
    return False


async def _require_shard(shard: Shard, connection: Connection) -> None:
    """Raises CannotConnectNow if a server does not know that the shard is on its node."""
    found = await connection.execute(_IS_ON_NODE, (shard.id, shard.node))
    if await found.fetchone() is None:
        raise _moved(shard)


def _moved(shard: Shard) -> psycopg.errors.CannotConnectNow:
    return psycopg.errors.CannotConnectNow(f"the shard {shard.id} is on another server now")
