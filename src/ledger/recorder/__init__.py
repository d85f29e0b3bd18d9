"""A persistence module of the `eventsourcing` library over the journal: `PERSISTENCE_MODULE=ledger.recorder`.

The rule a stranger would break: it reads everything and writes only what is its own. The ledger's events are appended by
the journal, with their read models, and by nobody else.

The library's application sequence is one merchant's log: a notification's id is the merchant's position, gap-free and in
the order of commits. `factory` reads the environment, `appending` writes, `following` subscribes, `tracking` remembers how
far a projection has come, `mapper` gives the library the ledger's own events.
"""

from ledger.recorder.factory import JournalFactory
from ledger.recorder.mapper import JournalEvent
from ledger.recorder.tracking import JournalTrackingRecorder

__all__ = ["JournalEvent", "JournalFactory", "JournalTrackingRecorder"]
