"""Appends the library's events as the journal appends its own, by the same locks, check and numbering.

Send lock, check and commit to the server in one piece. A client that is stopped between them would keep the merchant's
head locked, and with it the merchant's payments.
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

from ledger.domain.streams import TOPICS
from ledger.journal.append import Append, EncodedEvent, StreamWrite
from ledger.journal.codec import postgres_micros
from ledger.journal.commit.append_statement import (
    LOCK_HEADS,
    LOST_MERCHANT,
    WAKE_FOLLOWERS,
    append_parameters,
    build_statement,
    lock_parameters,
)
from ledger.journal.journal import Context
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.recorder.datastore import Commanded, Connection, Store

_APPEND: Final = build_statement(())
_CONTEXT: Final = msgspec.json.encode(Context(request="eventsourcing"))
VERSION_MAX: Final = 2**31 - 1
"""The highest version that the column holds."""

# One of these streams that began with an event of the ledger, if any. How a stream began never changes.
_BEGUN_BY_LEDGER: Final = """
select stream_id from event
 where merchant_id = %s and stream_id = any(%s) and version = 1 and topic = any(%s) limit 1
"""


class Command:
    """The events of one call of `insert_events`, which are appended all or not at all.

    Positions are given stream by stream, so that the events of a stream are consecutive. The streams are in the order
    of their last event in `stored_events`, so that the last event of the call has the highest position. Raises
    DataError, IntegrityError, and ProgrammingError for an event of the ledger.
    """

    def __init__(self, merchant_id: UUID, stored_events: Sequence[StoredEvent]) -> None:
        self.command_id = uuid4()
        self.indexes: list[int] = []  # into `stored_events`, in the order of positions
        streams: dict[UUID, list[int]] = {}
        for index, event in enumerate(stored_events):
            stream_id = _stream_id(event)
            indexes = streams.pop(stream_id, [])  # a stream moves behind the others with each of its events
            indexes.append(index)
            streams[stream_id] = indexes
        now = postgres_micros(datetime.now(UTC))
        writes = []
        for stream_id, indexes in streams.items():
            self.indexes += indexes
            writes.append(_write(stream_id, [stored_events[index] for index in indexes], now))
        self.stream_ids = list(streams)
        self.last = stored_events[self.indexes[-1]]
        self.append = Append(merchant_id.bytes, self.command_id.bytes, _CONTEXT, writes, (), {})


def append(store: Store, connection: Connection, command: Command, further: Sequence[Commanded] = ()) -> Sequence[int]:
    """Appends the command's events and returns their positions, in the order in which the events were given.

    `connection` is one of the store. Raises IntegrityError: a stream has a newer version, or a statement of `further`
    raised it. ProgrammingError: the merchant has no log, or a stream is the ledger's. DataError.
    psycopg.OperationalError: unless it is the server's error, the commit is unknown; before another try, the caller
    has to load again.
    """
    _require_no_ledger_stream(connection, store.merchant_id, command)
    lock = LOCK_HEADS, lock_parameters([command.append])
    appended = _APPEND, append_parameters([command.append], ())
    heads, outcomes, *_ = store.commit(connection, [lock, appended, *further])
    positions = _positions(store.merchant_id, command, outcomes)
    _wake([follower for (follower,) in heads if follower is not None], connection)
    return positions


def _positions(merchant_id: UUID, command: Command, outcomes: Sequence[tuple[Any, ...]]) -> Sequence[int]:
    _, last, reason, stream = outcomes[0]
    if reason == LOST_MERCHANT:
        raise ProgrammingError(f"merchant {merchant_id} has no log in this database")
    if last is None:
        raise IntegrityError(f"stream {command.stream_ids[stream]} has a newer version, or lacks the version before")
    positions = [0] * len(command.indexes)
    for position, index in enumerate(command.indexes, last - len(command.indexes) + 1):
        positions[index] = position
    return positions


def _stream_id(event: StoredEvent) -> UUID:
    if not isinstance(event.originator_id, UUID):
        raise DataError(f"the stream's id is {event.originator_id!r}, not a UUID: declare the aggregate with UUID")
    if event.topic in TOPICS:
        raise ProgrammingError(
            f"{event.topic} is a topic of the ledger: only the journal appends it, with its read models"
        )
    return event.originator_id


def _write(stream_id: UUID, events: Sequence[StoredEvent], recorded_at: int) -> StreamWrite:
    first = events[0].originator_version
    if not 0 <= first <= VERSION_MAX - len(events):
        raise DataError(f"the version {first} of stream {stream_id} is out of range: versions are 0 to {VERSION_MAX}")
    if [event.originator_version for event in events] != list(range(first, first + len(events))):
        raise IntegrityError(f"the versions of stream {stream_id} do not follow one another")
    encoded = [EncodedEvent(event.topic.encode(), event.state, recorded_at) for event in events]
    return StreamWrite(stream_id.bytes, first - 1, encoded)


def _require_no_ledger_stream(connection: Connection, merchant_id: UUID, command: Command) -> None:
    """Raises ProgrammingError for a stream of the ledger, which an unreadable event would make unloadable."""
    values = (merchant_id, command.stream_ids, list(TOPICS))
    row = connection.execute(_BEGUN_BY_LEDGER, values, prepare=True).fetchone()
    if row is not None:
        raise ProgrammingError(f"stream {row[0]} belongs to the ledger: only the journal appends to it")


def _wake(merchant_ids: Sequence[UUID], connection: Connection) -> None:
    if merchant_ids:
        with suppress(psycopg.Error):  # followers also look without a notification, every second
            merchants = ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id in merchant_ids])
            RawCursor(connection).execute(WAKE_FOLLOWERS, (merchants,), prepare=True, binary=True)
