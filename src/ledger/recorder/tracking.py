"""The position that a projection has reached, written with its rows: each event counts once, also after a crash.

Write rows and tracking in one transaction. A projection that writes its rows first and its position later processes the
last event twice after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import psycopg
from eventsourcing.persistence import IntegrityError, ProcessRecorder, StoredEvent, Tracking, TrackingRecorder

from ledger.recorder.append import Command, append
from ledger.recorder.datastore import Cursor, Store
from ledger.recorder.recorders import JournalApplicationRecorder, retried

# Advances to a position. If the projection has already reached it, the new value is null, which the column refuses: the
# whole transaction fails, so that of two that run at once only one processes the event.
_TRACK: Final = """
insert into tracking as t (merchant_id, projection, application, position) values (%s, %s, %s, %s)
on conflict (merchant_id, projection, application) do update
   set position = case when t.position < excluded.position then excluded.position end
"""

# The same in the commit of a command, if the command was written, which the existence of its last event shows.
_TRACK_WITH: Final = """
insert into tracking as t (merchant_id, projection, application, position)
select $1, $2, $3, $4
 where exists (select 1 from event where merchant_id = $1 and stream_id = $5 and version = $6 and command_id = $7)
on conflict (merchant_id, projection, application) do update
   set position = case when t.position < excluded.position then excluded.position end
"""

# The position that the projection has reached.
_REACHED: Final = "select position from tracking where merchant_id = %s and projection = %s and application = %s"


class JournalTrackingRecorder(TrackingRecorder):
    """The position that the projection named `projection` has reached in one merchant's log: the base of views.

    The view writes its rows and calls `track` in one `transaction`.
    """

    def __init__(self, store: Store, projection: str) -> None:
        self._store = store
        self._projection = projection

    @property
    def merchant_id(self) -> UUID:
        """The merchant whose log is followed: the first column of every key, and part of every query."""
        return self._store.merchant_id

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Yields a psycopg cursor in a transaction that commits after the block and is rolled back if the block raises.

        Raises the library's PersistenceErrors for psycopg's.
        """
        with self._store.transaction() as cursor:
            yield cursor

    def track(self, cursor: Cursor, tracking: Tracking) -> None:
        """Records in this transaction that the event was processed. Raises IntegrityError if it or a later one was."""
        try:
            cursor.execute(_TRACK, self._values(tracking), prepare=True)
        except psycopg.errors.NotNullViolation as refusal:
            raise _processed_before(tracking) from refusal

    def insert_tracking(self, tracking: Tracking) -> None:
        """Records that an event was processed without any row of its own. Raises IntegrityError if it was already."""
        with self.transaction() as cursor:
            self.track(cursor, tracking)

    @retried
    def max_tracking_id(self, application_name: str) -> int | None:
        """Returns the position up to which that application's log was processed, or None."""
        with self._store.connection() as connection:
            values = (self._store.merchant_id, self._projection, application_name)
            row = connection.execute(_REACHED, values, prepare=True).fetchone()
            return None if row is None else row[0]

    def _values(self, tracking: Tracking) -> tuple[Any, ...]:
        return self._store.merchant_id, self._projection, tracking.application_name, tracking.notification_id


class JournalProcessRecorder(JournalTrackingRecorder, JournalApplicationRecorder, ProcessRecorder):
    """A log whose events are appended together with the position that was reached in the log they result from."""

    def _append(
        self, stored_events: Sequence[StoredEvent], *, tracking: Tracking | None = None, **_: Any
    ) -> Sequence[int] | None:
        if tracking is None:
            return super()._append(stored_events)
        if not stored_events:
            self.insert_tracking(tracking)
            return None
        command = Command(self.merchant_id, stored_events)
        last = command.last
        values = (*self._values(tracking), last.originator_id, last.originator_version, command.command_id)
        with self._store.connection() as connection:
            try:
                return append(self._store, connection, command, [(_TRACK_WITH, values)])
            except psycopg.errors.NotNullViolation as refusal:
                raise _processed_before(tracking) from refusal


def _processed_before(tracking: Tracking) -> IntegrityError:
    return IntegrityError(f"{tracking.application_name} {tracking.notification_id} was processed before")
