"""The signals of the supervisor: SIGTERM and SIGINT, which ask it to stop, and SIGCHLD, which wakes it up."""

from __future__ import annotations

import select
import signal
import socket
import time
from contextlib import suppress
from types import FrameType
from typing import Final, Self

_SAME_SIGNAL_S: Final = 0.1
"""Signals closer than this are one: a signal to a process group reaches `make` too, which passes it on once more."""


class StopSignals:
    """SIGTERM and SIGINT, as a count that loops read; each ends a `pause`. `name` is the last one's, empty before."""

    def __init__(self) -> None:
        self.count = 0
        self.name = ""
        self._last = float("-inf")
        self._wake, self._waker = socket.socketpair()

    @property
    def stopping(self) -> bool:
        return self.count > 0

    @property
    def hurry(self) -> bool:
        return self.count > 1

    def __enter__(self) -> Self:
        for end in (self._wake, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake up when a child ends
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)

    def _count(self, number: int, _frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        now = time.monotonic()
        if now - self._last > _SAME_SIGNAL_S:
            self.count += 1
        self._last = now

    def pause(self, seconds: float) -> None:
        """Waits until the time is over or a signal arrives."""
        select.select([self._wake], [], [], seconds)
        with suppress(BlockingIOError):
            self._wake.recv(4096)
