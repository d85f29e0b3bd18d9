"""uvicorn's HTTP protocol with bounds on what one client can make the process hold.

Never parse more than one request per piece of what arrived: the parser cannot be stopped in the middle of a piece, so
a read of 256 KiB would become fourteen thousand waiting requests.

uvicorn bounds neither the fields of a head nor the requests that were sent ahead, and appends the trailers of a body to
the headers of its request. tests/service/test_uvicorn.py lists what is relied on.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ledger.asgi import RESPOND
from ledger.service.http.buffered_transport import BufferedTransport
from ledger.service.http.http_messages import HEAD_BYTES_MAX, new_cycle

HEAD_FIELDS_MAX: Final = 128
"""The most fields of a head that are kept: more than the application accepts, so that it refuses a head with more."""

WAITING_MAX: Final = 16
"""The most requests that wait in a connection behind the one that is being answered."""

WAITING_BODIES_MAX: Final = 1 << 20
"""The most bytes of their bodies."""

_PIECE_MAX: Final = 16 << 10
_HEAD_END: Final = b"\n\r\n"
_REQUEST_BYTES: Final = 2048
_FIELD_BYTES: Final = 160
"""What the objects of a request and of a field take besides the bytes that were sent (measured, Python 3.11)."""


class PausableFlow(FlowControl):
    """uvicorn's flow control, which stays paused while the connection `is_full`, whatever a request asks for."""

    is_full = False

    def resume_reading(self) -> None:
        if self.read_paused and not self.is_full:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol, ABC):
    """uvicorn's connection with bounds.

    `size` counts the bytes of the request that is arriving or arrived last.
    """

    transport: BufferedTransport  # type: ignore[assignment]  # it has the methods of one
    cycle: RequestResponseCycle | None  # type: ignore[assignment]  # None until the headers of a request have arrived
    flow: PausableFlow

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.size = 0
        self._current: RequestResponseCycle | None = None  # the request that is being answered
        self._field_bytes = 0  # since the request began, or since its last byte of body
        self._unparsed = b""
        self._waiting_heads: deque[int] = deque()  # about how many bytes each waiting request holds without its body
        self._waiting = 0  # the same of all of them, with what has arrived of their bodies
        self._waited = 0  # the same of the request that is being answered, where it has waited
        self._arriving = False  # a request has begun and not ended
        self._awaits_head = False  # a request has begun and its headers are incomplete
        self._stopped_reading = False  # what else arrives is discarded

    @abstractmethod
    def refuse(self, status: int, reason: str) -> None:
        """Answers the request that is arriving with an error, and closes the connection."""

    # ---------------------------------------------------------------- what uvicorn and the parser call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(BufferedTransport(transport))  # type: ignore[arg-type]
        self.flow = PausableFlow(self.transport)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._discard()

    def data_received(self, data: bytes) -> None:
        if self._stopped_reading:
            return
        if self._unparsed or self.pipeline or not _is_one_piece(data):
            self._unparsed = self._unparsed + data if self._unparsed else data
            self._parse()
        else:  # what nearly every client sends: one request, and the next one after its answer
            self._parse_piece(data)
            if self.pipeline:
                self._count_waiting()

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)
        self.size = self._field_bytes = 0
        self._arriving = self._awaits_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a field of the head. One that follows the body is dropped, so that no trailer becomes a header."""
        if self._awaits_head and len(self.headers) < HEAD_FIELDS_MAX:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        last = self.cycle
        self.cycle = new_cycle(self)
        self._awaits_head = False
        if last is None or last.response_complete:
            self._start_asgi_task(self.cycle, self.app)
            return
        self.flow.pause_reading()
        self.pipeline.appendleft((self.cycle, self.app))
        fields = sum(len(name) + len(value) + _FIELD_BYTES for name, value in self.headers)
        address = 2 * len(self.url) + getsizeof(self.scope["path"])  # a single emoji makes all characters four bytes
        self._waiting_heads.append(_REQUEST_BYTES + address + fields)

    def on_body(self, body: bytes) -> None:
        self._field_bytes = 0
        HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        HttpToolsProtocol.on_message_complete(self)
        self._arriving = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle
        cycle.scope[RESPOND] = self.respond  # type: ignore[typeddict-unknown-key]
        super()._start_asgi_task(cycle, app)

    # ---------------------------------------------------------------- what the application calls

    def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Sends a whole answer to the request that is being answered, as two messages of ASGI do at twice the cost.

        `headers` have a content-length. Returns False, having sent nothing, where it takes the two messages: for HEAD,
        while the client does not read, where the connection ends with this answer, for headers that uvicorn refuses.
        """
        cycle = self._current
        if cycle is None or cycle.response_started or cycle.disconnected or not cycle.keep_alive:
            return False
        if self.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        lines = [STATUS_LINE[status], *[b"%b: %b\r\n" % field for field in (*cycle.default_headers, *headers)]]
        head = b"".join(lines)
        if head.count(b"\n") != len(lines):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.send(b"%b\r\n%b" % (head, body))
        cycle.message_event.set()
        cycle.on_response()
        return True

    # ---------------------------------------------------------------- what is held

    @property
    def held(self) -> int:
        """About how many bytes the process holds for this client: what it sent and what it has not taken.

        The guard asks all connections at once, so this looks at no waiting request.
        """
        held = self._waited + self._waiting + len(self._unparsed) + self.transport.get_write_buffer_size()
        if self._awaits_head or not (self.cycle is None or self.cycle.response_complete):
            held += self.size + _FIELD_BYTES * len(self.headers)
        return held

    def _parse_rest(self) -> None:
        """Parses what waits, after an answer has made room for it."""
        if self._unparsed or self.flow.is_full:
            self._parse()

    def _parse(self) -> None:
        """Parses what has arrived while there is room for another request; the rest waits, and nothing is read."""
        data, at = self._unparsed, 0
        self._unparsed = b""
        for end in _piece_ends(data):
            if self._stopped_reading or not self._has_room:
                break
            self._parse_piece(data if end - at == len(data) else memoryview(data)[at:end])
            at = end
        self._count_waiting()
        if self._stopped_reading:
            return
        self._unparsed = data[at:]
        self.flow.is_full = not self._has_room
        if self.flow.is_full:
            self.flow.pause_reading()

    def next_waiting(self) -> tuple[RequestResponseCycle, Any] | None:
        """Returns the oldest request that waits, with the application, and removes it; None where no request waits."""
        self._forget_current()
        self._waited = 0
        if not self.pipeline:
            return None
        cycle, app = self.pipeline.pop()
        self._waited = self._waiting_heads.popleft() + len(cycle.body)
        self._count_waiting()
        return cycle, app

    def _forget_current(self) -> None:
        """Takes the connection out of its request's scope: the two would wait for the garbage collector."""
        if self._current is not None:
            self._current.scope.pop(RESPOND, None)  # type: ignore[typeddict-item]

    def _count_waiting(self) -> None:
        self._waiting = 0
        if self.pipeline:
            self._waiting = sum(self._waiting_heads) + sum(len(cycle.body) for cycle, _ in self.pipeline)

    def _parse_piece(self, piece: bytes | memoryview) -> None:
        self._field_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._stop_reading()  # there is no other protocol here: the request is answered as plain HTTP
        except httptools.HttpParserError:
            self.refuse(400, "malformed")
        else:
            self.size += len(piece)
            if self._field_bytes > HEAD_BYTES_MAX and self._arriving:
                self.refuse(431, "head_too_large")

    @property
    def _has_room(self) -> bool:
        """Whether another piece may be parsed."""
        waiting = self.pipeline
        return not waiting or (
            len(waiting) < WAITING_MAX
            and sum(len(cycle.body) for cycle, _ in waiting) + _PIECE_MAX <= WAITING_BODIES_MAX
        )

    def _stop_reading(self) -> None:
        """Closes after the answers to what has arrived so far."""
        self._ignore_rest()
        self._arriving = False
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _ignore_rest(self) -> None:
        """Discards what else arrives, and frees what was held of it."""
        self._stopped_reading = True
        self._unparsed, self.headers = b"", []
        self.parser = None  # type: ignore[assignment]  # it holds the beginning of a field
        self.flow.is_full = False

    def _discard(self) -> None:
        """Frees what waits in the connection, at once: many connections may be closed before the loop's next turn.

        A request refers to its connection, which refers to the one that is being answered and to the last one.
        """
        self._ignore_rest()
        self.pipeline.clear()
        self._waiting_heads.clear()
        self._waiting = self._waited = 0
        self.url, self.scope = b"", {}  # type: ignore[typeddict-item]
        self.cycle = self._current
        self._forget_current()
        if self.cycle is not None:
            self.cycle.on_response = _nothing


def _is_one_piece(data: bytes) -> bool:
    """Returns whether the parser may take all of `data` at once: it is short and contains the end of one head at most.

    A line end at its beginning may be the rest of the end of another head.
    """
    return len(data) <= _PIECE_MAX and data[0] not in b"\r\n" and data.count(_HEAD_END) <= 1


def _piece_ends(data: bytes) -> Iterator[int]:
    """Yields the ends of the pieces to parse: each is short, and contains the end of one head at most."""
    at = 2 if data.startswith(b"\r\n") else 1 if data.startswith(b"\n") else 0  # the end of a head may arrive later
    if at:
        yield at
    while at < len(data):
        end = data.find(_HEAD_END, max(0, at - 2), at + _PIECE_MAX)
        at = min(at + _PIECE_MAX, len(data)) if end < 0 else end + len(_HEAD_END)
        yield at


def _nothing() -> None:
    pass
