"""A subscription to one merchant's log: it reads after each notification, and once a second without one.

A notification only triggers a read. New events are read by position, so a lost, repeated or early notification changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import psycopg
from eventsourcing.persistence import ApplicationRecorder, ListenNotifySubscription, ShutDown
from psycopg import sql

from ledger.recorder.datastore import Connection, Store

_READ_EVERY_S: Final = 1.0
"""How long a new event can stay unread while notifications do not arrive."""
_STOP_WITHIN_S: Final = 0.1
_REGISTER_EVERY_S: Final = 15.0

# Marks the log as followed for a minute, so that its writers notify. One such update serves all followers of the log.
_FOLLOW: Final = """
update merchant_head set followed_until = now() + interval '60 seconds'
 where merchant_id = %s and coalesce(followed_until, '-infinity') < now() + interval '40 seconds'
"""


class JournalSubscription(ListenNotifySubscription[ApplicationRecorder]):
    """An iterator over the events after position `gt` that waits for new ones. Stop it, or use it in a `with` block.

    Without notifications (a role that may only read, a replica, a connection that was cut), new events are read within
    a second.
    """

    def __init__(self, recorder: ApplicationRecorder, store: Store, gt: int | None, topics: Sequence[str]) -> None:
        self._store = store
        self._ended = Event()  # before the library's constructor, whose thread may call `stop` at once
        super().__init__(recorder, gt, topics)
        self._listening = Thread(target=self._listen_until_ended, name="ledger-follower", daemon=True)
        self._listening.start()

    def stop(self) -> None:
        """Ends the iteration."""
        self._ended.set()
        super().stop()

    def __exit__(self, *args: object, **kwargs: Any) -> None:
        try:
            super().__exit__(*args, **kwargs)
        finally:
            self._listening.join()

    def _listen_until_ended(self) -> None:
        while not self._ended.is_set():
            try:
                with self._store.listener() as connection:
                    self._listen(connection)
            except psycopg.Error:  # reading goes on, and raises when the database is away for too long
                self._has_been_notified.set()
                self._ended.wait(_READ_EVERY_S)

    def _listen(self, connection: Connection) -> None:
        channel = sql.Identifier(f"ledger_{self._store.merchant_id}")
        connection.execute(sql.SQL("listen {}").format(channel))
        register_at = 0.0
        while not self._ended.is_set():
            if monotonic() >= register_at:
                self._register(connection)
                register_at = monotonic() + _REGISTER_EVERY_S
            self._has_been_notified.set()
            read_at = monotonic() + _READ_EVERY_S
            while not self._ended.is_set() and monotonic() < read_at:
                for _ in connection.notifies(timeout=_STOP_WITHIN_S, stop_after=1):
                    self._has_been_notified.set()

    def _register(self, connection: Connection) -> None:
        with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
            connection.execute(_FOLLOW, (self._store.merchant_id,))

    def _pull(self) -> None:
        """Reads new events. With topics, it also moves past the events of other topics, to read them once only.

        No event can still appear before the end of the log that is read first: positions are in the order of commits.
        """
        if not self._topics:
            super()._pull()
            return
        while not self._ended.is_set():
            self._has_been_notified.clear()
            after = self._last_notification_id or 0
            end = max(after, self._recorder.max_notification_id() or 0)
            found = self._recorder.select_notifications(
                after, self._select_limit, end, self._topics, inclusive_of_start=False
            )
            if found:
                try:
                    self._notifications_queue.put(found)
                except ShutDown:
                    return
            if len(found) < self._select_limit:
                self._last_notification_id = end
                return
            self._last_notification_id = found[-1].id
