"""A connection's way out: what is written within one turn of the event loop leaves in one piece.

The rule a stranger would break: what ends a connection never overtakes what was written to it before.

A server writes the head of an answer and then its body. As two calls of the system, those wake the client twice, and the
first of them for nothing it can use.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Gathered(asyncio.Transport):
    """A transport that keeps what is written until the turn of the loop is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._written: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        """Send this with whatever else is written in this turn."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def write_eof(self) -> None:
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """End at once; what has not left yet is lost."""
        self._written.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._written)) + self._transport.get_write_buffer_size()

    def _send(self) -> None:
        written = self._written
        if written:
            self._transport.write(written[0] if len(written) == 1 else b"".join(written))
            written.clear()

    # ---------------------------------------------------------------- all else as it was

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
