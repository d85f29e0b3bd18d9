"""Reads of the log: streams by id, claims by key, a merchant's events by position.

Follow a merchant's log by position, never by time or by another sequence: only positions are gap-free and in the order
of the commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from msgspec import MsgspecError, Struct

from ledger.domain.streams import ClaimKind
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.codec import HAS_TIME, Codec, UnknownTopic
from ledger.journal.encryption.data_keys import DataKey, DataKeys, Owner
from ledger.journal.encryption.sealing import customer_of
from ledger.journal.event_archive import NO_ARCHIVE, ArchiveUnavailable, EventArchive, Stored, reference_in, unreadable
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.merchant_reads import rows_of_merchants
from ledger.telemetry.unopened import note_unopened

# All events of these streams, oldest first.
_STREAMS: Final = """
select q.n, e.version, e.topic, e.data
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, stream_id)
 cross join lateral (select version, topic, data from event
                      where merchant_id = q.merchant_id and stream_id = q.stream_id order by version) e
 order by q.n, e.version
"""

# The streams that hold these keys.
_CLAIMS: Final = """
select q.n, c.stream_id from unnest(%s::int4[], %s::uuid[], %s::int4[], %s::text[]) as q(n, merchant_id, kind, key)
  join claim c on c.merchant_id = q.merchant_id and c.kind = q.kind and c.key = q.key
"""

# The last events of the streams that hold these keys.
_CLAIMED_LAST: Final = """
select q.n, c.stream_id, e.version, e.topic, e.data
  from unnest(%s::int4[], %s::uuid[], %s::int4[], %s::text[]) as q(n, merchant_id, kind, key)
  join claim c on (c.merchant_id, c.kind, c.key) = (q.merchant_id, q.kind, q.key)
 cross join lateral (select version, topic, data from event
                      where merchant_id = q.merchant_id and stream_id = c.stream_id
                      order by version desc limit 1) e
"""

# The events of some topics between two positions of a merchant's log.
_STRETCH: Final = """
select position, stream_id, version, recorded_at, command_id, topic, data, context
  from event where merchant_id = %s and position > %s and position <= %s and topic = any(%s) order by position
"""

# The events of some topics as reactions need them: between two positions of each of several logs.
_STRETCHES: Final = """
select q.n, e.position, e.stream_id, e.version, e.topic, e.data
  from unnest(%s::int4[], %s::uuid[], %s::int8[], %s::int8[]) as q(n, merchant_id, after, until)
 cross join lateral (select position, stream_id, version, topic, data from event
                      where merchant_id = q.merchant_id and position > q.after and position <= q.until
                        and topic = any(%s::text[]) order by position) e
 order by q.n, e.position
"""

# All events between two positions of a merchant's log, with everything that is stored of each.
_STRETCH_WHOLE: Final = f"""
select position, stream_id, version, recorded_at, command_id, topic, data, context
  from event where merchant_id = %s and position > %s and position <= %s and {HAS_TIME} order by position
"""  # noqa: S608 - a constant

# Parts of streams of one merchant: the events behind a version, up to a position of the log.
_PARTS: Final = """
select k.n, e.position, e.stream_id, e.version, e.topic, e.data
  from unnest(%s::int4[], %s::uuid[], %s::int4[], %s::int8[]) as k(n, o, after, until)
 cross join lateral (select position, stream_id, version, topic, data from event
                      where merchant_id = %s and stream_id = k.o and version > k.after and position <= k.until
                      order by version) e
 order by k.n, e.version
"""

# The events between two positions of a merchant's log, without those of some topics.
_STRETCH_WITHOUT: Final = """
select position, stream_id, version, command_id, topic, data
  from event where merchant_id = %s and position > %s and position <= %s and topic <> all(%s) order by position
"""

# One stream, with everything that the log stores of each event.
_HISTORY: Final = """
select position, stream_id, version, recorded_at, command_id, topic, data, context
  from event where merchant_id = %s and stream_id = %s and version > %s and version <= %s order by version
"""

_VERSION_MAX: Final = 2**31 - 1
_R = TypeVar("_R", bound=tuple[Any, ...])

# Version, topic and bytes of each event of a stream, and the keys that they need.
_Rows = list[tuple[int, str, bytes]]
_Stored = tuple[_Rows, Mapping[Owner, DataKey]]
StoredEvent = tuple[int, UUID, int, str, bytes]
"""An event as it is stored: its position, stream, version, topic and bytes."""
CommandEvent = tuple[UUID, StoredEvent]
"""The id of a command, and an event of it as it is stored."""
StreamPart = tuple[UUID, int, int]
"""A stream, the version before a part of it, and the last position of the log that the part may have."""
StreamKey = tuple[UUID, UUID]
_ReadKey = StreamKey | Owner
"""A stream, or the owner of a data key that an event in a file needs."""
ClaimKey = tuple[UUID, ClaimKind, str]
_LastKey = tuple[UUID, ClaimKind, str, None]
"""The key for reading the last event of a claim's stream; the value is a row of _CLAIMED_LAST without the number."""


class SeenEvent(Struct, frozen=True):
    """An event as a reaction sees it."""

    position: int
    stream_id: UUID
    version: int
    topic: str
    event: Any


class RecordedEvent(Struct, frozen=True):
    """An event with what the log stores beside it.

    `context` is the JSON of `journal.Context`: actor, request and causation.
    """

    position: int
    stream_id: UUID
    version: int
    recorded_at: datetime
    command_id: UUID
    topic: str
    event: Any
    context: bytes


class LoggedEvent(Struct, frozen=True):
    """An event with the bytes that the log holds. Its content is None if it cannot be read.

    `unread` is then the reason, None for an event of another application of the eventsourcing library.
    """

    recorded: RecordedEvent
    stored: bytes
    unread: str | None = None


class LogReader:
    """Point reads of the log through data loaders; stretches and histories on the caller's connection."""

    def __init__(
        self, url: str, codec: Codec, keys: DataKeys | None = None, archive: EventArchive = NO_ARCHIVE
    ) -> None:
        self._codec, self._keys, self.archive = codec, keys, archive
        self._streams = DataLoader[_ReadKey, Any](url, "ledger-streams", self._fetch)
        self._claims = DataLoader[ClaimKey | _LastKey, Any](url, "ledger-claims", _fetch_claims)

    @property
    def alive(self) -> bool:
        return self._streams.alive and self._claims.alive

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._streams.start()
        await self._claims.start()

    async def stop(self) -> None:
        await self._streams.stop()
        await self._claims.stop()

    async def stream(self, merchant_id: UUID, stream_id: UUID) -> Sequence[Any]:
        """Returns the events of a stream, oldest first; none if this merchant lacks the stream.

        Raises KeyUnavailable if this process lacks the key of a sealed event, SealBroken if the event does not
        open, ArchiveUnavailable if its content is in a file that cannot be read.
        """
        found = await self._stored_stream(merchant_id, stream_id)
        if found is None:
            return ()
        rows, keys = found
        # Opened here and not in the shared fetch: an unreadable stream must fail only the reads of itself.
        merchant, stream = merchant_id.bytes, stream_id.bytes
        return [self._event(merchant, stream, *row, keys) for row in rows]

    async def stream_from(self, merchant_id: UUID, stream_id: UUID, first: tuple[type[Struct], ...]) -> Sequence[Any]:
        """Returns the events of a stream whose first event has the type `first`; none if it has another type.

        Applications of the eventsourcing library write streams here under topics of their own. Raises like `stream`.
        """
        found = await self._stored_stream(merchant_id, stream_id)
        if found is None:
            return ()
        rows, keys = found
        merchant, stream = merchant_id.bytes, stream_id.bytes
        try:
            beginning = self._event(merchant, stream, *rows[0], keys)
        except UnknownTopic:
            return ()
        if not isinstance(beginning, first):
            return ()
        return [beginning, *[self._event(merchant, stream, *row, keys) for row in rows[1:]]]

    async def claim_owner(self, merchant_id: UUID, kind: ClaimKind, key: str) -> UUID | None:
        """Returns the stream that took a key, or None."""
        owner: UUID | None = await self._claims.get((merchant_id, kind, key))
        return owner

    async def last_event(self, merchant_id: UUID, kind: ClaimKind, key: str) -> tuple[UUID, int, Any] | None:
        """Returns the stream that took a key, with the version and the content of its last event, or None.

        For streams without personal data, whose last event has the whole state.
        """
        found = await self._claims.get((merchant_id, kind, key, None))
        if found is None:
            return None
        stream_id, version, topic, data = found
        return stream_id, version, self._codec.decode(topic, data)

    async def _stored_stream(self, merchant_id: UUID, stream_id: UUID) -> _Stored | None:
        """Returns the events of a stream with the contents of those that are archived, and their keys.

        Files are not read in the shared fetch: a store that is slow must delay only the reads of archived streams.
        """
        found: _Stored | None = await self._streams.get((merchant_id, stream_id))
        if found is None or not any(data.startswith(b"\0") for _, _, data in found[0]):
            return found
        merchant = merchant_id.bytes
        rows = await self._with_contents(merchant, found[0], 2)
        owners = _owners((merchant, data) for *_, data in rows)
        keys: list[Any] = await asyncio.gather(*[self._streams.get(owner) for owner in owners])
        return list(rows), dict(zip(owners, keys, strict=True))

    async def _fetch(self, connection: Connection, keys: Sequence[_ReadKey]) -> Mapping[_ReadKey, Any]:
        """Reads streams with one statement, and data keys with another."""
        streams = [key for key in keys if isinstance(key, tuple)]
        found: dict[_ReadKey, Any] = await self._fetch_streams(connection, streams) if streams else {}
        if len(streams) < len(keys):
            found.update((await self._each_key_of(connection, [key for key in keys if isinstance(key, bytes)])).items())
        return found

    async def _fetch_streams(self, connection: Connection, keys: Sequence[StreamKey]) -> dict[_ReadKey, Any]:
        merchants = [key[0].bytes for key in keys]
        rows, faults = await rows_of_merchants(
            connection,
            _STREAMS,
            merchants,
            lambda numbers: (
                ENCODE_ARRAY["int4"](numbers),
                ENCODE_ARRAY["uuid"]([merchants[n] for n in numbers]),
                ENCODE_ARRAY["uuid"]([keys[n][1].bytes for n in numbers]),
            ),
        )
        events: list[_Rows] = [[] for _ in keys]
        sealed = []
        for n, version, topic, data in rows:
            events[n].append((version, topic, data))
            sealed.append((merchants[n], data))
        data_keys = await self._each_key_of(connection, _owners(sealed))
        found: dict[_ReadKey, Any] = {key: (its, data_keys) for key, its in zip(keys, events, strict=True) if its}
        found |= {keys[n]: fault for n, fault in faults.items()}
        gone = {owner[:16]: key for owner, key in data_keys.items() if isinstance(key, DatabaseUnavailable)}
        return found | {key: gone[merchant] for key, merchant in zip(keys, merchants, strict=True) if merchant in gone}

    async def range(
        self, connection: Connection, merchant_id: UUID, after: int, until: int, topics: Sequence[str]
    ) -> list[RecordedEvent]:
        """Returns a merchant's events of these topics behind position `after` and up to `until`.

        Raises like `stream`.
        """
        cursor = connection.cursor(binary=True)
        rows = await cursor.execute(_STRETCH, (merchant_id, after, until, list(topics)))
        return await self._recorded(connection, merchant_id, await rows.fetchall())

    async def stored(
        self, connection: Connection, ranges: Sequence[tuple[UUID, int, int]], topics: Sequence[str]
    ) -> list[list[StoredEvent]]:
        """Returns the events of these topics in each range: a merchant, the position before the range, and the last
        position in it.

        Nothing is decoded, or read from a file. `opened` does, so that an unreadable event fails alone.
        """
        merchants = [merchant_id.bytes for merchant_id, *_ in ranges]
        of_topics = ENCODE_ARRAY["text"]([topic.encode() for topic in topics])
        rows, faults = await rows_of_merchants(
            connection,
            _STRETCHES,
            merchants,
            lambda numbers: (
                ENCODE_ARRAY["int4"](numbers),
                ENCODE_ARRAY["uuid"]([merchants[n] for n in numbers]),
                ENCODE_ARRAY["int8"]([ranges[n][1] for n in numbers]),
                ENCODE_ARRAY["int8"]([ranges[n][2] for n in numbers]),
                of_topics,
            ),
        )
        for fault in faults.values():
            raise fault
        found: list[list[StoredEvent]] = [[] for _ in ranges]
        for n, position, stream_id, version, topic, data in rows:
            found[n].append((position, stream_id, version, topic, data))
        return found

    async def stored_without(
        self, connection: Connection, merchant_id: UUID, after: int, until: int, topics: Sequence[str]
    ) -> list[CommandEvent]:
        """Returns a merchant's events behind position `after` and up to `until` whose topic is none of these.

        Topics that this release does not know are among them. Nothing is decoded.
        """
        cursor = connection.cursor(binary=True)
        rows = await cursor.execute(_STRETCH_WITHOUT, (merchant_id, after, until, list(topics)))
        return [
            (command_id, (position, stream_id, version, topic, data))
            for position, stream_id, version, command_id, topic, data in await rows.fetchall()
        ]

    async def stored_parts(
        self, connection: Connection, merchant_id: UUID, parts: Sequence[StreamPart]
    ) -> list[list[StoredEvent]]:
        """Returns the events of each part of a merchant's streams, oldest first. Nothing is decoded."""
        streams, after, until = zip(*parts, strict=True)
        rows = await connection.cursor(binary=True).execute(
            _PARTS,
            (
                ENCODE_ARRAY["int4"](range(len(parts))),
                ENCODE_ARRAY["uuid"]([stream_id.bytes for stream_id in streams]),
                ENCODE_ARRAY["int4"](after),
                ENCODE_ARRAY["int8"](until),
                merchant_id,
            ),
        )
        found: list[list[StoredEvent]] = [[] for _ in parts]
        for n, *event in await rows.fetchall():
            found[n].append(tuple(event))
        return found

    async def opened(
        self,
        connection: Connection,
        merchant_id: UUID,
        stored: Sequence[StoredEvent],
        *,
        uses_cached_keys: bool = True,
    ) -> list[SeenEvent]:
        """Returns the content of stored events of a merchant. Raises like `stream`.

        A key that this process has cached may have been destroyed by another one: without `uses_cached_keys`, what is
        returned has no person who was erased before.
        """
        merchant = merchant_id.bytes
        stored = await self._with_contents(merchant, stored, 4)
        sealed = ((merchant, data) for *_, data in stored)
        keys = await self._data_keys(connection, sealed, uses_cached=uses_cached_keys)
        return [
            SeenEvent(position, stream, version, topic, self._event(merchant, stream.bytes, version, topic, data, keys))
            for position, stream, version, topic, data in stored
        ]

    async def history(
        self,
        connection: Connection,
        merchant_id: UUID,
        stream_id: UUID,
        after: int = 0,
        until: int = _VERSION_MAX,
        *,
        uses_cached_keys: bool = True,
    ) -> list[RecordedEvent]:
        """Returns a stream's events behind version `after` and up to `until` with what the log stores beside them,
        oldest first. Raises like `opened`.
        """
        cursor = await connection.cursor(binary=True).execute(_HISTORY, (merchant_id, stream_id, after, until))
        rows = await cursor.fetchall()
        return await self._recorded(connection, merchant_id, rows, uses_cached_keys=uses_cached_keys)

    async def logged(self, connection: Connection, merchant_id: UUID, after: int, until: int) -> list[LoggedEvent]:
        """Returns all events of a merchant behind position `after` and up to `until`, without those who were erased.

        An event that cannot be read is one of them, and stops nothing; one without a time is left out.
        """
        cursor = await connection.cursor(binary=True).execute(_STRETCH_WHOLE, (merchant_id, after, until))
        merchant = merchant_id.bytes
        rows = await self._with_contents(merchant, await cursor.fetchall(), 6)
        keys = await self._data_keys(connection, ((merchant, row[6]) for row in rows), uses_cached=False)
        logged = []
        for position, stream_id, version, recorded_at, command_id, topic, data, context in rows:
            event, unread = None, None
            try:
                event = self._event(merchant, stream_id.bytes, version, topic, data, keys)
            except UnknownTopic:
                pass
            except (KeyUnavailable, SealBroken, ArchiveUnavailable) as fault:
                unread = str(fault)
            except MsgspecError:
                unread = "it is not in the form of its topic"
            recorded = RecordedEvent(position, stream_id, version, recorded_at, command_id, topic, event, context)
            logged.append(LoggedEvent(recorded, data, unread))
        return logged

    async def _recorded(
        self,
        connection: Connection,
        merchant_id: UUID,
        rows: Sequence[tuple[Any, ...]],
        *,
        uses_cached_keys: bool = True,
    ) -> list[RecordedEvent]:
        merchant = merchant_id.bytes
        rows = await self._with_contents(merchant, rows, 6)
        sealed = ((merchant, row[6]) for row in rows)
        keys = await self._data_keys(connection, sealed, uses_cached=uses_cached_keys)
        recorded = []
        for position, stream_id, version, recorded_at, command_id, topic, data, context in rows:
            event = self._event(merchant, stream_id.bytes, version, topic, data, keys)
            recorded.append(RecordedEvent(position, stream_id, version, recorded_at, command_id, topic, event, context))
        return recorded

    async def _contents(self, events: Iterable[Stored]) -> Mapping[Stored, bytes]:
        """Returns the contents of those events that are archived and can be read."""
        archived = [event for event in events if event[1].startswith(b"\0")]
        return await self.archive.contents(archived) if archived else {}

    async def _with_contents(self, merchant: bytes, rows: Sequence[_R], column: int) -> Sequence[_R]:
        """Returns rows of a merchant's events with the contents, in this column, of those that are archived."""
        contents = await self._contents((merchant, row[column]) for row in rows)
        if not contents:
            return rows
        content_of = {data: content for (_, data), content in contents.items()}
        return cast(
            "list[_R]",
            [(*row[:column], content_of.get(row[column], row[column]), *row[column + 1 :]) for row in rows],
        )

    async def _data_keys(
        self, connection: Connection, stored: Iterable[tuple[bytes, bytes]], *, uses_cached: bool = True
    ) -> Mapping[Owner, DataKey]:
        """Returns the data keys under which these events, each with its merchant's id in bytes, are sealed."""
        return await self._keys_of(connection, _owners(stored), uses_cached=uses_cached)

    async def _keys_of(
        self, connection: Connection, owners: Collection[Owner], *, uses_cached: bool = True
    ) -> Mapping[Owner, DataKey]:
        if not owners:
            return {}
        assert self._keys is not None, "a reader of sealed events needs data keys: pass `keys`"
        return await self._keys.for_opening(connection, owners, uses_cached=uses_cached)

    async def _each_key_of(
        self, connection: Connection, owners: Collection[Owner]
    ) -> Mapping[Owner, DataKey | DatabaseUnavailable]:
        """Returns what `_keys_of` does, with the fault of each owner whose node cannot be reached."""
        if not owners:
            return {}
        assert self._keys is not None, "a reader of sealed events needs data keys: pass `keys`"
        return await self._keys.each_for_opening(connection, owners)

    def _event(
        self, merchant: bytes, stream: bytes, version: int, topic: str, data: bytes, keys: Mapping[Owner, DataKey]
    ) -> Any:
        if (reference := reference_in(data)) is not None:
            raise unreadable(merchant, reference)
        try:
            customer_id = customer_of(data)
        except SealBroken:
            note_unopened("event", "broken")
            raise
        if customer_id is not None and (seal := keys[merchant + customer_id].seal(stream)) is not None:
            data = seal.opened(topic.encode(), version, data)
        return self._codec.decode(topic, data)


def _owners(stored: Iterable[tuple[bytes, bytes]]) -> set[Owner]:
    """Returns the owners of the data keys under which events, each with its merchant's id in bytes, are sealed."""
    owners = set()
    for merchant, data in stored:
        try:
            customer_id = customer_of(data)
        except SealBroken:  # raised again where this event is decoded
            continue
        if customer_id is not None:
            owners.add(merchant + customer_id)
    return owners


async def _fetch_claims(
    connection: Connection, keys: Sequence[ClaimKey | _LastKey]
) -> Mapping[ClaimKey | _LastKey, Any]:
    """Looks up the owners of claims, and the last events of owners, with one statement for each kind of key."""
    owners = [key for key in keys if len(key) == 3]
    lasts = [key for key in keys if len(key) == 4]
    found: dict[ClaimKey | _LastKey, Any] = {}
    if owners:
        rows, faults = await _claim_rows(connection, _CLAIMS, owners)
        found |= {owners[n]: owner for n, owner in rows} | {owners[n]: fault for n, fault in faults.items()}
    if lasts:
        rows, faults = await _claim_rows(connection, _CLAIMED_LAST, lasts)
        found |= {lasts[n]: event for n, *event in rows} | {lasts[n]: fault for n, fault in faults.items()}
    return found


async def _claim_rows(
    connection: Connection, statement: str, keys: Sequence[ClaimKey | _LastKey]
) -> tuple[Sequence[tuple[Any, ...]], Mapping[int, DatabaseUnavailable]]:
    """Returns the rows of a statement about claims, like `rows_of_merchants`."""

    def parameters(numbers: Sequence[int]) -> Sequence[bytes]:
        some = [keys[n] for n in numbers]
        return (
            ENCODE_ARRAY["int4"](numbers),
            ENCODE_ARRAY["uuid"]([key[0].bytes for key in some]),
            ENCODE_ARRAY["int4"]([key[1] for key in some]),
            ENCODE_ARRAY["text"]([key[2].encode() for key in some]),
        )

    return await rows_of_merchants(connection, statement, [key[0].bytes for key in keys], parameters)
