"""One merchant's streams and log, as the library reads and writes them.

Reads are retried while the database is unavailable. Never retry an insert: one whose answer was lost may have been
written, and the library would take its own event for another writer's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InterfaceError,
    Notification,
    OperationalError,
    StoredEvent,
    Subscription,
)
from eventsourcing.utils import retry

from ledger.recorder.append import VERSION_MAX, Command, append
from ledger.recorder.datastore import Store
from ledger.recorder.subscription import JournalSubscription

_POSITION_MAX: Final = 2**63 - 1

retried: Final = retry((InterfaceError, OperationalError), max_attempts=10, wait=0.2)
"""Repeats a read for two seconds while the database is unavailable."""

# The events of a stream between two versions, at most so many; null is no limit.
_STREAM: Final = """
select version, topic, data from event
 where merchant_id = %s and stream_id = %s and version > %s and version <= %s order by version {direction} limit %s
"""

# A range of the merchant's log, in the order of commits: of all topics, or of some.
_LOG: Final = """
select position, stream_id, version, topic, data from event
 where merchant_id = %s and position > %s and position <= %s order by position limit %s
"""
_LOG_OF_TOPICS: Final = """
select position, stream_id, version, topic, data from event
 where merchant_id = %s and position > %s and position <= %s and topic = any(%s) order by position limit %s
"""

# The last position of the merchant's log.
_END: Final = "select max(position) from event where merchant_id = %s"


class StreamRecorder(AggregateRecorder):
    """A recorder that reads a table of one merchant's streams, by version."""

    _select: ClassVar[str]
    """The statement, with `{direction}` for `asc` or `desc`. Its parameters: the key, two versions, the limit."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @abstractmethod
    def _key(self, stream_id: UUID | str) -> tuple[Any, ...]:
        """Returns the values that identify a stream in the table."""

    @retried
    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Returns what is stored of a stream at versions above `gt` and up to `lte`."""
        query = self._select.format(direction="desc" if desc else "asc")
        after, until = -1 if gt is None else gt, VERSION_MAX if lte is None else lte
        with self._store.connection() as connection:
            rows = connection.execute(
                query, (*self._key(originator_id), after, until, limit), prepare=True, binary=True
            )
            events = self._store.with_contents(rows.fetchall(), 2)
            return [StoredEvent(originator_id, version, topic, data) for version, topic, data in events]


class JournalAggregateRecorder(StreamRecorder):
    """The streams of one merchant."""

    _select = _STREAM

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Appends the events, all or none. Raises as `ledger.recorder.append.append`, with the library's exceptions."""
        self._append(stored_events, **kwargs)
        return None

    def _append(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        if not stored_events:
            return None
        command = Command(self._store.merchant_id, stored_events)
        with self._store.connection() as connection:
            return append(self._store, connection, command)

    def _key(self, stream_id: UUID | str) -> tuple[Any, ...]:
        return self._store.merchant_id, stream_id


class JournalApplicationRecorder(JournalAggregateRecorder, ApplicationRecorder):
    """The log of one merchant. A notification's id is the merchant's position: gap-free and in the order of commits."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Appends the events, all or none, and returns their positions. Raises as `ledger.recorder.append.append`."""
        return self._append(stored_events, **kwargs)

    @retried
    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Returns at most `limit` events from position `start` to `stop`, of these topics or of all."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        values = [self._store.merchant_id, after, _POSITION_MAX if stop is None else stop, limit]
        if topics:
            values.insert(3, list(topics))
        with self._store.connection() as connection:
            rows = connection.execute(_LOG_OF_TOPICS if topics else _LOG, values, prepare=True, binary=True)
            events = self._store.with_contents(rows.fetchall(), 4)
            return [
                Notification(stream, version, topic, data, position)
                for position, stream, version, topic, data in events
            ]

    @retried
    def max_notification_id(self) -> int | None:
        """Returns the position of the last event, or None for an empty log."""
        with self._store.connection() as connection:
            row = connection.execute(_END, (self._store.merchant_id,), prepare=True).fetchone()
            return None if row is None else row[0]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Returns an iterator over every event after position `gt`, without end. Use it in a `with` block."""
        return JournalSubscription(self, self._store, gt, topics)
