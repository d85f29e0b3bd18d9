"""Snapshots of the library's aggregates, which spare it reading long streams. They are kept beside the log.

A snapshot is not an event: it has no position, no follower reads it, and it may be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from eventsourcing.persistence import StoredEvent

from ledger.recorder.datastore import Store
from ledger.recorder.recorders import StreamRecorder

# Stores snapshots.
_INSERT: Final = """
insert into snapshot (merchant_id, application, stream_id, version, topic, state)
select $1, $2, s.* from unnest($3::uuid[], $4::int4[], $5::text[], $6::bytea[]) as s
"""

# The snapshots of a stream between two versions, at most so many; null is no limit.
_STREAM: Final = """
select version, topic, state from snapshot
 where merchant_id = %s and application = %s and stream_id = %s and version > %s and version <= %s
 order by version {direction} limit %s
"""


class JournalSnapshotRecorder(StreamRecorder):
    """The snapshots that one application took of one merchant's streams."""

    _select = _STREAM

    def __init__(self, store: Store, application: str) -> None:
        super().__init__(store)
        self._application = application

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        """Stores snapshots, all or none. Raises IntegrityError if there is one of that version already."""
        if stored_events:
            rows = [(e.originator_id, e.originator_version, e.topic, e.state) for e in stored_events]
            columns = [list(column) for column in zip(*rows, strict=True)]
            with self._store.connection() as connection:
                self._store.commit(connection, [(_INSERT, (self._store.merchant_id, self._application, *columns))])
        return None

    def _key(self, stream_id: UUID | str) -> tuple[Any, ...]:
        return self._store.merchant_id, self._application, stream_id
