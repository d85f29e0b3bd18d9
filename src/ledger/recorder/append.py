"""Events of the library, appended as the journal appends its own: same locks, same whole check, same numbering.

The rule a stranger would break: lock, check and commit go to the server in one piece. A client that is stopped between
them would hold the merchant's head, and with it the merchant's payments.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
import psycopg
from eventsourcing.persistence import DataError, IntegrityError, ProgrammingError, StoredEvent
from psycopg import RawCursor

from ledger.journal.append import Append, EncodedEvent, StreamWrite
from ledger.journal.codec import TOPICS, postgres_micros
from ledger.journal.commit.statement import (
    LOCK_HEADS,
    LOST_MERCHANT,
    WAKE_FOLLOWERS,
    append_parameters,
    append_statement,
    lock_parameters,
)
from ledger.journal.journal import Context
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.recorder.datastore import Connection

_APPEND: Final = append_statement(())
_CONTEXT: Final = msgspec.json.encode(Context(request="eventsourcing"))
_VERSION_MAX: Final = 2**31 - 1

# Whether one of these streams began with an event of the ledger's own. How a stream began never changes.
_BEGUN_BY_LEDGER: Final = """
select stream_id from event
 where merchant_id = %s and stream_id = any(%s) and version = 1 and topic = any(%s) limit 1
"""

Further = tuple[str, Sequence[Any]]
"""A statement, with `$n` for its values, that belongs to the same commit. It has to fail, or to do nothing, where the
events were not written."""


class Command:
    """What one call of `insert_events` appends, all or nothing.

    Events are numbered stream by stream, so that each stream's are together; streams in the order of their last event in
    `stored_events`, so that the last event of the call has the highest position. Raises DataError, IntegrityError.
    """

    def __init__(self, merchant_id: UUID, stored_events: Sequence[StoredEvent]) -> None:
        self.command_id = uuid4()
        self.places: list[int] = []
        streams: dict[UUID, list[int]] = {}
        for place, event in enumerate(stored_events):
            stream_id = _stream_id(event)
            places = streams.pop(stream_id, [])
            places.append(place)
            streams[stream_id] = places
        now = postgres_micros(datetime.now(UTC))
        writes = []
        for stream_id, places in streams.items():
            self.places += places
            writes.append(_write(stream_id, [stored_events[place] for place in places], now))
        self.stream_ids = list(streams)
        self.last = stored_events[self.places[-1]]
        self.append = Append(merchant_id.bytes, self.command_id.bytes, _CONTEXT, writes, (), {})


def append(
    connection: Connection, merchant_id: UUID, command: Command, further: Sequence[Further] = ()
) -> Sequence[int]:
    """Append the command's events; their positions, in the order in which the events were given.

    Raises IntegrityError: a stream has moved on, or `further` said so. ProgrammingError: the merchant has no log, or the
    stream or topic is the ledger's. DataError. psycopg.OperationalError: what became of it is unknown unless the server
    says; whoever wants to try again loads again.
    """
    _refuse_the_ledgers(connection, merchant_id, command)
    lock: RawCursor[tuple[Any, ...]] = RawCursor(connection)
    cursor: RawCursor[tuple[Any, ...]] = RawCursor(connection)
    with connection.pipeline():  # one implicit transaction, which ends on the server whatever becomes of us
        lock.execute(LOCK_HEADS, lock_parameters([command.append]), prepare=True, binary=True)
        cursor.execute(_APPEND, append_parameters([command.append], ()), prepare=True, binary=True)
        for query, values in further:
            RawCursor(connection).execute(query, values)
    positions = _positions(merchant_id, command, cursor.fetchall())
    _wake([follower for (follower,) in lock.fetchall() if follower is not None], connection)
    return positions


def _positions(merchant_id: UUID, command: Command, verdict: Sequence[tuple[Any, ...]]) -> Sequence[int]:
    _, last, why, which = verdict[0]
    if why == LOST_MERCHANT:
        raise ProgrammingError(f"merchant {merchant_id} has no log in this database")
    if last is None:
        raise IntegrityError(f"stream {command.stream_ids[which]} has moved on, or lacks the version before")
    positions = [0] * len(command.places)
    for position, place in enumerate(command.places, last - len(command.places) + 1):
        positions[place] = position
    return positions


def _stream_id(event: StoredEvent) -> UUID:
    if not isinstance(event.originator_id, UUID):
        raise DataError("streams have UUIDs here: declare the aggregate with UUID")
    if event.topic in TOPICS:
        raise ProgrammingError(f"{event.topic} is the ledger's own: only the journal appends it, with its read models")
    return event.originator_id


def _write(stream_id: UUID, events: Sequence[StoredEvent], recorded_at: int) -> StreamWrite:
    first = events[0].originator_version
    if not 0 <= first <= _VERSION_MAX - len(events):
        raise DataError(f"{first} is no version")
    if [event.originator_version for event in events] != list(range(first, first + len(events))):
        raise IntegrityError(f"the versions of stream {stream_id} do not follow one another")
    encoded = [EncodedEvent(event.topic.encode(), event.state, recorded_at) for event in events]
    return StreamWrite(stream_id.bytes, first - 1, encoded)


def _refuse_the_ledgers(connection: Connection, merchant_id: UUID, command: Command) -> None:
    """A stream of the ledger's with an event that the ledger cannot read would be lost to it."""
    values = (merchant_id, command.stream_ids, list(TOPICS))
    row = connection.execute(_BEGUN_BY_LEDGER, values, prepare=True).fetchone()
    if row is not None:
        raise ProgrammingError(f"stream {row[0]} is the ledger's own: only the journal appends to it")


def _wake(followed: Sequence[UUID], connection: Connection) -> None:
    if followed:
        with suppress(psycopg.Error):  # followers look by themselves too
            merchants = ENCODE_ARRAY["uuid"]([merchant.bytes for merchant in followed])
            RawCursor(connection).execute(WAKE_FOLLOWERS, (merchants,), prepare=True, binary=True)
