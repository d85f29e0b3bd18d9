"""One request and its answer: what ASGI calls `receive` and `send`, and `respond` for an answer that is whole.

The head of an answer is sent with the first piece of its body. As two system calls, the two would wake the client
twice, the first time with nothing that it can use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Scope

from ledger.service.http.flow import Flow
from ledger.service.http.http_messages import STATUS_LINES

BODY_BYTES_MAX: Final = 64 << 10
"""After so many bytes of a body that the application has not received, nothing is read until it receives them."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_NO_BODY: Final = (204, 304)
_FAILURE: Final = b"Internal Server Error"

_log = structlog.get_logger()


class Exchange:
    """A request whose head has arrived, and its answer.

    The connection adds the body; `on_answered` is called when the answer has been written. `default_headers` are those
    of the server.
    """

    def __init__(
        self,
        flow: Flow,
        on_answered: Callable[[], None],
        default_headers: list[tuple[bytes, bytes]],
        method: str,
        http_version: str,
    ) -> None:
        self.body = bytearray()  # what the application has not received
        self.is_received = False
        self.is_answered = False
        self.is_disconnected = False
        self.has_input_ended = False
        self.has_begun_answer = False
        self.keeps_alive = True
        self.awaits_continue = False
        self._flow = flow
        self._on_answered = on_answered
        self._default_headers = default_headers
        self._is_head = method == "HEAD"
        self._may_send_chunks = http_version != "1.0"
        self._head = b""  # of the answer, until the first piece of its body
        self._left: int | None = None  # bytes of the answer's body that are still to come; None if it has no length
        self._has_news = False  # since the application's last call of `receive`
        self._receiver: asyncio.Future[None] | None = None  # where the application waits for news

    # ---------------------------------------------------------------- what the connection calls

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Lets the application answer. A request that it fails to answer gets 500."""
        try:
            await app(scope, self.receive, self.send)
        except asyncio.CancelledError:
            _log.error("request_cancelled")  # the service stops and has waited long enough
        except Exception:  # noqa: BLE001 - every request gets an answer
            _log.error("application_failed", exc_info=True)
        else:
            if not self._is_over:
                _log.error("application_did_not_answer")
        if self._is_over:
            return
        self._head, self.keeps_alive = b"", False
        length = (b"content-length", b"%d" % len(_FAILURE))
        if not self.respond(500, [(b"content-type", b"text/plain; charset=utf-8"), length], _FAILURE):
            self._flow.transport.abort()

    @property
    def _is_over(self) -> bool:
        return self.is_answered or self.is_disconnected

    def add_body(self, piece: bytes) -> None:
        """Adds what has arrived of the body. It is dropped if the request has its answer."""
        if not self.is_answered:
            self.body += piece
            if len(self.body) > BODY_BYTES_MAX:
                self._flow.pause_reading()
            self._wake()

    def end_body(self) -> None:
        """Records that the body has arrived whole."""
        self.is_received = True
        self._wake()

    def disconnect(self) -> None:
        """Reports to the application that the client is gone, and sends nothing more of the answer."""
        self.is_disconnected = True
        self.body = bytearray()
        self._wake()

    # ---------------------------------------------------------------- what the application calls

    async def receive(self) -> Message:
        """Returns the next piece of the body, or `http.disconnect` once there is an answer or no client."""
        if self.awaits_continue and not self.has_begun_answer:
            self.awaits_continue = False
            self._flow.write(_CONTINUE)
        if not self._is_over:
            if not self.is_received:
                self._flow.resume_reading()
            if not self._has_news:
                self._receiver = asyncio.get_running_loop().create_future()
                await self._receiver
            self._has_news = False
        if self._is_over:
            return {"type": "http.disconnect"}
        piece, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": piece, "more_body": not self.is_received}

    async def send(self, message: Message) -> None:
        """Sends a part of the answer. Raises RuntimeError for a message that is out of order, a header with a line end,
        and a body whose length is not the one in its header.
        """
        if not self._flow.has_room and not self.is_disconnected:
            await self._flow.drain()
        if self.is_disconnected:
            return
        kind, has_head = message["type"], bool(self._head) or self.has_begun_answer
        if kind == "http.response.start" and not has_head:
            self._head = self._head_of_pieces(message["status"], list(message.get("headers", ())))
        elif kind == "http.response.body" and has_head and not self.is_answered:
            self._send_piece(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"the message {kind} is out of order")

    def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Sends a whole answer at once, as two messages of ASGI do at twice the cost. `headers` have its length.

        Returns False, having sent nothing, if the client does not read at the moment or an answer has begun. Raises
        RuntimeError for a header with a line end.
        """
        if self._head or self.has_begun_answer or self.is_disconnected or not self._flow.has_room:
            return False
        head = self._head_bytes(status, headers)
        self._flow.write(head if self._is_head else head + body)
        self._end()
        return True

    def has_left(self) -> bool:
        """Returns whether the client has closed its side of the connection, or is gone.

        One that closed its side still gets its answer, but a client that gives up does nothing else that can be seen.
        """
        return self.has_input_ended or self.is_disconnected

    # ---------------------------------------------------------------- how an answer is written

    def _head_of_pieces(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        self._left = next((int(value) for name, value in headers if name == b"content-length"), None)
        if self._is_head or status in _NO_BODY:
            self._left = 0
        elif self._left is None and self._may_send_chunks:
            headers.append((b"transfer-encoding", b"chunked"))
        elif self._left is None:
            self.keeps_alive = False  # the end of the connection is the end of the body
        return self._head_bytes(status, headers)

    def _head_bytes(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        lines = [STATUS_LINES[status], *[b"%b: %b\r\n" % field for field in (*self._default_headers, *headers)]]
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header of the answer contains a line end")
        if _CLOSE in head:
            self.keeps_alive = False
        elif not self.keeps_alive:
            head += _CLOSE
        return head + b"\r\n"

    def _send_piece(self, body: bytes, *, is_last: bool) -> None:
        if self._is_head:
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and is_last):
                raise RuntimeError("the answer's body does not have its content-length")
        elif self._may_send_chunks:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if is_last:
                body += b"0\r\n\r\n"
        head, self._head = self._head, b""
        self.has_begun_answer = True
        if head or body:
            self._flow.write(head + body)
        if is_last:
            self._end()

    def _end(self) -> None:
        self.has_begun_answer = self.is_answered = True
        self._wake()
        self._on_answered()

    def _wake(self) -> None:
        self._has_news = True
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)
