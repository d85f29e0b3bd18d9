"""A persistence module of the `eventsourcing` library over the journal: `PERSISTENCE_MODULE=ledger.recorder`.

It reads every event and writes only the library's own. Never append an event of the ledger here: only the journal does,
together with the read models.

The library's application sequence is one merchant's log: a notification's id is the merchant's position, gap-free and
in the order of commits.

In reading order:

- `factory`: the recorders of one merchant, from environment variables. `datastore`: their connections.
- `recorders`: a merchant's streams and log. `append`: one call of `insert_events`. `mapper`: the ledger's own events.
- `subscription`: new events as they are committed. `tracking`: how far a projection has processed the log.
- `snapshots`: snapshots of aggregates, in a table of their own.
"""

from ledger.recorder.factory import JournalFactory
from ledger.recorder.mapper import JournalEvent
from ledger.recorder.tracking import JournalTrackingRecorder

__all__ = ["JournalEvent", "JournalFactory", "JournalTrackingRecorder"]
