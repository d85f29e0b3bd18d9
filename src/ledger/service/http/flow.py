"""The flow of a connection's bytes: whether the client's are read, and how many of the answers' have left."""

from __future__ import annotations

import asyncio
from typing import Final

WRITE_BUFFER_MAX: Final = 16 << 10
"""How many bytes of answers may wait for the client before the next piece of an answer waits for it, too."""


class Flow:
    """Pauses and resumes both directions of `transport`, and counts what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        self.transport = transport
        self.is_reading = True
        self.has_room = True  # for another piece of an answer: the client has taken enough of the ones before
        self._written = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def taken(self) -> int:
        """How many bytes of all that was written have left the process."""
        return self._written - self.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Sends `data`, unless the connection is closing: uvloop raises RuntimeError after its loss."""
        if not self.transport.is_closing():
            self._written += len(data)
            self.transport.write(data)

    async def drain(self) -> None:
        """Returns once there is room for another piece of an answer."""
        while not self.has_room:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def pause_writing(self) -> None:
        self.has_room = False

    def resume_writing(self) -> None:
        self.has_room = True
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    def pause_reading(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            self.transport.resume_reading()
