"""Moves the content of old events out of the database into files, a group of streams at a time.

What is moved is the content of streams that rest: those that have had no event for a while, of the kinds that end.
Their rows stay (see `ledger.journal.event_archive`), and a later event of such a stream is an ordinary row behind them.

Never take a content out of the table that was not compared before: with the log's newest signed checkpoint, so that
what was changed is not moved where it looks like what was written, and with what a reader gets from the written file.

A run that ends early has moved some groups and not the others. A file without its transaction is written again by the
next run, under the same name; what was moved is not moved again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.streams import IDEMPOTENCY_RECORDS, ORDERS
from ledger.invoicing.files import files_address, files_place
from ledger.journal.event_archive import REFERENCE_BYTES, EventArchive, Reference, file_id, file_key
from ledger.postgres.connection import Connection, connect
from ledger.postgres.registration import RUNNING, RunningProcess, address_and_id
from ledger.progress import Progress, unreported
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import CannotRun, Settings, log_origin
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint
from ledger.tlog.entries import encode_entry, entry_of
from ledger.tlog.event_lines import encode_line, exact_json
from ledger.tlog.growth import LogChanged
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import inclusion_ranges, leaf_hash, verify_inclusion
from ledger.tlog.notes import Malformed, Unverified
from ledger.tlog.reading import TreeReader
from ledger.tlog.tiles import WIDTH, split_hashes

MONTHS: Final = 13
"""How many whole months of events stay, unless a command names another time."""

_TOPICS: Final = [*ORDERS.topics, *IDEMPOTENCY_RECORDS.topics]
"""The events of streams that end. A customer, a product or a subscription is read by new orders however old it is."""

_LOCK: Final = 0xA2C41FE
"""An arbitrary number that must never change: of two runs at once, one would fail at what the other has moved."""
_WINDOW: Final = 20_000
"""How many positions of a log are looked through at a time."""
_STREAMS_AT_ONCE: Final = 200
_FILE_BYTES: Final = 8 << 20
"""The size at which a file is closed: parts of it are read by their offset."""

_MERCHANTS: Final = """
select t.merchant_id, coalesce(a.position, 0) from log_tree t left join archived_log a using (merchant_id)
 where %(merchant_id)s::uuid is null or t.merchant_id = %(merchant_id)s order by t.merchant_id
"""

_RECORDED_AT: Final = "select recorded_at from event where merchant_id = %s and position = %s"

# The streams of some kinds that have an event between two positions, and none behind a third one.
_RESTING: Final = """
select s.stream_id
  from (select distinct stream_id from event
         where merchant_id = %(merchant_id)s and position > %(after)s and position <= %(until)s
           and topic = any(%(topics)s)) s
 cross join lateral (select position from event
                      where merchant_id = %(merchant_id)s and stream_id = s.stream_id
                      order by version desc limit 1) last
 where last.position <= %(end)s order by 1
"""

# The events of streams up to a position whose content is in the table, and larger than what would take its place. A
# stream that rested when it was found may have an event behind that position by now, which no checkpoint has yet.
_EVENTS: Final = f"""
select stream_id, version, position, command_id, recorded_at, topic, data, context from event
 where merchant_id = %s and stream_id = any(%s) and position <= %s and octet_length(data) > {REFERENCE_BYTES}
 order by stream_id, version
"""  # noqa: S608 - a constant

# Puts references into the place of contents, where these are still what was written to the file.
_DETACH: Final = """
update event e set data = u.reference
  from unnest(%s::uuid[], %s::int4[], %s::bytea[], %s::bytea[]) as u(stream_id, version, reference, content_hash)
 where e.merchant_id = %s and e.stream_id = u.stream_id and e.version = u.version and sha256(e.data) = u.content_hash
"""
_RECORD: Final = """
insert into archived_file (merchant_id, file_id, sha256, events, bytes) values (%s, %s, %s, %s, %s)
"""
_ADVANCE: Final = """
insert into archived_log as a (merchant_id, position) values (%s, %s)
on conflict (merchant_id) do update set position = excluded.position where a.position < excluded.position
"""


class Archived(Struct, frozen=True):
    """How many events were moved, into how many files, and the bytes of their contents."""

    events: int
    files: int
    bytes: int


class _Event(Struct, frozen=True):
    """An event as the table has it."""

    stream_id: UUID
    version: int
    position: int
    command_id: UUID
    recorded_at: datetime
    topic: str
    data: bytes
    context: bytes


def default_time(now: datetime) -> datetime:
    """Returns the time before which events are archived by default: the first of the month `MONTHS` months ago, so that
    a run that is repeated within a month writes the same files.
    """
    months = now.year * 12 + now.month - 1 - MONTHS
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


async def archive_events(
    settings: Settings,
    owner_url: str,
    before: datetime,
    *,
    merchant_id: UUID | None = None,
    progress: Progress = unreported,
) -> Archived:
    """Moves the content of the streams that have rested since `before`, of one merchant or of all, into files.

    `owner_url` is of the role that owns the tables: no other one may change an event. What no full tile of a signed
    log has stays. Raises CannotRun: production without an object store, services of another release, another run, an
    unknown merchant, services that read files elsewhere, a log that is not what was signed; ArchiveUnavailable if the
    store fails.
    """
    if settings.environment == "production" and not settings.files_url:
        raise CannotRun(
            "archived events would be on this machine's disk alone: set LEDGER_FILES_URL to an object store"
        )
    address = files_address(settings.files_url, settings.data_dir)
    archive, place = EventArchive(address), files_place(address)
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    trees = TreeReader(owner_url)
    moved = Archived(0, 0, 0)
    try:
        async with _locked(owner_url) as connection:
            await _require_readers(connection, place)
            merchants = await (await connection.execute(_MERCHANTS, {"merchant_id": merchant_id})).fetchall()
            if merchant_id is not None and not merchants:
                raise CannotRun(f"the merchant {merchant_id} has no signed log: it does not exist, or is seconds old")
            for n, (each, after) in enumerate(merchants, 1):
                log = _Log(connection, archive, trees, keys, each)
                async for found in log.archive(after, before):
                    await _require_readers(connection, place)  # one may have started meanwhile
                    moved = Archived(moved.events + found.events, moved.files + found.files, moved.bytes + found.bytes)
                    progress("moving events into files", moved.events, None)
                progress("looking through logs", n, len(merchants))
    finally:
        await trees.stop()
    return moved


@asynccontextmanager
async def _locked(url: str) -> AsyncIterator[Connection]:
    """Yields the connection that writes. Raises CannotRun while another run has one."""
    async with await connect(url, "ledger-archive") as connection:
        await connection.execute("set statement_timeout = 0")
        row = await (await connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
        if row != (True,):
            raise CannotRun("another `ledger archive` runs: wait for its end")
        yield connection


async def _require_readers(connection: Connection, place: str) -> None:
    """Raises CannotRun if a service runs that may not read what is archived: one of another release, which may be one
    that does not know archived events, or one that reads files from another store than this `place`.
    """
    own = version("payment-ledger")
    archive, id_ = address_and_id(place)
    for row in await (await connection.execute(RUNNING)).fetchall():
        process = RunningProcess(*row)
        who = f"the {process.role} on {process.host}"
        if process.release != own:
            raise CannotRun(
                f"{who} is of release {process.release}, which may not read archived events, and this one is "
                f"{own}: archive when every service is of one release"
            )
        # One that names no store reads from its own folder, which may be this one.
        if process.files_id != id_ and (process.files or not archive.startswith("file:")):
            theirs = process.files_address or "its data directory"
            raise CannotRun(
                f"{who} reads files from {theirs}, and archived events would be in {archive}: set one LEDGER_FILES_URL "
                "for every service and this command"
            )


class _Log:
    """One merchant's log, as far as it is archived."""

    def __init__(
        self, connection: Connection, archive: EventArchive, trees: TreeReader, keys: LogKeys, merchant_id: UUID
    ) -> None:
        self._connection, self._archive, self._trees = connection, archive, trees
        self._merchant_id = merchant_id
        self._sealed = _SealedLog(trees, keys, merchant_id)

    async def archive(self, after: int, before: datetime) -> AsyncIterator[Archived]:
        """Archives what has rested since `before`, from the position `after` on, and yields what each file has."""
        end = await self._end(after, before)
        for start in range(after, end, _WINDOW):
            until = min(start + _WINDOW, end)
            async for events in self._groups(start, until, end):
                yield await self._move(events)
            await self._connection.execute(_ADVANCE, (self._merchant_id, until))

    async def _end(self, after: int, before: datetime) -> int:
        """Returns the last position that may be archived: it is in a full tile, and its event is older than `before`.

        Positions follow times but for the differences of machines' clocks.
        """
        low, high = after, await self._sealed.open() // WIDTH * WIDTH
        while low < high:
            middle = (low + high + 1) // 2
            row = await (await self._connection.execute(_RECORDED_AT, (self._merchant_id, middle))).fetchone()
            if row is None:
                raise self._sealed.changed(middle)
            low, high = (middle, high) if row[0] < before else (low, middle - 1)
        return low

    async def _groups(self, after: int, until: int, end: int) -> AsyncIterator[list[_Event]]:
        """Yields the events for each file: those of whole streams that rest, in the order of streams."""
        parameters = {
            "merchant_id": self._merchant_id, "after": after, "until": until, "end": end, "topics": _TOPICS
        }  # fmt: skip
        found = await (await self._connection.execute(_RESTING, parameters)).fetchall()
        streams = [stream_id for (stream_id,) in found]
        group: list[_Event] = []
        size = 0
        for at in range(0, len(streams), _STREAMS_AT_ONCE):
            some = streams[at : at + _STREAMS_AT_ONCE]
            rows = await self._connection.cursor(binary=True).execute(_EVENTS, (self._merchant_id, some, end))
            events = [_Event(*row) for row in await rows.fetchall()]
            group += events
            size += sum(len(event.data) for event in events)
            if size >= _FILE_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    async def _move(self, events: Sequence[_Event]) -> Archived:
        """Writes the content of events to a file, and takes it out of the table once a reader gets it from there."""
        await self._sealed.require(events)
        content, references = self._file(events)
        merchant, id_ = self._merchant_id.bytes, file_id(content)
        key = file_key(merchant, id_)
        await self._write(key, content)
        await self._require_readable(events, references, key)
        async with self._connection.transaction():
            columns = (
                [event.stream_id for event in events],
                [event.version for event in events],
                [reference.encode() for reference in references],
                [reference.sha256 for reference in references],
            )
            detached = await self._connection.execute(_DETACH, (*columns, self._merchant_id))
            if detached.rowcount != len(events):
                raise CannotRun(f"an event of merchant {self._merchant_id} was changed meanwhile: run `ledger audit`")
            size = sum(len(event.data) for event in events)
            record = (self._merchant_id, id_, sha256(content).digest(), len(events), size)
            await self._connection.execute(_RECORD, record)
        return Archived(len(events), 1, size)

    async def _write(self, key: str, content: bytes) -> None:
        """Writes a file and makes it durable, also if an earlier run has left one: a crash may have damaged it, and
        what a disk has failed to keep is still read as it was written.
        """
        store = self._archive.store
        if not await store.create(key, content):
            await store.replace(key, content)
        await store.flush([key])

    def _file(self, events: Sequence[_Event]) -> tuple[bytes, list[Reference]]:
        """Returns the lines of events, as `ledger export` writes those that it cannot open, and where each content is
        in them.
        """
        lines, places, at = [], [], 0
        for event in events:
            line = encode_line(
                self._merchant_id,
                position=event.position,
                stream_id=event.stream_id,
                version=event.version,
                topic=event.topic,
                recorded_at=event.recorded_at,
                command_id=event.command_id,
                context=event.context,
                event=None,
                stored=event.data,
            )
            length = len(bytes(exact_json(event.data)))  # the last member
            places.append((at + len(line) - 1 - length, length, sha256(event.data).digest()))
            lines.append(line + b"\n")
            at += len(line) + 1
        content = b"".join(lines)
        reference_of = partial(Reference, file_id(content))
        return content, [reference_of(*place) for place in places]

    async def _require_readable(self, events: Sequence[_Event], references: Sequence[Reference], key: str) -> None:
        """Raises CannotRun unless a reader gets the content of every event from the store."""
        merchant = self._merchant_id.bytes
        stored = [(merchant, reference.encode()) for reference in references]
        contents = await asyncio.to_thread(self._archive.read, stored)
        for event, reference in zip(events, stored, strict=True):
            if contents.get(reference) != event.data:
                raise CannotRun(
                    f"{key} was written to the store of files and is not read as it was written: nothing of it was moved"
                )


class _SealedLog:
    """A merchant's log as its newest checkpoint has it, by tiles of 256 events that were proved to be in it."""

    def __init__(self, trees: TreeReader, keys: LogKeys, merchant_id: UUID) -> None:
        self._trees, self._keys, self._merchant_id = trees, keys, merchant_id
        self._checkpoint: Checkpoint | None = None

    async def open(self) -> int:
        """Returns how many events the newest checkpoint has, 0 if there is none. Raises CannotRun if it is forged."""
        place = await self._trees.place(self._merchant_id)
        if place.checkpoint is None:
            return 0
        try:
            checkpoint = open_checkpoint(place.checkpoint.encode(), self._keys.verifiers(self._merchant_id))
        except (Malformed, Unverified) as forged:
            raise CannotRun(f"the newest checkpoint of merchant {self._merchant_id} is not valid: {forged}") from None
        self._checkpoint = checkpoint
        return checkpoint.size

    async def require(self, events: Sequence[_Event]) -> None:
        """Raises CannotRun unless each of these events is the one that was sealed at its position."""
        tiles: dict[int, list[bytes]] = {}
        for event in events:
            number, place = divmod(event.position - 1, WIDTH)
            if number not in tiles:
                tiles[number] = await self._proved(number)
            entry = entry_of(
                self._merchant_id,
                position=event.position,
                stream_id=event.stream_id,
                version=event.version,
                topic=event.topic,
                recorded_at=event.recorded_at,
                command_id=event.command_id,
                data=event.data,
                context=event.context,
            )
            if leaf_hash(encode_entry(entry)) != tiles[number][place]:
                raise self.changed(event.position)

    async def _proved(self, number: int) -> list[bytes]:
        """Returns the leaf hashes of a full tile. One entry's proof has all the others of the tile beside it."""
        assert self._checkpoint is not None, "a log without a checkpoint has no event to archive"
        size, first = self._checkpoint.size, number * WIDTH
        leaves = split_hashes(await self._trees.tile(self._merchant_id, 0, number, WIDTH))
        try:
            proof = await self._trees.hashes(self._merchant_id, inclusion_ranges(first, size), size)
        except LogChanged:
            raise self.changed(first + 1) from None
        if len(leaves) != WIDTH or not verify_inclusion(leaves[0], first, size, proof, self._checkpoint.root):
            raise self.changed(first + 1)
        return leaves

    def changed(self, position: int) -> CannotRun:
        """Returns the refusal of a log that is not what was sealed, from a position on."""
        return CannotRun(
            f"the log of merchant {self._merchant_id} is not what was signed, at position {position} or in its tile: "
            "run `ledger audit`, and restore what was changed before it is archived"
        )
