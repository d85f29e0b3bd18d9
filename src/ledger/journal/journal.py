"""The journal's interface: commits the changes that were decided, and loads streams.

Never resend the events of a `Conflict` at a higher version: load the streams again and decide again. The same events on
a newer state are a different decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.streams import STREAM_OF, ClaimKind, Stream
from ledger.journal.append import Append, Change, Claim, StreamWrite
from ledger.journal.codec import CODEC, Codec, postgres_micros
from ledger.journal.commit.disk_probe import DiskProbe
from ledger.journal.commit.large_commits import QUEUE_MAX, STREAMS_MIN, LargeCommits
from ledger.journal.commit.notifier import Notifier
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.commit.writer import Writer
from ledger.journal.encryption import data_keys
from ledger.journal.encryption.data_keys import DataKey, DataKeys, Owner
from ledger.journal.event_archive import NO_ARCHIVE, EventArchive
from ledger.journal.inline import InlineProjections, Row
from ledger.journal.operator import Operator
from ledger.journal.reader import LogReader
from ledger.postgres.connection import QueryTimeout, SharedClient, connect
from ledger.slices import Slices
from ledger.telemetry.metrics import COMMIT_AGE_SECONDS, COMMIT_AGES, JOURNAL_UP, PROCESS, QUEUE_COMMANDS

S = TypeVar("S")

# A merchant's log begins with its head. Repeating this changes nothing.
_OPEN_LOG = "insert into merchant_head (merchant_id) values (%s) on conflict do nothing"

_encode_context = msgspec.json.Encoder().encode


class Context(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sender and the cause of a command, stored beside each event and not inside it.

    `actor` is the API key of a request; `operator` ran a command of `ledger`. `causation` is the id of the command that
    led to it.
    """

    actor: UUID | None = None
    operator: Operator | None = None
    request: str | None = None
    causation: UUID | None = None


class Journal:
    """One process's access to the event store.

    `url` is a direct libpq connection string. `projections` are written in the same commit as the events. `keys` seal
    personal data, and are None only for a codec whose events hold none. `new_writer` makes the writer. With an
    `operator`, every commit of this journal is made on that operator's behalf. `archive` has the contents of archived
    events: without one, these cannot be read.
    """

    def __init__(
        self,
        url: str,
        projections: InlineProjections,
        keys: DataKeys | None = None,
        *,
        codec: Codec = CODEC,
        batch_max: int = 256,
        queue_max: int = 10_000,
        new_writer: Callable[..., Writer | ShardWriters] = Writer,
        operator: Operator | None = None,
        archive: EventArchive = NO_ARCHIVE,
    ) -> None:
        self._url = url
        self._operator = operator
        self._codec, self._encode = codec, codec.encode_sealed
        self._projections = projections
        self._keys = keys
        tables = projections.tables if keys is None else (*projections.tables, data_keys.TABLE)
        self.writer = new_writer(url, tables, batch_max=batch_max, queue_max=queue_max)
        self._large = LargeCommits(
            partial(new_writer, url, tables, batch_max=1, queue_max=QUEUE_MAX, name="ledger-large-commits")
        )
        self.slices = Slices()
        self.reader = LogReader(url, codec, keys, archive)
        self.announcer = SharedClient(url, "ledger-announcer")
        """A connection for short statements of no request, which take turns at it."""
        self._notifier, self.disk = Notifier(self.announcer), DiskProbe(self.announcer)

    @property
    def alive(self) -> bool:
        """Whether the journal can write and read now: on Citus, the logs of one node at least."""
        return self.writer.commits_some and self.reader.alive and (self._keys is None or self._keys.alive)

    @property
    def oldest_commit_s(self) -> float:
        """How long the oldest commit in flight has been in flight, in seconds; 0 if there is none."""
        return max(self.writer.oldest_commit_s, self._large.oldest_commit_s)

    @property
    def held_up_s(self) -> float:
        """How long the commits of all merchants are held up, in seconds: on Citus, those of every node. A large commit
        holds up those of its own merchant alone.
        """
        return self.writer.held_up_s

    def sample_metrics(self) -> None:
        """Sets the gauges of this process's writer."""
        age_s = self.oldest_commit_s
        COMMIT_AGE_SECONDS.labels(PROCESS).set(age_s)
        if age_s:
            COMMIT_AGES.observe(age_s)
        QUEUE_COMMANDS.set(self.writer.depth + self._large.depth)
        JOURNAL_UP.labels(PROCESS).set(self.writer.alive and not self.disk.refusal)

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self.writer.start()
        await self.reader.start()
        self._notifier.start()
        if self._keys is not None:
            await self._keys.start()

    async def stop(self) -> None:
        """Writes the pending commands, then disconnects."""
        ended = await asyncio.gather(self.writer.stop(), self._large.stop(), return_exceptions=True)
        await self._notifier.stop()
        await self.announcer.stop()
        await self.reader.stop()
        if self._keys is not None:
            await self._keys.stop()
        for fault in ended:
            if fault is not None:
                raise fault

    async def commit(
        self,
        merchant_id: UUID,
        command_id: UUID,
        changes: Sequence[Change],
        claims: Sequence[Claim] = (),
        context: Context = Context(),  # noqa: B008 - frozen, shared on purpose
    ) -> int:
        """Appends all changes with their claims and read-model rows, or nothing.

        Returns the position of the last event.

        Raises Conflict (VersionConflict, ClaimTaken), DatabaseUnavailable, QueueFull, DataRefused: nothing was written;
        or CommitUnknown. Cancelling the caller does not cancel the command.
        """
        rows: dict[str, list[Row]] = {}
        created = self._new_keys(merchant_id, changes, rows)
        if self._operator is not None:
            context = replace(context, operator=self._operator)
        merchant, streams = merchant_id.bytes, list[StreamWrite]()
        append = Append(merchant, command_id.bytes, _encode_context(context), streams, claims, rows)
        if self._large.are_under_way:
            await self._large.ended(merchant)
        if len(changes) < STREAMS_MIN:
            for change in changes:
                key = await self._data_key(merchant, change, created) if self._is_sealed(change) else None
                streams.append(self._encoded(merchant_id, change, key, rows))
            position = await self.writer.submit(append)
        else:
            async with self.slices.work() as work:
                for change in changes:
                    await work.end_piece()
                    key = await self._data_key(merchant, change, created) if self._is_sealed(change) else None
                    streams.append(self._encoded(merchant_id, change, key, rows))
            position = await (await self._large.submit(append))
        self._notifier.note(merchant_id)
        return position

    def _is_sealed(self, change: Change) -> bool:
        """Returns whether events of a change may have personal data, which its customer's key seals."""
        return self._codec.may_be_personal(change.events)

    def _encoded(
        self, merchant_id: UUID, change: Change, key: DataKey | None, rows: dict[str, list[Row]]
    ) -> StreamWrite:
        """Returns the events of a change as stored, sealed by `key`, and adds its read-model rows to `rows`."""
        stream_id = change.stream_id.bytes
        if not change.events:
            return StreamWrite(stream_id, change.expected, ())
        seal = None if key is None else key.seal(stream_id)
        events = [self._encode(event, n, seal) for n, event in enumerate(change.events, change.expected + 1)]
        for table, new in self._projections.rows(merchant_id, change).items():
            rows.setdefault(table, []).extend(new)
        return StreamWrite(stream_id, change.expected, events)

    def _new_keys(
        self, merchant_id: UUID, changes: Sequence[Change], rows: dict[str, list[Row]]
    ) -> dict[Owner, DataKey]:
        """Returns the data keys of new customers.

        Adds to `rows` those keys, and the destroyed keys of erased customers.
        """
        created: dict[Owner, DataKey] = {}
        for change in changes:
            customer = change.after
            if self._keys is None or not change.events or not isinstance(customer, Customer):
                continue
            key_rows = rows.setdefault(data_keys.TABLE.name, [])
            if change.before is None:
                key, row = self._keys.create(merchant_id, customer.customer_id)
                created[key.owner] = key
                key_rows.append(row)
            if customer.erased:
                at = postgres_micros(customer.updated_at)
                key_rows.append(self._keys.destroy(merchant_id, customer.customer_id, at))
        return created

    async def _data_key(self, merchant: bytes, change: Change, created: Mapping[Owner, DataKey]) -> DataKey:
        """Returns the key that seals a change's personal data: that of its customer. Raises DatabaseUnavailable."""
        assert self._keys is not None, "a journal of personal data needs data keys: pass `keys`"
        customer_of = STREAM_OF[type(change.after)].customer_of
        assert customer_of is not None, f"no customer is known for {type(change.after).__name__}"
        owner = merchant + customer_of(change.after).bytes
        return created.get(owner) or self._keys.cached(owner) or await self._keys.for_sealing(owner)

    async def load(self, merchant_id: UUID, stream: Stream[S], stream_id: UUID) -> tuple[S | None, int]:
        """Returns a stream's folded state and its version, or (None, 0) if this merchant lacks the stream."""
        events = await self.reader.stream(merchant_id, stream_id)
        return (fold(stream.evolve, None, events), len(events)) if events else (None, 0)

    async def claim_owner(self, merchant_id: UUID, kind: ClaimKind, key: str) -> UUID | None:
        """Returns the stream that took a key, or None."""
        return await self.reader.claim_owner(merchant_id, kind, key)

    async def open_log(self, merchant_id: UUID) -> None:
        """Creates a merchant's log. Needed once, before its first commit. Raises psycopg.OperationalError, also if the
        synchronous standby is away for longer than `QueryTimeout` waits.
        """
        async with await connect(self._url, "ledger-open-log") as connection:
            with QueryTimeout(connection):
                await connection.execute(_OPEN_LOG, (merchant_id,))
