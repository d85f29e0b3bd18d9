"""The group commit on Citus: writers on each node, which commit the batches of one shard at a time.

A batch has merchants of one shard, because its statement names the tables of that shard. Batches of several shards are
in flight at once: those of each node, and behind each the next one of that node.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.journal.append import Append
from ledger.journal.commit import append_statement
from ledger.journal.commit.batch import Batch
from ledger.journal.commit.group_commit import STOP_PATIENCE_S, PendingAppend, reject_batch
from ledger.journal.commit.locked_merchants import FREE_HEADS, LockedMerchants
from ledger.journal.commit.writer import CONFIRM, STATEMENTS_MAX, AppendTo, Writer
from ledger.journal.inline import InlineTable
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, QueryTimeout, SharedClient, connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Pipeline, Rows, Statement
from ledger.postgres.replication import wait_for_standbys
from ledger.postgres.shards import HOLD, NOT_HELD, WRITE_TO_SHARDS, Shard, Shards, is_divided, read_shards

_log = structlog.get_logger()

# Announces merchants, for a transaction of its own at the coordinator.
_ANNOUNCE: Final = "select pg_notify('{channel}', m::text) from unnest(%s::uuid[]) as m"

_REACH_AGAIN_S: Final = 0.5

_MAY_HAVE_LEFT: Final = (psycopg.errors.UndefinedTable, psycopg.errors.InternalError_)
"""What a batch may raise whose shard has left this node. Statements are prepared before they hold the shard, which
fails once Citus has removed what was left here of its tables; a shard that was split cannot be held.
"""

Moved = Callable[[Sequence[PendingAppend]], Awaitable[None]]
"""Takes the commands of a shard that is on another node now. None of them is committed."""

Look = Callable[[], Awaitable[None]]
"""Asks the coordinator where the shards and the nodes are now. If it is silent, what was read before stays."""


class ShardMoved(Exception):
    """The commands of a batch are no longer of one shard: it was split. Nothing was sent."""


class ShardWriter(Writer):
    """A writer on one node. Its commands are of merchants of this node, and those of a shard that has left it are
    `moved`. If its server cannot be reached, it has a `look` at which server the node is.
    """

    def __init__(
        self,
        shards: Shards,
        coordinator: SharedClient,
        moved: Moved,
        look: Look,
        node: Shard,
        tables: Sequence[InlineTable],
        *,
        batch_max: int,
        queue_max: int,
        name: str,
    ) -> None:
        super().__init__(node.url, tables, batch_max=batch_max, queue_max=queue_max, name=name)
        self._shards, self._coordinator, self._node = shards, coordinator, node.node
        self._moved, self._look = moved, look
        self._locked = _LockedOnShards(shards)
        self._of_shard: dict[int, dict[frozenset[str], AppendTo]] = {}
        self._later = tuple(table for table in self._tables if table.after_on_shards)
        self._announced = tuple(table for table in self._tables if table.announced_as)
        self._telling = set[asyncio.Task[None]]()

    async def _open(self) -> Connection:
        servers = self._shards.servers
        # Of a node that was removed, another one has the shards now. What it committed before is looked up there.
        self._url = servers[self._node] if self._node in servers else next(iter(servers.values()), self._url)
        try:
            connection = await super()._open()
        except psycopg.OperationalError:
            if self._task is not None:  # another server may be this node now, as after a promotion
                await self._look()
            raise
        await connection.execute(WRITE_TO_SHARDS)
        return connection

    def _take(self) -> Sequence[PendingAppend]:
        """Takes a batch of the shard of the first command that waits."""
        shard = self._shards.of(self._queue[0].command.merchant_id)
        batch, taken, later = Batch(), list[PendingAppend](), deque[PendingAppend]()
        while self._queue and len(taken) < self._batch_max:
            pending = self._queue.popleft()
            is_of_shard = self._shards.of(pending.command.merchant_id).id == shard.id
            (taken if is_of_shard and batch.admit(pending.command) else later).append(pending)
        later.extend(self._queue)
        self._queue = later
        self._has_dependent = bool(later)
        return taken

    def _execute(self, _: Connection, commands: Sequence[Append]) -> Awaitable[Rows]:
        shard = self._shards.of(commands[0].merchant_id)
        if any(self._shards.of(command.merchant_id).id != shard.id for command in commands):
            raise ShardMoved
        append, tables = self._append_to_shard(shard, commands)
        heads = append_statement.lock_parameters(commands)
        columns = append_statement.append_parameters(commands, tables)
        began = time.perf_counter()

        def committed(results: Sequence[Rows]) -> Rows:
            self._announce(commands)
            return self._committed(began, len(commands), results[1:3])

        statements = [(_hold(shard), ()), (_lock(shard), heads), (append, columns)]
        return self._pipeline.send([*statements, *self._after(shard, commands)], committed)

    def _append_to_shard(self, shard: Shard, commands: Sequence[Append]) -> AppendTo:
        """Returns the statement for a batch of this shard, and the tables that it names."""
        rare = self._rare.intersection(chain.from_iterable([command.rows for command in commands]))
        made = self._of_shard.setdefault(shard.id, {})
        if rare not in made and len(made) >= STATEMENTS_MAX:
            rare = self._rare
        if rare not in made:
            tables = tuple(table for table in self._tables if not table.is_rare or table.name in rare)
            text = shard.statement(append_statement.build_statement(tables, is_on_shard=True))
            made[rare] = Statement(b"ledger_append_%d_%d" % (shard.id, len(made)), text.encode()), tables
        return made[rare]

    def _after(self, shard: Shard, commands: Sequence[Append]) -> Iterable[tuple[Statement, Sequence[bytes]]]:
        """Returns what follows the append in its transaction: for tables of which these commands write rows."""
        for table in self._later:
            if any(table.name in command.rows for command in commands):
                name = f"ledger_after_{table.name}_{shard.id}".encode()
                text = shard.statement(append_statement.build_after(table))
                yield Statement(name, text.encode()), append_statement.table_parameters(commands, table)

    async def _rolled_back(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        is_moved = isinstance(fault, psycopg.errors.CannotConnectNow | ShardMoved)
        if is_moved or (isinstance(fault, _MAY_HAVE_LEFT) and await self._has_left(batch)):
            await self._moved(batch)
        else:
            await super()._rolled_back(batch, fault)

    async def _has_left(self, batch: Sequence[PendingAppend]) -> bool:
        """Returns whether the shard of a batch is no longer here, or is another one."""
        merchant_id = batch[0].command.merchant_id
        before = self._shards.of(merchant_id).id
        await self._look()
        shard = self._shards.of(merchant_id)
        return shard.node != self._node or shard.id != before

    async def stop(self, patience_s: float = STOP_PATIENCE_S) -> None:
        await super().stop(patience_s)
        if self._telling:  # the followers of what was committed last
            await asyncio.wait(self._telling, timeout=patience_s)

    async def confirm(self, merchant_id: UUID) -> None:
        """Does what `Writer.confirm` does, while the merchant's shard is held here. If it is not, it is looked for, and
        nothing is confirmed yet.
        """
        self.require_confirmed(merchant_id)
        shard = self._shards.of(merchant_id.bytes)
        try:
            await self._pipeline.send([(_hold(shard), ()), (CONFIRM, ())], lambda _: None)
        except psycopg.Error as fault:
            if isinstance(fault, NOT_HELD):
                await self._look()
            raise DatabaseUnavailable(type(fault).__name__) from fault

    def adopt(self, pending: PendingAppend) -> None:
        """Queues a command that waited for another node, or rejects it where `submit` would raise."""
        if self._connection is None or self._closing:
            reject_batch([pending], DatabaseUnavailable, f"{self._name} has no connection to the node: try again later")
            return
        self._queue.append(pending)
        self._queued()

    async def _find_committed(self, connection: Connection, commands: Sequence[Append]) -> Mapping[int, int]:
        """Looks where each shard is known to be: a shard that has moved took every commit along, and waited for it."""
        found: dict[int, int] = {}
        for shard in {self._shards.of(command.merchant_id) for command in commands}:
            asked = {n: each for n, each in enumerate(commands) if self._shards.of(each.merchant_id).id == shard.id}
            if shard.node == self._node:
                found |= await self._find_in(shard, connection, asked)
                continue
            async with await connect(shard.url, self._name) as other:
                with QueryTimeout(other):
                    found |= await self._find_in(shard, other, asked)
                    await wait_for_standbys(other)
        return found

    async def _find_in(self, shard: Shard, connection: Connection, asked: Mapping[int, Append]) -> Mapping[int, int]:
        parameters = append_statement.committed_parameters(list(asked.values()))
        try:
            rows = await connection.cursor(binary=True).execute(shard.statement(append_statement.COMMITTED), parameters)
        except psycopg.errors.UndefinedTable:  # Citus has removed what was left here of a shard that has moved
            await self._look()
            raise  # it is looked for again, where it is now
        numbers = list(asked)
        return {numbers[int(n)]: int(position) for n, position in await rows.fetchall()}

    def _wake_followers(self, followed: Sequence[bytes]) -> None:
        """Notifies the followers of these merchants' logs, who listen at the coordinator."""
        self._tell(append_statement.WAKE_FOLLOWERS.replace("$1", "%s"), followed)

    def _announce(self, commands: Sequence[Append]) -> None:
        """Notifies those who listen for changes of a table's rows, as a trigger does on an ordinary Postgres."""
        for table in self._announced:
            if merchants := {command.merchant_id for command in commands if table.name in command.rows}:
                self._tell(_ANNOUNCE.format(channel=table.announced_as), list(merchants))

    def _tell(self, statement: str, merchants: Sequence[bytes]) -> None:
        task = asyncio.get_running_loop().create_task(self._told(statement, merchants))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _told(self, statement: str, merchants: Sequence[bytes]) -> None:
        try:
            async with self._coordinator.turn() as connection:
                await connection.execute(statement, [ENCODE_ARRAY["uuid"](merchants)])
        except (DatabaseUnavailable, psycopg.Error) as fault:
            _log.warning("journal_followers_not_told", reason=type(fault).__name__)


class _LockedOnShards(LockedMerchants):
    """The locked merchants, whose heads are looked at shard by shard."""

    def __init__(self, shards: Shards) -> None:
        super().__init__()
        self._shards = shards

    async def _free(self, pipeline: Pipeline, merchants: Iterable[bytes]) -> set[bytes]:
        asked, free = list(merchants), set[bytes]()
        for shard in {self._shards.of(merchant_id) for merchant_id in asked}:
            of_shard = [merchant_id for merchant_id in asked if self._shards.of(merchant_id).id == shard.id]
            statement = Statement(b"ledger_free_heads_%d" % shard.id, shard.statement(FREE_HEADS).encode())
            sent = [(statement, [ENCODE_ARRAY["uuid"](of_shard)])]
            free |= await pipeline.send(sent, lambda rows: {merchant_id.bytes for (merchant_id,) in rows[0]})
        return free


class ShardWriters:
    """The writers of a process on all nodes of a distributed database, which `url` names by its coordinator.

    It is used as one `Writer` is. Where the shards are is read at the start, when one has moved, and while a node's
    server cannot be reached.
    """

    def __init__(
        self,
        url: str,
        tables: Sequence[InlineTable] = (),
        *,
        batch_max: int = 256,
        queue_max: int = 10_000,
        name: str = "ledger-writer",
    ) -> None:
        self._url, self._tables = url, tables
        self._batch_max, self._queue_max, self._name = batch_max, queue_max, name
        self._coordinator = SharedClient(url, f"{name}-notifications")
        self._writers: dict[int, ShardWriter] = {}
        self.shards = Shards()
        self._reading = asyncio.Lock()
        self._is_stopped = False
        self._tasks = set[asyncio.Task[None]]()

    @property
    def alive(self) -> bool:
        """Whether commands of every node are being committed."""
        has_all = bool(self._writers) and self._writers.keys() >= self.shards.servers.keys()
        return has_all and all(writer.alive for writer in self._writers.values())

    @property
    def commits_some(self) -> bool:
        """Whether commands of one node at least are being committed."""
        return any(writer.alive for writer in self._writers.values())

    @property
    def has_ended(self) -> bool:
        """Whether nothing is committed any more on one of the nodes."""
        return any(writer.has_ended for writer in self._writers.values())

    @property
    def is_reconnecting(self) -> bool:
        """Whether a node is looked for."""
        lacks_any = bool(self.shards.servers.keys() - self._writers.keys())
        return lacks_any or any(writer.is_reconnecting for writer in self._writers.values())

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return sum(writer.depth for writer in self._writers.values())

    @property
    def oldest_commit_s(self) -> float:
        """How long ago the oldest batch was sent that is not answered, in seconds; 0 if there is none."""
        return max((writer.oldest_commit_s for writer in self._writers.values()), default=0.0)

    @property
    def held_up_s(self) -> float:
        """How long the commits of all merchants are held up, in seconds: those of one node hold up no other's."""
        return min((writer.oldest_commit_s for writer in self._writers.values()), default=0.0)

    async def start(self) -> None:
        """Connects to every node that has a shard; to one that cannot be reached, as soon as it can, so that the
        merchants of the others are served. Raises psycopg.OperationalError if none can be reached.
        """
        try:
            await self._read_shards()
        except psycopg.OperationalError as fault:
            if not self._writers:
                raise
            _log.warning("journal_shards_not_read", reason=type(fault).__name__)
            self._keep(self._reach_the_rest())

    async def stop(self) -> None:
        """Commits what is pending, then disconnects."""
        async with self._reading:  # no further writer starts from now on
            self._is_stopped = True
        ended = await asyncio.gather(*[writer.stop() for writer in self._writers.values()], return_exceptions=True)
        await asyncio.gather(*self._tasks)
        await self._coordinator.stop()
        for fault in ended:
            if fault is not None:
                raise fault

    def submit(self, command: Append) -> asyncio.Future[int]:
        """Queues a command, as `Writer.submit` does, and raises like it."""
        return self._writer_of(command.merchant_id).submit(command)

    async def confirm(self, merchant_id: UUID) -> None:
        """Does what `Writer.confirm` does, at the merchant's node: no other one is waited for."""
        await self._writer_of(merchant_id.bytes).confirm(merchant_id)

    def require_confirmed(self, merchant_id: UUID) -> None:
        """Does what `Writer.require_confirmed` does, for the merchant's node."""
        self._writer_of(merchant_id.bytes).require_confirmed(merchant_id)

    def _writer_of(self, merchant_id: bytes) -> ShardWriter:
        """Returns the writer of a merchant. Raises DatabaseUnavailable: its node could not be reached yet."""
        shard = self.shards.of(merchant_id)
        if (writer := self._writers.get(shard.node)) is None:
            if not self._reading.locked():
                self._keep(self._look())
            raise DatabaseUnavailable(f"{self._name} has no connection to the merchant's node: try again later")
        return writer

    async def _read_shards(self) -> None:
        """Reads where the shards are, starts writers on further nodes, and ends those on nodes without a shard.

        Raises psycopg.OperationalError.
        """
        async with self._reading:
            if self._is_stopped:
                return
            async with await connect(self._url, self._name) as connection:
                found = await read_shards(connection, self._url)
            node_of = {shard.node: shard for shard in found}
            new = {node: self._new_writer(node_of[node]) for node in node_of.keys() - self._writers.keys()}
            started = await asyncio.gather(*[writer.start() for writer in new.values()], return_exceptions=True)
            self._writers |= {node: new[node] for node, fault in zip(new, started, strict=True) if fault is None}
            self.shards.replace(found)
            for node in self._writers.keys() - node_of.keys():
                self._keep(_stop(self._writers.pop(node)))  # what it still has is moved
            for fault in started:
                if fault is not None:
                    raise fault

    async def _look(self) -> None:
        try:
            await self._read_shards()
        except psycopg.Error as fault:
            _log.warning("journal_shards_not_read", reason=type(fault).__name__)

    async def _reach_the_rest(self) -> None:
        """Looks for the nodes that cannot be reached, until each one has its writer."""
        while not self._is_stopped and self.shards.servers.keys() - self._writers.keys():
            await asyncio.sleep(_REACH_AGAIN_S)
            await self._look()

    async def _moved(self, batch: Sequence[PendingAppend]) -> None:
        """Hands commands to the writers of the node that has their shard now."""
        try:
            await self._read_shards()
        except psycopg.Error as fault:
            reject_batch(batch, DatabaseUnavailable, type(fault).__name__)
            return
        _log.info("journal_shard_moved", commands=len(batch))
        for pending in batch:
            try:
                self._writer_of(pending.command.merchant_id).adopt(pending)
            except DatabaseUnavailable as fault:
                reject_batch([pending], DatabaseUnavailable, str(fault))

    def _keep(self, running: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(running)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _new_writer(self, node: Shard) -> ShardWriter:
        return ShardWriter(
            self.shards,
            self._coordinator,
            self._moved,
            self._look,
            node,
            self._tables,
            batch_max=self._batch_max,
            queue_max=self._queue_max,
            name=self._name,
        )


async def writer_kind(url: str) -> type[Writer | ShardWriters]:
    """Returns the class of writers of a database: another one where Citus divides the log. Raises psycopg.Error."""
    async with await connect(url, "ledger-writer") as connection:  # counted once: the writer's own comes after it
        return ShardWriters if await is_divided(connection) else Writer


async def _stop(writer: ShardWriter) -> None:
    """Ends a writer whose node has no shard any more."""
    await asyncio.gather(writer.stop(), return_exceptions=True)


def _hold(shard: Shard) -> Statement:
    return Statement(b"ledger_hold_%d" % shard.id, HOLD.format(shard=shard.id).encode())


def _lock(shard: Shard) -> Statement:
    return Statement(b"ledger_lock_%d" % shard.id, shard.statement(append_statement.LOCK_HEADS).encode())
