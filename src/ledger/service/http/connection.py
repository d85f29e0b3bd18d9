"""One client's connection: a protocol of asyncio that parses HTTP, lets the application answer, and has time-outs.

Parse nothing beyond the end of a request before its answer has been written. What a client sends ahead waits as it
came, in one read of the system at most, and nothing more is read meanwhile. The parser cannot be stopped in the middle
of what it is given, so it is given pieces: a request ends with an empty line, or with the last byte of a body of known
length.
"""

from __future__ import annotations

import asyncio
import time
from enum import Enum, auto
from sys import getsizeof
from typing import Any, Final

import httptools
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from ledger.asgi import HAS_LEFT, IS_ENDING, RESPOND
from ledger.service.http.connection_guard import BODY_GRACE_S, DRAIN_IDLE_S, DRAIN_LINGER_S, LINGER_S, ConnectionGuard
from ledger.service.http.exchange import Exchange
from ledger.service.http.flow import Flow
from ledger.service.http.http_messages import HEAD_BYTES_MAX, error_response_bytes, split_address, unquoted
from ledger.settings import errors_url

HEAD_FIELDS_MAX: Final = 128
"""The most fields of a head that are kept: more than the application accepts, so that it refuses a head with more."""

_PIECE_MAX: Final = 16 << 10
_EMPTY_LINE: Final = b"\n\r\n"
_FIELD_BYTES: Final = 160
"""What the objects of a field take besides the bytes that were sent (measured, Python 3.11)."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Phase(Enum):
    """What a connection is doing."""

    IDLE = auto()
    HEAD = auto()
    """The head of a request is arriving."""
    BODY = auto()
    """Its body is arriving. The application is answering, or has answered already."""
    ANSWER = auto()
    """The request has arrived whole and has no answer yet."""
    END = auto()
    """Nothing more is answered. The client may take what was sent."""


_IDLE, _HEAD, _BODY, _ANSWER, _END = Phase


class Connection(asyncio.Protocol):
    """A connection with bounds and time-outs, which answers one request after the other.

    `since` is when the present phase began: the connection, and by the guard's clock a request that arrives or an
    answer that was given. `size` counts the bytes of the request that is arriving or arrived last.
    """

    flow: Flow
    exchange: Exchange | None = None

    def __init__(self, app: ASGIApp, guard: ConnectionGuard, server_state: ServerState) -> None:
        self.since = time.monotonic()  # the guard's clock does not move while the process is busy
        self.size = 0
        self.phase = _IDLE
        self._app = app
        self._guard = guard
        self._server_state = server_state
        self._connections: set[Any] = server_state.connections  # uvicorn's type names its own protocols alone
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)  # None once nothing more is parsed
        self._unparsed = b""  # what the client sent ahead, from `_at` on
        self._at = 0
        self._has_ended = False  # the client has closed its side
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._field_bytes = 0  # since the request began, or since its last byte of body
        self._body_left = 0  # bytes that are missing of a body of known length
        self._taken = 0  # bytes of answers that had left at the last sweep

    # ---------------------------------------------------------------- what the event loop calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        self.flow = Flow(transport)
        self._server, self._client = _address(transport, "sockname"), _address(transport, "peername")
        self._connections.add(self)
        self._guard.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        self._guard.remove(self)
        self._connections.discard(self)
        self._discard()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        if self._unparsed:
            self._unparsed, self._at = self._unparsed[self._at :] + data, 0
        else:
            self._parse(data)
        self._guard.count_received(len(data))

    def eof_received(self) -> bool:
        """Returns True, which keeps the connection open, if a request that arrived whole has no answer yet."""
        self._has_ended = True
        if self.phase is not _ANSWER:
            return False
        assert self.exchange is not None, "it is being answered"
        self.exchange.has_input_ended = True
        if not self._unparsed:
            self._end_input()
        return True

    def pause_writing(self) -> None:
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    # ---------------------------------------------------------------- what the parser calls

    def on_message_begin(self) -> None:
        self.phase = _HEAD
        self.since = self._guard.now
        self.size = self._field_bytes = self._body_left = 0
        self._url, self._headers, self._expects_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a field of the head. One that follows the body is dropped, so that no trailer becomes a header."""
        if self.phase is _HEAD:
            name = name.lower()
            if name == b"content-length":
                self._body_left = int(value)
            elif name == b"expect":
                self._expects_continue = value.lower() == b"100-continue"
            if len(self._headers) < HEAD_FIELDS_MAX:
                self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Lets the application answer. Raises an error if the address has no path."""
        path, query = split_address(self._url)
        method, version = self._parser.get_method().decode("ascii"), self._parser.get_http_version()
        exchange = Exchange(self.flow, self._answered, self._server_state.default_headers, method, version)
        if version == "1.0" or self._guard.is_draining or not self._parser.should_keep_alive():
            exchange.keeps_alive = False
        if self._expects_continue:
            exchange.awaits_continue = True
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": "http",
            "root_path": "",
            "method": method,
            "path": unquoted(path),
            "raw_path": path,
            "query_string": query,
            "headers": self._headers,
            RESPOND: exchange.respond,
            HAS_LEFT: exchange.has_left,
            IS_ENDING: self._guard.is_ending,
        }
        self.exchange, self.phase = exchange, _BODY
        task = self._loop.create_task(exchange.run(self._app, scope))
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)

    def on_body(self, body: bytes) -> None:
        assert self.exchange is not None, "a body follows its head"
        self._field_bytes = 0
        if self._body_left:
            self._body_left -= len(body)
        self.exchange.add_body(body)

    def on_message_complete(self) -> None:
        assert self.exchange is not None, "a request begins with its head"
        if self.exchange.is_answered:
            self.phase, self.since = _IDLE, self._guard.now
        else:
            self.phase = _ANSWER
            self.exchange.end_body()
        if not self.flow.is_reading:
            self.flow.resume_reading()

    # ---------------------------------------------------------------- one request after the other

    def _parse(self, data: bytes, at: int = 0) -> None:
        """Parses `data` from `at` up to the end of a request without an answer. If there is more, nothing is read until
        then.
        """
        size = len(data)
        while at < size and self.phase is not _ANSWER and self._parser is not None:
            end = self._piece_end(data, at)
            self._feed(data[at:end])
            at = end
        if self._parser is None:
            return
        if at < size:
            self._unparsed, self._at = data, at
            self.flow.pause_reading()
            return
        self._unparsed = b""
        if self.phase is not _BODY and not self.flow.is_reading:  # a body is read as the application receives it
            self.flow.resume_reading()
        if self._has_ended:
            self._end_input()

    def _piece_end(self, data: bytes, at: int) -> int:
        """Returns the end of what may be parsed at once from `at` on: it is no later than the end of a request."""
        if self._body_left and self.phase is _BODY:
            return min(at + self._body_left, len(data))
        if at == 0 and data[0] in b"\r\n":  # it may be the rest of an empty line
            return 2 if data.startswith(b"\r\n") else 1
        end = data.find(_EMPTY_LINE, max(0, at - 2), at + _PIECE_MAX)
        return min(at + _PIECE_MAX, len(data)) if end < 0 else end + len(_EMPTY_LINE)

    def _feed(self, piece: bytes) -> None:
        self._field_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._end_input()  # there is no other protocol here: the request is answered as plain HTTP
        except httptools.HttpParserError:
            self.refuse(400, "malformed")
        else:
            self.size += len(piece)
            if self._field_bytes > HEAD_BYTES_MAX and self.phase in (_HEAD, _BODY):
                self.refuse(431, "head_too_large")

    def _answered(self) -> None:
        """Goes on after an answer: with the rest of its request, with the next one, or to the end."""
        exchange = self.exchange
        assert exchange is not None, "it was answered"
        if self.phase is _ANSWER:
            self.phase, self.since = _IDLE, self._guard.now
        if not exchange.keeps_alive:
            if self._unparsed or self.phase is _BODY:
                self._close_write_side()
            else:
                self._stop_parsing()
                self.flow.transport.close()
        elif self.phase is not _BODY:
            self._parse(self._unparsed, self._at)
        elif exchange.awaits_continue:
            self._close_write_side()  # the body may come or not, so the next bytes may be anything
        else:
            self.flow.resume_reading()

    def _end_input(self) -> None:
        """Acts on the end of what is parsed: closes after the answer to a request that arrived whole."""
        if self.phase is _ANSWER:
            assert self.exchange is not None, "it is being answered"
            self.exchange.keeps_alive = False
            self._stop_parsing()
        elif self.phase is _BODY:
            self.refuse(400, "malformed")
        elif self.phase is not _END:
            self.flow.transport.close()

    def _stop_parsing(self) -> None:
        """Discards what else arrives, and frees what was held of it."""
        self._parser = None  # it holds the beginning of a field
        self._unparsed, self._at = b"", 0
        self._url, self._headers = b"", []

    # ---------------------------------------------------------------- what the server and the guard call

    def shutdown(self) -> None:
        """Lets the answer that is being made be the last, and one to a request that arrives within the next second."""
        self.since = self._guard.now
        if self.exchange is not None:
            self.exchange.keeps_alive = False

    @property
    def held(self) -> int:
        """About how many bytes the process holds for this client: what it sent and what it has not taken."""
        held = len(self._unparsed) + self.flow.transport.get_write_buffer_size()
        is_answered = self.exchange is None or self.exchange.is_answered
        if self.phase is _HEAD or not is_answered:
            held += self.size + _FIELD_BYTES * len(self._headers)
        if not is_answered:
            held += len(self._url) + getsizeof(unquoted(self._url))  # a single emoji makes all characters four bytes
        return held

    @property
    def awaits_client(self) -> bool:
        """Whether only the client can make it go on."""
        return self.phase is not _ANSWER

    def eviction_key(self) -> tuple[bool, float]:
        """Sorts connections: those that never got an answer first, and among equals the one that is idle the
        longest.
        """
        return self.exchange is not None and self.exchange.is_answered, self.since

    def sweep(self, now: float) -> None:
        """Closes the connection if the client's time is over. Called at every sweep, but not in its first second."""
        settings, elapsed, is_draining = self._guard.settings, now - self.since, self._guard.is_draining
        if self.flow.transport.get_write_buffer_size():
            taken = self.flow.taken  # what waits may be as much as before, and yet be something else
            if taken > self._taken:
                self.since = now
            elif elapsed > (DRAIN_IDLE_S if is_draining else settings.body_timeout_s):
                self.abort("unread")
            self._taken = taken
        elif self.phase is _END or self.flow.transport.is_closing():
            if elapsed > (DRAIN_LINGER_S if is_draining else LINGER_S):
                self.flow.transport.abort()
        elif self.phase in (_HEAD, _BODY):
            self._sweep_arriving(elapsed, now)
        elif self.phase is _IDLE:
            quiet_s = settings.head_timeout_s if self.exchange is None else settings.idle_timeout_s
            if elapsed > (DRAIN_IDLE_S if is_draining else quiet_s):
                self._guard.count("idle")
                self.flow.transport.close()

    def _sweep_arriving(self, elapsed: float, now: float) -> None:
        settings, is_head = self._guard.settings, self.phase is _HEAD
        if not self.flow.is_reading:
            self.since = now  # this process does not read at the moment: the client is not slow
        elif self._guard.is_draining:
            if elapsed > DRAIN_IDLE_S:
                self.refuse(408, "head_timeout" if is_head else "body_timeout")
        elif is_head:
            if elapsed > settings.head_timeout_s:
                self.refuse(408, "head_timeout")
        elif elapsed > settings.body_timeout_s or self.size < settings.body_rate_min * (elapsed - BODY_GRACE_S):
            self.refuse(408, "body_timeout")

    # ---------------------------------------------------------------- how it ends

    def refuse(self, status: int, reason: str) -> None:
        """Answers the request that is arriving with an error unless its answer has begun, and ends the connection."""
        self._guard.count(reason)
        has_begun_answer = self.phase is _BODY and self.exchange is not None and self.exchange.has_begun_answer
        if not has_begun_answer:
            page = errors_url(self._guard.settings)
            self.flow.write(error_response_bytes(status, self._server_state.default_headers, page))
        self._close_write_side()

    def abort(self, reason: str) -> None:
        """Closes at once, whatever is on its way."""
        self._guard.count(reason)
        self._guard.remove(self)
        self._discard()
        self.flow.transport.abort()

    def _close_write_side(self) -> None:
        """Ends what is sent. The client may send on for a while; the sweep closes a connection that it leaves open."""
        self._discard()
        self.since = self._guard.now
        self.flow.resume_reading()
        if not self.flow.transport.is_closing():
            self.flow.transport.write_eof()

    def _discard(self) -> None:
        """Frees what the connection holds, at once: many may be closed before the loop's next turn."""
        self.phase = _END
        self._stop_parsing()
        if self.exchange is not None and not self.exchange.is_answered:
            self.exchange.disconnect()
        self.exchange = None
        self.flow.resume_writing()  # a request that waits for room finds out that the client is gone


def _address(transport: asyncio.Transport, name: str) -> tuple[str, int] | None:
    address = transport.get_extra_info(name)
    return address[:2] if isinstance(address, tuple) else None
