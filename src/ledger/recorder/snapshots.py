"""Snapshots of the library's aggregates: kept to spare reading long streams, beside the log and never in it.

The rule a stranger would break: a snapshot is no event. It has no position, nobody follows it, and it may be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from eventsourcing.persistence import AggregateRecorder, StoredEvent

from ledger.recorder.datastore import Store
from ledger.recorder.recorders import VERSION_MAX, patiently

_KEEP: Final = """
insert into snapshot (merchant_id, application, stream_id, version, topic, state)
select %s, %s, s.* from unnest(%s::uuid[], %s::int4[], %s::text[], %s::bytea[]) as s
"""
_KEPT: Final = """
select version, topic, state from snapshot
 where merchant_id = %s and application = %s and stream_id = %s and version > %s and version <= %s
 order by version limit %s
"""
_KEPT_BACKWARDS: Final = """
select version, topic, state from snapshot
 where merchant_id = %s and application = %s and stream_id = %s and version > %s and version <= %s
 order by version desc limit %s
"""


class JournalSnapshotRecorder(AggregateRecorder):
    """The snapshots that one application took of one merchant's streams."""

    def __init__(self, store: Store, application: str) -> None:
        self._store = store
        self._application = application

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        """Keep snapshots, all or none. Raises IntegrityError where there is one of that version."""
        if stored_events:
            rows = [(e.originator_id, e.originator_version, e.topic, e.state) for e in stored_events]
            columns = [list(column) for column in zip(*rows, strict=True)]
            with self._store.connection() as connection:
                connection.execute(_KEEP, (self._store.merchant_id, self._application, *columns))
        return None

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
        """The snapshots of a stream at versions above `gt` and up to `lte`."""
        after, until = -1 if gt is None else gt, VERSION_MAX if lte is None else lte
        values = (self._store.merchant_id, self._application, originator_id, after, until, limit)
        with self._store.connection() as connection:
            rows = connection.execute(_KEPT_BACKWARDS if desc else _KEPT, values, prepare=True, binary=True)
            return [StoredEvent(originator_id, version, topic, state) for version, topic, state in rows]
