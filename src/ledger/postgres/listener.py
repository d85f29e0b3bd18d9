"""Listens on a channel of Postgres, on a connection of its own, and calls back with each notification.

A notification that comes while the connection is down is lost. So the listener reports each time that it begins to
listen: what was cached before may be out of date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import psycopg
import structlog
from psycopg import sql

from ledger.back_off import back_off_s
from ledger.postgres.connection import connect, reconnect

_log = structlog.get_logger()

_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.05, 5.0


class Listener:
    """The listener of one channel. `on_notification` gets each payload; `on_listening` is called at each new beginning.

    Call `start` before, and `stop` after. Both callbacks run on the event loop and must not raise.
    """

    def __init__(
        self,
        url: str,
        name: str,
        channel: str,
        on_notification: Callable[[str], None],
        on_listening: Callable[[], None],
    ) -> None:
        self._url = url
        self._name = name
        self._channel = channel
        self._on_notification = on_notification
        self._on_listening = on_listening
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the task, and returns once it listens."""
        self._task = asyncio.create_task(self._run(), name=self._name)
        await self._listening.wait()

    async def stop(self) -> None:
        """Ends the task and its connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            self._listening.clear()
            began = time.monotonic()
            try:
                await self._listen()
            except (psycopg.Error, OSError) as fault:
                _log.warning("listener_disconnected", of=self._name, reason=type(fault).__name__)
            has_listened = self._listening.is_set() and time.monotonic() - began > _PAUSE_MAX_S
            failures = 0 if has_listened else failures + 1  # one that is cut at once would be cut again at once
            if failures:
                await asyncio.sleep(back_off_s(failures, _PAUSE_MAX_S, _PAUSE_FIRST_S))

    async def _listen(self) -> None:
        async with await reconnect(self._name, partial(connect, self._url, self._name)) as connection:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
            self._on_listening()
            self._listening.set()
            async for notification in connection.notifies():
                self._on_notification(notification.payload)
