"""A connection's transport that sends the head and the body of a response in one piece.

Flush a complete response at once. At the end of the event loop's turn it is too late: uvloop reads before the next
turn, closes the connection where the client has closed its side, and what has not been sent by then is lost.

An HTTP server writes the head of a response and then its body. As two system calls, those wake the client twice, the
first time with nothing that it can use.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

WRITE_BUFFER_MAX: Final = 16 << 10
"""How many bytes of answers may wait for the client before the next piece of an answer waits for it, too."""


class BufferedTransport:
    """A transport that keeps what is written until it is flushed, at the latest until the event loop's turn ends.

    More than 16 KiB are flushed at once, and wait for the client outside the process as far as the system has room. All
    that has nothing to do with writing is `transport`'s own.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        self._transport = transport
        self._written: list[bytes] = []
        self._size = 0  # of these
        self._flushed = 0
        self._loop = asyncio.get_running_loop()
        self.is_closing = transport.is_closing  # asked after each answer: not by way of `__getattr__`

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(data)
        self._size += len(data)
        if self._size >= WRITE_BUFFER_MAX:
            self.flush()

    def send(self, data: bytes) -> None:
        """Sends `data` now, behind what was written before."""
        if self._written:
            self._written.append(data)
            self.flush()
        else:
            self._flushed += len(data)
            self._transport.write(data)

    def flush(self) -> None:
        """Sends what was written, unless the connection was lost meanwhile: uvloop raises RuntimeError then."""
        written, self._written, self._size = self._written, [], 0
        if written and not self.is_closing():
            data = b"".join(written)
            self._flushed += len(data)
            self._transport.write(data)

    @property
    def taken(self) -> int:
        """How many bytes of all that was flushed have left the process: the client has taken them, or the system for
        it.
        """
        return self._flushed - self._transport.get_write_buffer_size()

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once; what has not left yet is lost."""
        self._written, self._size = [], 0
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()
