"""A receiver of webhooks: it counts what arrives and answers 204, or misbehaves, by the first part of the path.

`/ok` answers at once, `/hang` never, `/drip` a byte a second. Arrivals at `/ok` alone are counted. It prints its port.
`GET /counted` returns the counts as JSON, and `GET /forget` sets them to zero.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections import Counter
from datetime import datetime
from typing import Final, cast

import msgspec
from msgspec import Struct

from benchmarks.load.processes import end_with_parent, event_loop

OK: Final = "/ok"
HANG: Final = "/hang"
DRIP: Final = "/drip"
COUNTED: Final = "/counted"
FORGET: Final = "/forget"

_END_OF_HEAD: Final = b"\r\n\r\n"
_TIMESTAMP: Final = b'"timestamp":"'
_TIMESTAMP_MAX: Final = len("2026-01-31T12:00:00.000Z")
_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
_DRIPPED: Final = b"HTTP/1.1 204 No Content\r\nX-Filler: " + b"x" * 1000


class Counted(Struct):
    """What arrived: how many messages, the times of the first and the last, how late they were, and how many came in
    each second since the first. Times are those of `time.time`.
    """

    messages: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    late_s: list[float] = []
    by_second: dict[int, int] = {}

    @property
    def curve(self) -> str:
        """How many came in each second, for people."""
        return " ".join(str(self.by_second[second]) for second in sorted(self.by_second))


class _State:
    """What all connections share."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.late_s: list[float] = []
        self.by_second = Counter[int]()
        self.first_at = self.last_at = 0.0

    def count(self, body: bytes) -> None:
        now = time.time()
        self.first_at, self.last_at = self.first_at or now, now
        self.by_second[int(now - self.first_at)] += 1
        start = body.find(_TIMESTAMP) + len(_TIMESTAMP)
        begun = datetime.fromisoformat(body[start : start + _TIMESTAMP_MAX].decode())
        self.late_s.append(now - begun.timestamp())

    def counted(self) -> Counted:
        return Counted(len(self.late_s), self.first_at, self.last_at, self.late_s, dict(self.by_second))


class _Connection(asyncio.Protocol):
    """A kept-alive connection of a sender."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._received = b""
        self._dripping: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own, which does not derive from asyncio's

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        if self._dripping is not None:
            self._dripping.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            head, ended, rest = self._received.partition(_END_OF_HEAD)
            length = _content_length(head)
            if not ended or len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(head.split(b" ", 2)[1].decode(), rest[:length])

    def _answer(self, path: str, body: bytes) -> None:
        if path == COUNTED:
            counted = msgspec.json.encode(self._state.counted())
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(counted), counted))
        elif path.startswith(DRIP):
            self._dripping = asyncio.create_task(self._drip())
        elif not path.startswith(HANG):
            if path == FORGET:
                self._state.forget()
            else:
                self._state.count(body)
            self._transport.write(_ANSWER)

    async def _drip(self) -> None:
        for byte in _DRIPPED:
            self._transport.write(bytes([byte]))
            await asyncio.sleep(1)


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length: ")
    return 0 if at < 0 else int(head[at + 18 :].partition(b"\r")[0])


async def serve() -> None:
    """Serves until the process ends."""
    state = _State()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), sock=listener)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serves on a free port of the loopback, prints the port, and ends when standard input ends."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    event_loop()(serve())


if __name__ == "__main__":
    main()
