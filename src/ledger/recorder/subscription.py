"""A subscription to one merchant's log: woken by notifications, and looking by itself in between.

The rule a stranger would break: a notification only says that it is worth looking. What is new is read by position, so a
notification that was lost, doubled or early changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import psycopg
from eventsourcing.persistence import ApplicationRecorder, ListenNotifySubscription, ShutDown
from psycopg import sql

from ledger.recorder.datastore import Connection, Store

_LOOK_EVERY_S: Final = 1.0
"""The longest that a new event goes unseen while nobody can be notified."""
_STOP_WITHIN_S: Final = 0.1
_SAY_SO_EVERY_S: Final = 15.0

# Say that this log is followed, for a minute at a time. Followers of one log need to say it only once between them.
_FOLLOW: Final = """
update merchant_head set followed_until = now() + interval '60 seconds'
 where merchant_id = %s and coalesce(followed_until, '-infinity') < now() + interval '40 seconds'
"""


class JournalSubscription(ListenNotifySubscription[ApplicationRecorder]):
    """Iterates over the events behind position `gt`, waiting for new ones. Stop it, or use it in a `with` block.

    Where notifications cannot be had (a role that may only read, a replica, a connection that was cut), new events are
    seen within a second.
    """

    def __init__(self, recorder: ApplicationRecorder, store: Store, gt: int | None, topics: Sequence[str]) -> None:
        self._store = store
        self._ended = Event()  # before the library's constructor, whose thread may stop us at once
        super().__init__(recorder, gt, topics)
        self._listening = Thread(target=self._listen_until_ended, name="ledger-follower", daemon=True)
        self._listening.start()

    def stop(self) -> None:
        """End the iteration."""
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
            except psycopg.Error:  # looking goes on, and says by itself when the database is away for too long
                self._has_been_notified.set()
                self._ended.wait(_LOOK_EVERY_S)

    def _listen(self, connection: Connection) -> None:
        channel = sql.Identifier(f"ledger_{self._store.merchant_id}")
        connection.execute(sql.SQL("listen {}").format(channel))
        say_so_at = 0.0
        while not self._ended.is_set():
            if monotonic() >= say_so_at:
                self._say_so(connection)
                say_so_at = monotonic() + _SAY_SO_EVERY_S
            self._has_been_notified.set()
            look_at = monotonic() + _LOOK_EVERY_S
            while not self._ended.is_set() and monotonic() < look_at:
                for _ in connection.notifies(timeout=_STOP_WITHIN_S, stop_after=1):
                    self._has_been_notified.set()

    def _say_so(self, connection: Connection) -> None:
        try:
            connection.execute(_FOLLOW, (self._store.merchant_id,))
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
            return

    def _pull(self) -> None:
        """With topics, move on past what was looked through: a rare topic would else be sought from the last hit each time.

        Behind the end of the log that was read first nothing can still appear: positions are in the order of commits.
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
