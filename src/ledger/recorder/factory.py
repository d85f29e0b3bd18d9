"""Makes one merchant's recorders from the library's environment.

The environment names the merchant as well as the database: an application has one merchant. For several merchants, make
several applications.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    ProcessRecorder,
    Transcoder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic

from ledger.journal.event_archive import EventArchive
from ledger.postgres.connection import session_settings
from ledger.recorder.datastore import Store
from ledger.recorder.mapper import JournalMapper
from ledger.recorder.recorders import JournalAggregateRecorder, JournalApplicationRecorder
from ledger.recorder.snapshots import JournalSnapshotRecorder
from ledger.recorder.tracking import JournalProcessRecorder, JournalTrackingRecorder

T = TypeVar("T")

# The library's callers may wait for a merchant's head for longer than a service with other requests to answer.
_LOG_SETTINGS: Final = session_settings(lock_timeout="8s")

# Postgres plans a view's own statements freely; those of the log have to use its keys.
_VIEW_SETTINGS: Final = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
}


class JournalFactory(InfrastructureFactory[JournalTrackingRecorder]):
    """Recorders over the journal of one merchant.

    Reads `LEDGER_MERCHANT_ID` and `LEDGER_DATABASE_APP_URL`, else `LEDGER_DATABASE_URL`. The name of the application or
    projection may precede each (`TAKINGS_LEDGER_MERCHANT_ID`). Events that the ledger has archived are read from
    `LEDGER_FILES_URL`. Raises OSError if one is missing or wrong.
    """

    MERCHANT_ID = "LEDGER_MERCHANT_ID"
    FILES_URL = "LEDGER_FILES_URL"
    DATABASE_URLS = ("LEDGER_DATABASE_APP_URL", "LEDGER_DATABASE_URL")

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        merchant_id, url = self._merchant_id(), self._url()
        self._log = Store(url, merchant_id, _LOG_SETTINGS, EventArchive(self.env.get(self.FILES_URL)))
        self._views = Store(url, merchant_id, _VIEW_SETTINGS)

    def mapper(
        self, transcoder: Transcoder | None = None, mapper_class: type[Mapper[Any]] | None = None
    ) -> Mapper[Any]:
        """Returns the mapper of `MAPPER_TOPIC`, else one that also reads the ledger's events."""
        if mapper_class is None and not self.env.get(self.MAPPER_TOPIC):
            mapper_class = JournalMapper
        return super().mapper(transcoder, mapper_class)

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Returns the recorder of the streams, or of the snapshots for any purpose other than `events`."""
        if purpose == "events":
            return JournalAggregateRecorder(self._log)
        return JournalSnapshotRecorder(self._views, f"{self.env.name}:{purpose}")

    def application_recorder(self) -> ApplicationRecorder:
        """Returns the recorder of the log: of the class `APPLICATION_RECORDER_TOPIC`, if set."""
        return self._class(self.APPLICATION_RECORDER_TOPIC, JournalApplicationRecorder)(self._log)

    def tracking_recorder(
        self, tracking_recorder_class: type[JournalTrackingRecorder] | None = None
    ) -> JournalTrackingRecorder:
        """Returns a view of the given class, else of `TRACKING_RECORDER_TOPIC`, for the environment's name."""
        cls = tracking_recorder_class or self._class(self.TRACKING_RECORDER_TOPIC, JournalTrackingRecorder)
        return cls(self._views, self.env.name)

    def process_recorder(self) -> ProcessRecorder:
        """Returns the log of an application that follows another: of the class `PROCESS_RECORDER_TOPIC`, if set."""
        return self._class(self.PROCESS_RECORDER_TOPIC, JournalProcessRecorder)(self._log, self.env.name)

    def close(self) -> None:
        """Closes every connection."""
        self._log.close()
        self._views.close()

    def _class(self, key: str, default: type[T]) -> type[T]:
        topic = self.env.get(key)
        if not topic:
            return default
        found: type[T] = resolve_topic(topic)
        assert issubclass(found, default), f"{key} is {topic}, which must be a subclass of {default.__name__}"
        return found

    def _merchant_id(self) -> UUID:
        value = self.env.get(self.MERCHANT_ID)
        try:
            return UUID(value or "")
        except ValueError:
            raise OSError(f"{self.MERCHANT_ID} must be the UUID of the merchant whose log this is") from None

    def _url(self) -> str:
        for key in self.DATABASE_URLS:
            if value := self.env.get(key):
                return value
        raise OSError("LEDGER_DATABASE_URL must be the database of the ledger")
