"""The numbers of merchants' public events: 1, 2, 3 … in the order of each one's log.

The log alone decides which number an event has, and a number that was sent never changes: the statement that inserts
numbers moves the cursor, if no other process has moved it, and waits for the disk. Read nothing in it but the log.
A merchant without a row in `event_feed` is not numbered.

Another process may number the same events at the same time. The first one counts, and the other's work is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from heapq import merge
from itertools import groupby, islice
from typing import Any, Final
from uuid import UUID

import psycopg
from msgspec import Struct

from ledger.background.reactions.quarantine import UNREADABLE, Quarantine
from ledger.domain.public_events.announcing import public_events
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.streams import (
    CUSTOMERS,
    ORDERS,
    PAYMENT_METHODS,
    PLANS,
    PRODUCTS,
    STREAMS,
    SUBSCRIPTIONS,
    WEBHOOK_ENDPOINTS,
    Stream,
)
from ledger.journal.codec import UnknownTopic
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent, StoredEvent
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection
from ledger.postgres.faults import Fault
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.ttl_cache import TtlCache

NAME: Final = "public-events"
"""The name under which merchants are in quarantine here."""

_OF_ONE_LOG: Final = (*UNREADABLE, psycopg.IntegrityError)
"""Faults of one merchant's log alone: it cannot be read, or the database refuses a row that follows from it."""

_EVENTS_AT_ONCE: Final = 500
"""The events of a slice, which ends with a whole command."""
_STREAMS_AT_ONCE: Final = 200
"""Of how many streams the states are held at once. A command may change more."""
_PIECE: Final = 100
"""How many events are opened before other work of the process has its turn."""
_STATES_MAX: Final = 500
_STATES_S: Final = 60.0
_BEHIND_MAX: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

_SHOWN: Final = (ORDERS, CUSTOMERS, PAYMENT_METHODS, PLANS, PRODUCTS, SUBSCRIPTIONS, WEBHOOK_ENDPOINTS)
"""The kinds of streams that have public events."""
_KIND_OF_TOPIC: Final[Mapping[str, Stream[Any]]] = {topic: kind for kind in _SHOWN for topic in kind.topics}
_FIRST_TOPICS: Final = frozenset(
    topic for kind in _SHOWN for topic, event in kind.topics.items() if event in kind.first
)
_HIDDEN_TOPICS: Final = sorted(topic for kind in STREAMS if kind not in _SHOWN for topic in kind.topics)

# Merchants whose log goes on after what is numbered, those that began first before the others; without those in
# quarantine.
_BEHIND: Final = """
select f.merchant_id, f.since from event_feed f join merchant_head h using (merchant_id)
 where h.position > f.position and f.merchant_id <> all(%(quarantined)s)
 order by f.since, f.merchant_id limit %(limit)s
"""

# Those of these merchants that are numbered, those that began first before the others, each with how many events its
# log has after what is numbered.
_NUMBERED: Final = """
select f.merchant_id, h.position - f.position from event_feed f join merchant_head h using (merchant_id)
 where f.merchant_id = any(%s) order by f.since, f.merchant_id
"""

# How far a merchant's log is numbered, the last number, and where the log ends.
_PLACE: Final = """
select f.position, f.sequence, h.position from event_feed f join merchant_head h using (merchant_id)
 where f.merchant_id = %s
"""

# The end of the command that has an event at this position.
_END: Final = """
select coalesce(
  (select position - 1 from event
    where merchant_id = %(merchant_id)s and position > %(until)s and command_id <> c.command_id
    order by position limit 1),
  (select position from merchant_head where merchant_id = %(merchant_id)s))
  from event c where merchant_id = %(merchant_id)s and position = %(until)s
"""

# The topics with which these streams begin.
_BEGINNINGS: Final = """
select k.o, e.topic from unnest(%s::uuid[]) as k(o)
 cross join lateral (select topic from event where merchant_id = %s and stream_id = k.o order by version limit 1) e
"""

# Moves the cursor if no other process has moved it since it was read, and inserts the numbers of what lies between. The
# commit waits for the disk, whatever the settings of the connection are.
_NUMBER: Final = """
with moved as (
  update event_feed set position = %(until)s, sequence = sequence + %(count)s
    from (select set_config('synchronous_commit', 'on', true)) as durable
   where merchant_id = %(merchant_id)s and position = %(after)s and sequence = %(sequence)s returning merchant_id),
numbered as (
  insert into public_event (merchant_id, sequence, id, kind, resource_id, stream_id, version, position, until_position,
                            payment_id, refund_id, dispute_id, document_id, previous_status, at)
  select m.merchant_id, n.* from moved m cross join unnest(
    %(sequences)s::int8[], %(ids)s::uuid[], %(kinds)s::text[], %(resources)s::uuid[], %(streams)s::uuid[],
    %(versions)s::int4[], %(positions)s::int8[], %(ends)s::int8[], %(payments)s::uuid[], %(refunds)s::uuid[],
    %(disputes)s::text[], %(documents)s::uuid[], %(statuses)s::text[], %(times)s::timestamptz[]) as n)
select true from moved
"""

# Leaves out the numbers that may have been sent after the moment of a restored copy, by the clock: a second restore of
# the same backup leaves out more. A feed that began after that moment begins behind them too.
_MOVE_ON: Final = """
update event_numbers set behind = greatest(
    behind, %(last)s,
    floor(extract(epoch from clock_timestamp() - timestamptz '2026-01-01Z') * %(per_second)s)::int8) + %(skipped)s
returning behind
"""
_LAST_NUMBER: Final = "select coalesce(max(sequence), 0) from event_feed"
_BEGIN_BEHIND: Final = "update event_feed set sequence = %s"
_NUMBERS_PER_SECOND: Final = 1_000_000
"""More than can be numbered in a second, also of a long past whose feed has just begun: a backup may be restored twice
within minutes. The numbers stay exact in JSON until the year 2311.
"""
_SKIPPED: Final = 1_000_000
"""How many numbers are left out if the machine's clock is behind."""


class Standing(Struct, frozen=True):
    """Merchants that are numbered, by what their logs have without a number: at most a slice (`near`), more (`far`), or
    nothing that is to be numbered now (`others`), because it has numbers or they are in quarantine.
    """

    near: Sequence[UUID]
    far: Sequence[UUID]
    others: Sequence[UUID]


class _Command(Struct, frozen=True):
    """The events of a command of streams that have public events, and the last position among them."""

    until: int
    events: Sequence[StoredEvent]


class _Announced(Struct, frozen=True):
    """A public event, its time by the merchant's clock, and the last position of its command."""

    event: PublicEvent
    at: datetime
    until: int


class _Place(Struct, frozen=True):
    """How far a merchant's log is numbered, the last number, and where the log ends."""

    position: int
    sequence: int
    head: int


def is_far(events: int) -> bool:
    """Returns whether so many events without numbers are more than a slice."""
    return events > _EVENTS_AT_ONCE


class EventNumbers:
    """One process's share of the numbering. `numbered` counts the public events that it has numbered.

    `url` names the database of the connections that the methods take. `quarantine` holds the merchants whose log cannot
    be read now. Call `stop` at the end.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._reader, self._slices = journal.reader, journal.slices
        self._transactions = MerchantTransactions(url, "ledger-numbering")
        # What is kept is never shown, and is gone within a minute.
        self._states = TtlCache[tuple[UUID, UUID], tuple[int, Any]](_STATES_MAX, _STATES_S)
        self.quarantine = Quarantine()
        self.numbered = 0

    async def stop(self) -> None:
        """Disconnects from the nodes of Citus."""
        await self._transactions.stop()

    async def sweep(self, connection: Connection, merchants: Sequence[UUID] | None = None) -> bool:
        """Numbers a slice of each of these merchants, or of all, that have new events. Returns whether any had some.

        A merchant whose log cannot be read or numbered is put in quarantine. The connection is in autocommit. Raises
        psycopg.Error, a Fault.
        """
        if merchants is None:
            behind = await self.behind(connection)
        else:
            standing = await self.among(connection, merchants)
            behind = (*standing.near, *standing.far)
        for merchant_id in behind:
            await self.advance(connection, merchant_id)
        return bool(behind)

    async def behind(self, connection: Connection) -> Sequence[UUID]:
        """Returns merchants that have events without a number, without those in quarantine and those on a node of Citus
        that is down. Raises psycopg.Error.

        Ends the quarantine of those whose events another process has numbered.
        """
        quarantined = [merchant_id for _, merchant_id in self.quarantine.now()]
        values = {"quarantined": quarantined, "limit": _BEHIND_MAX}
        behind = await self._transactions.read_all(connection, _BEHIND, values)
        first = merge(*behind.groups, key=lambda row: (row[1], row[0]))
        found = [merchant_id for merchant_id, _ in islice(first, _BEHIND_MAX)]
        if behind.is_whole and len(found) < _BEHIND_MAX:
            self.quarantine.keep_only([(NAME, merchant_id) for merchant_id in (*quarantined, *found)])
        return found

    async def among(self, connection: Connection, merchants: Sequence[UUID]) -> Standing:
        """Returns how far those of these merchants are that are numbered. Raises psycopg.Error.

        Those that are not numbered, because they have no endpoint and never read the feed, cost nothing further.
        """
        rows = await (await connection.execute(_NUMBERED, (merchants,))).fetchall()
        near: list[UUID] = []
        far: list[UUID] = []
        others: list[UUID] = []
        for merchant_id, events in rows:
            if events == 0 or self.is_quarantined(merchant_id):
                others.append(merchant_id)
            elif is_far(events):
                far.append(merchant_id)
            else:
                near.append(merchant_id)
        return Standing(near, far, others)

    def is_quarantined(self, merchant_id: UUID) -> bool:
        """Returns whether a merchant's log could not be read, and is not to be read again yet."""
        return (NAME, merchant_id) in self.quarantine.now()

    async def advance(self, connection: Connection, merchant_id: UUID) -> bool:
        """Numbers the next slice of a merchant's log, if there is one. Returns whether the log went on behind it.

        If it cannot be read or numbered, the merchant is in quarantine then. Raises psycopg.Error, a Fault.
        """
        try:
            goes_on = await self._advance(connection, merchant_id)
        except Exception as fault:
            if isinstance(fault, psycopg.Error | Fault) and not isinstance(fault, _OF_ONE_LOG):
                raise  # the database's
            self.quarantine.add(NAME, merchant_id, fault)
            return False
        self.quarantine.release(NAME, merchant_id)
        return goes_on

    async def _advance(self, connection: Connection, merchant_id: UUID) -> bool:
        row = await (await connection.execute(_PLACE, (merchant_id,))).fetchone()
        if row is None or row[0] >= row[2]:
            return False
        place = _Place(*row)
        until = await self._end(connection, merchant_id, place)
        announced: list[_Announced] = []
        for commands in _in_pieces(await self._commands(connection, merchant_id, place.position, until)):
            announced += await self._announced(connection, merchant_id, commands)
        values = _numbers(merchant_id, place, until, announced)
        moved = await self._transactions.execute(connection, merchant_id, _NUMBER, values)
        if await moved.fetchone() is not None:  # no other process has moved it before
            self.numbered += len(announced)
        return until < place.head

    async def _end(self, connection: Connection, merchant_id: UUID, place: _Place) -> int:
        """Returns the end of the next slice, with which a command ends."""
        until = min(place.head, place.position + _EVENTS_AT_ONCE)
        row = await (await connection.execute(_END, {"merchant_id": merchant_id, "until": until})).fetchone()
        assert row is not None, "positions have no gap"
        end: int = row[0]
        return end

    async def _commands(self, connection: Connection, merchant_id: UUID, after: int, until: int) -> list[_Command]:
        """Returns the commands between two positions, each with its events of streams that have public events."""
        stored = await self._reader.stored_without(connection, merchant_id, after, until, _HIDDEN_TOPICS)
        unknown = {event[1]: event[3] for _, event in stored if event[3] not in _KIND_OF_TOPIC}
        if unknown:
            await self._require_foreign(connection, merchant_id, unknown)
        by_command = groupby(stored, key=lambda each: each[0])
        commands = [[event for _, event in group if event[1] not in unknown] for _, group in by_command]
        return [_Command(command[-1][0], command) for command in commands if command]

    async def _require_foreign(self, connection: Connection, merchant_id: UUID, unknown: Mapping[UUID, str]) -> None:
        """Raises UnknownTopic if a stream that has public events has a topic of a newer release."""
        streams = ENCODE_ARRAY["uuid"]([stream_id.bytes for stream_id in unknown])
        rows = await connection.execute(_BEGINNINGS, (streams, merchant_id))
        for stream_id, first in await rows.fetchall():
            if first in _FIRST_TOPICS:
                raise UnknownTopic(unknown[stream_id])

    async def _announced(
        self, connection: Connection, merchant_id: UUID, commands: Sequence[_Command]
    ) -> list[_Announced]:
        """Returns the public events of commands that follow one another, or of a part of one."""
        states = await self._states_before(connection, merchant_id, commands)
        events = [event for command in commands for event in command.events]
        opened = iter(await self._opened(connection, merchant_id, events))
        found: list[_Announced] = []
        async with self._slices.work() as work:
            for command in commands:
                of_command = list(islice(opened, len(command.events)))
                times = {event.position: event.event.at for event in of_command}
                announced = public_events(_streams(of_command, states))
                found += [_Announced(event, times[event.position], command.until) for event in announced]
                await work.end_piece()
        for stream_id, state in states.items():
            self._states.put((merchant_id, stream_id), state)
        return found

    async def _states_before(
        self, connection: Connection, merchant_id: UUID, commands: Sequence[_Command]
    ) -> dict[UUID, tuple[int, Any]]:
        """Returns the version and the state of each stream of the commands before the first of them."""
        first: dict[UUID, tuple[int, int]] = {}
        for position, stream_id, version, *_ in (event for command in commands for event in command.events):
            first.setdefault(stream_id, (version, position))
        states: dict[UUID, tuple[int, Any]] = {}
        parts = []
        for stream_id, (version, position) in first.items():
            known = self._states.get((merchant_id, stream_id)) or (0, None)
            states[stream_id] = known if known[0] < version else (0, None)
            if states[stream_id][0] < version - 1:
                parts.append((stream_id, states[stream_id][0], position - 1))
        if parts:
            for (stream_id, *_), events in zip(
                parts, await self._reader.stored_parts(connection, merchant_id, parts), strict=True
            ):
                for event in await self._opened(connection, merchant_id, events):
                    states[stream_id] = event.version, _folded(states[stream_id][1], event)
        return states

    async def _opened(
        self, connection: Connection, merchant_id: UUID, stored: Sequence[StoredEvent]
    ) -> Sequence[SeenEvent]:
        """Returns the content of events, and lets other work of the process go on between pieces of them."""
        opened: list[SeenEvent] = []
        for n in range(0, len(stored), _PIECE):
            opened += await self._reader.opened(connection, merchant_id, stored[n : n + _PIECE])
            await asyncio.sleep(0)
        return opened


def _in_pieces(commands: Iterable[_Command]) -> Iterator[Sequence[_Command]]:
    """Yields commands that follow one another, so many that their streams are held at once.

    A command that changes more streams is cut between them: what is announced of a stream follows from that stream.
    """
    piece: list[_Command] = []
    held: set[UUID] = set()
    for command in commands:
        touched = dict.fromkeys(event[1] for event in command.events)
        if piece and len(held.union(touched)) > _STREAMS_AT_ONCE:
            yield piece
            piece, held = [], set()
        if len(touched) > _STREAMS_AT_ONCE:
            streams = list(touched)
            for n in range(0, len(streams), _STREAMS_AT_ONCE):
                some = set(streams[n : n + _STREAMS_AT_ONCE])
                yield [_Command(command.until, [event for event in command.events if event[1] in some])]
            continue
        piece.append(command)
        held.update(touched)
    if piece:
        yield piece


def _streams(opened: Sequence[SeenEvent], states: dict[UUID, tuple[int, Any]]) -> list[CommandStream]:
    """Returns the streams of a command with their states before and after it, and moves `states` on."""
    by_stream: dict[UUID, list[SeenEvent]] = {}
    for event in opened:
        by_stream.setdefault(event.stream_id, []).append(event)
    streams = []
    for stream_id, events in by_stream.items():
        version, before = states[stream_id]
        after = before
        for event in events:
            assert event.version == version + 1, f"stream {stream_id} lacks version {version + 1}"
            version, after = event.version, _folded(after, event)
        states[stream_id] = version, after
        streams.append(CommandStream(stream_id, before, after, events))
    return streams


def _folded(state: Any, event: SeenEvent) -> Any:
    return _KIND_OF_TOPIC[event.topic].evolve(state, event.event)


def _numbers(merchant_id: UUID, place: _Place, until: int, announced: Sequence[_Announced]) -> Mapping[str, Any]:
    """Returns the parameters of _NUMBER, which numbers these events and moves the cursor to `until`."""
    events = [each.event for each in announced]
    return {
        "merchant_id": merchant_id,
        "after": place.position,
        "sequence": place.sequence,
        "until": until,
        "count": len(events),
        "sequences": ENCODE_ARRAY["int8"](range(place.sequence + 1, place.sequence + len(events) + 1)),
        "ids": _uuids([_id(merchant_id, each) for each in announced]),
        "kinds": ENCODE_ARRAY["text"]([event.kind.name.encode() for event in events]),
        "resources": _uuids([event.resource_id for event in events]),
        "streams": _uuids([event.stream_id for event in events]),
        "versions": ENCODE_ARRAY["int4"]([event.version for event in events]),
        "positions": ENCODE_ARRAY["int8"]([event.position for event in events]),
        "ends": ENCODE_ARRAY["int8"]([each.until for each in announced]),
        "payments": _uuids([event.subject.payment_id for event in events]),
        "refunds": _uuids([event.subject.refund_id for event in events]),
        "disputes": ENCODE_ARRAY["text"]([_bytes(event.subject.dispute_id) for event in events]),
        "documents": _uuids([event.subject.document_id for event in events]),
        "statuses": ENCODE_ARRAY["text"]([_bytes(event.previous_status) for event in events]),
        "times": [each.at for each in announced],
    }


def _uuids(ids: Iterable[UUID | None]) -> Array:
    return ENCODE_ARRAY["uuid"]([None if each is None else each.bytes for each in ids])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _id(merchant_id: UUID, announced: _Announced) -> UUID:
    event = announced.event
    return event_id(merchant_id, event.position, event.kind.name, event.resource_id, announced.at)


def event_id(merchant_id: UUID, position: int, kind: str, resource_id: UUID, at: datetime) -> UUID:
    """Returns the UUIDv7 of a public event, the same whenever it is made again: its time by the merchant's clock, and a
    hash of what identifies it.
    """
    digest = sha256(merchant_id.bytes + position.to_bytes(8, "big") + kind.encode() + resource_id.bytes).digest()
    hashed = int.from_bytes(digest[:10], "big")
    milliseconds = (at - _EPOCH) // _MILLISECOND & (1 << 48) - 1
    value = milliseconds << 80 | 0x7 << 76 | (hashed >> 62 & 0xFFF) << 64 | 0b10 << 62 | hashed & (1 << 62) - 1
    return UUID(int=value)


def move_on(connection: psycopg.Connection) -> None:
    """Leaves out the numbers that may have been sent after the moment of a restored copy, of every merchant."""
    with connection.transaction():
        last = connection.execute(_LAST_NUMBER).fetchone()
        assert last is not None, "an aggregate has one row"
        values = {"last": last[0], "per_second": _NUMBERS_PER_SECOND, "skipped": _SKIPPED}
        behind = connection.execute(_MOVE_ON, values).fetchone()
        assert behind is not None, "the installation has its row"
        connection.execute(_BEGIN_BEHIND, behind)
