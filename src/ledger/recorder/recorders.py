"""One merchant's log as the library reads and writes it: by stream, and by position.

The rule a stranger would break: reads are tried again when the database was away, inserts are not. An insert whose answer
was lost may have been written, and the library would take its own event for somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
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

from ledger.recorder.append import Command, append
from ledger.recorder.datastore import Store
from ledger.recorder.subscription import JournalSubscription

VERSION_MAX: Final = 2**31 - 1
POSITION_MAX: Final = 2**63 - 1

patiently: Final = retry((InterfaceError, OperationalError), max_attempts=10, wait=0.2)
"""Read again, for two seconds, while the database is away."""

# The events of a stream between two versions, at most so many; null is no limit.
_STREAM: Final = """
select version, topic, data from event
 where merchant_id = %s and stream_id = %s and version > %s and version <= %s order by version limit %s
"""
_STREAM_BACKWARDS: Final = """
select version, topic, data from event
 where merchant_id = %s and stream_id = %s and version > %s and version <= %s order by version desc limit %s
"""

# A stretch of the merchant's log, in the order of commits.
_LOG: Final = """
select position, stream_id, version, topic, data from event
 where merchant_id = %s and position > %s and position <= %s order by position limit %s
"""
_LOG_OF_TOPICS: Final = """
select position, stream_id, version, topic, data from event
 where merchant_id = %s and position > %s and position <= %s and topic = any(%s) order by position limit %s
"""

# Where the merchant's log ends.
_END: Final = "select max(position) from event where merchant_id = %s"


class JournalAggregateRecorder(AggregateRecorder):
    """The streams of one merchant."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Append, all or nothing. Raises as `ledger.recorder.append.append`, in the library's words."""
        self._append(stored_events, **kwargs)
        return None

    def _append(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        if not stored_events:
            return None
        merchant_id = self._store.merchant_id
        command = Command(merchant_id, stored_events)
        with self._store.connection() as connection:
            return append(connection, merchant_id, command)

    @patiently
    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The events of a stream with versions above `gt` and up to `lte`."""
        after, until = -1 if gt is None else gt, VERSION_MAX if lte is None else lte
        values = (self._store.merchant_id, originator_id, after, until, limit)
        with self._store.connection() as connection:
            rows = connection.execute(_STREAM_BACKWARDS if desc else _STREAM, values, prepare=True, binary=True)
            return [StoredEvent(originator_id, version, topic, data) for version, topic, data in rows]


class JournalApplicationRecorder(JournalAggregateRecorder, ApplicationRecorder):
    """The log of one merchant. A notification's id is the merchant's position: gap-free and in the order of commits."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Append, all or nothing; the positions. Raises as `ledger.recorder.append.append`, in the library's words."""
        return self._append(stored_events, **kwargs)

    @patiently
    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """At most `limit` events from position `start` to `stop`, of these topics or of all."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        values = [self._store.merchant_id, after, POSITION_MAX if stop is None else stop, limit]
        if topics:
            values.insert(3, list(topics))
        with self._store.connection() as connection:
            rows = connection.execute(_LOG_OF_TOPICS if topics else _LOG, values, prepare=True, binary=True)
            return [
                Notification(stream, version, topic, data, position) for position, stream, version, topic, data in rows
            ]

    @patiently
    def max_notification_id(self) -> int | None:
        """The position of the last event, or None where there is none."""
        with self._store.connection() as connection:
            row = connection.execute(_END, (self._store.merchant_id,), prepare=True).fetchone()
            return None if row is None else row[0]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Every event behind position `gt`, for as long as it is iterated. Use it in a `with` block."""
        return JournalSubscription(self, self._store, gt, topics)
