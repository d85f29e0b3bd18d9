"""A connection's way out: the head and the body of an answer leave in one piece.

The rule a stranger would break: an answer that is whole is flushed at once. The end of the turn is too late for it: uvloop
reads before the next one, closes where the client has closed its side, and what was not sent by then is lost.

A server writes the head of an answer and then its body. As two calls of the system, those wake the client twice, and the
first of them for nothing it can use.
"""

from __future__ import annotations

import asyncio
from typing import Any


class BufferedTransport(asyncio.Transport):
    """A transport that keeps what is written until it is flushed, and at the latest until the turn of the loop is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._written: list[bytes] = []
        self._flushed = 0
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        """Send this with whatever else is written before the next flush."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(data)

    def flush(self) -> None:
        """Send what was written."""
        written, self._written = self._written, []
        if written:
            data = written[0] if len(written) == 1 else b"".join(written)
            self._flushed += len(data)
            self._transport.write(data)

    @property
    def taken(self) -> int:
        """How many bytes of all that was flushed the client has taken, or the system for it."""
        return self._flushed - self._transport.get_write_buffer_size()

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """End at once; what has not left yet is lost."""
        self._written.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._written)) + self._transport.get_write_buffer_size()

    # ---------------------------------------------------------------- all else as it was

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
