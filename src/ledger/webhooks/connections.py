"""Sends a message over a connection that is kept open, and reads the answer.

The connections and the parser of answers are those of aiohttp. Its session is left out: it is made for all requests of
a browser, and takes twice as long as the rest to find that this one has no cookies, proxy, redirect or authorisation.
So none of them can happen.

The address is checked where the socket is made, so the one that was checked is the one connected to, whatever a name
resolved to before, and a literal is checked too. A connection that is kept open was checked when it was made.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
import ssl
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from msgspec import Struct
from yarl import URL

from ledger.webhooks.addresses import Destinations
from ledger.webhooks.attempts import BODY_READ_MAX
from ledger.webhooks.resolver import Resolver
from ledger.webhooks.urls import parse_url

RECEIVED_MAX: Final = 8 * BODY_READ_MAX
"""How many bytes a receiver may send to one message, with heads and the framing of chunks."""
_TARGETS_MAX: Final = 1_000
_ENCRYPTED_MAX: Final = 64 << 10
"""How long a message may be whose TLS connection is kept: the kernel takes so much at once, or soon."""
_CLOSING_MAX_S: Final = 15.0
"""How long a connection may take to close: it is open until the receiver has read what was sent, perhaps for ever."""
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_HEAD: Final = (
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nContent-Type: application/json\r\n"
    "User-Agent: payment-ledger\r\n"
    "Accept-Encoding: identity\r\n"  # a compressed answer could be of any size
)


class Progress(Struct):
    """How far an attempt is. `refused` are the addresses to which it may not connect.

    `is_reused` is whether the connection has carried a message before. `status` and `retry_after` are of the answer,
    `body` is what was read of it.
    """

    url: URL
    refused: list[str]
    body: bytearray
    is_connected: bool = False
    is_reused: bool = False
    status: int | None = None
    retry_after: str | None = None


class Target(Struct, frozen=True):
    """A receiver: its URL, the request by which aiohttp knows its connections, and the first lines of each message."""

    url: URL
    request: aiohttp.ClientRequest
    head: bytes


class ReceivedTooMuch(aiohttp.ClientError):
    """The receiver sent more than an answer may have."""


_progress: Final = ContextVar[Progress]("_progress")
"""The attempt for which aiohttp makes a socket: its hook gets no argument of the caller."""


class Connections:
    """The connections of one process to the receivers of webhooks. Make it inside the event loop.

    `tls` has the certificates that are trusted, without it those of the system.
    """

    def __init__(self, destinations: Destinations, resolver: Resolver, tls: ssl.SSLContext | None) -> None:
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._connector = aiohttp.TCPConnector(
            limit=0,  # the caller limits what is under way
            resolver=resolver,
            socket_factory=self._socket,
            ssl=tls or True,
        )
        # aiohttp has no setting for it; tests/webhooks/test_client.py fails if the name changes.
        self._connector._factory = partial(_BoundedHandler, loop=self._loop)  # type: ignore[assignment]  # noqa: SLF001
        self.target = lru_cache(_TARGETS_MAX)(self._target)

    async def close(self) -> None:
        await self._connector.close()

    def _target(self, text: str) -> Target:
        """Returns the receiver at a URL. Raises InvalidField."""
        url = parse_url(text)
        request = aiohttp.ClientRequest("POST", url, loop=self._loop)
        return Target(url, request, _HEAD.format(path=url.raw_path_qs, host=request.headers["Host"]).encode("ascii"))

    async def exchange(self, progress: Progress, target: Target, headers: dict[str, str], body: bytes) -> bool:
        """Sends a message, and notes the answer in `progress`. Returns whether it was read to its end.

        Raises aiohttp.ClientError, HttpProcessingError and OSError.
        """
        progress.is_connected = progress.is_reused = False
        token = _progress.set(progress)
        try:
            connection = await self._connector.connect(target.request, [], _NO_TIMEOUT)
        finally:
            _progress.reset(token)
        handler = cast("_BoundedHandler", connection.protocol)
        try:
            progress.is_connected, progress.is_reused = True, handler.is_used
            lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            handler.send(b"%b%bContent-Length: %d\r\n\r\n%b" % (target.head, lines.encode("ascii"), len(body), body))
            is_whole = await _read_answer(handler, progress)
        except BaseException:
            handler.abort()
            connection.close()
            raise
        if is_whole and handler.has_sent:
            handler.rest()
            connection.release()
            return True
        if is_whole:  # the rest of the message is still to leave: the receiver may want it, although it has answered
            handler.abort_later()
        else:
            handler.abort()
        connection.close()
        return is_whole

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Makes the socket of a connection, if its address is permitted. Raises PermissionError."""
        family, kind, protocol, _, address = info
        progress = _progress.get()
        if not self._destinations.permits(address[0], is_encrypted=progress.url.scheme == "https"):
            progress.refused.append(address[0])
            raise PermissionError(errno.EACCES, f"webhooks may not be sent to {address[0]}")
        return socket.socket(family, kind, protocol)


async def _read_answer(handler: _BoundedHandler, progress: Progress) -> bool:
    """Reads an answer up to BODY_READ_MAX bytes of its body. Returns whether that was all."""
    message, content = await handler.read()
    while 100 <= message.code < 200 and message.code != 101:  # an interim answer (RFC 9110, 15.2)
        message, content = await handler.read()
    progress.status = message.code
    progress.retry_after = message.headers.get("Retry-After")
    while piece := await content.readany():
        progress.body += piece
        if len(progress.body) > BODY_READ_MAX:
            return False
    return True


def _is_writable(descriptor: int) -> bool:
    """Returns whether the kernel takes more bytes of a connection."""
    looking = select.poll()
    looking.register(descriptor, select.POLLOUT)
    return bool(looking.poll(0))


class _BoundedHandler(ResponseHandler):
    """A connection that ends when a receiver sends too much, or sends anything between two messages. `is_used` is
    whether it has carried a message.

    aiohttp holds interim answers (100 Continue) without a limit, and reads those that wait in one go: a receiver that
    sends nothing else would occupy the event loop and the memory of the process. What comes between two messages, it
    takes for the answer to the next one: that would count as delivered, with an answer that perhaps is another
    merchant's, whose endpoint is at the same host.
    """

    _received = 0
    _size = 0
    _rests = False
    _aborting: asyncio.TimerHandle | None = None
    is_used = False

    def send(self, message: bytes) -> None:
        """Sends a message, to which one answer is expected. Raises ServerDisconnectedError."""
        if self.transport is None:
            raise aiohttp.ServerDisconnectedError
        self.is_used = True
        self._rests = False
        self._received = 0
        self._size = len(message)
        self.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=BODY_READ_MAX)
        self.transport.write(message)

    def rest(self) -> None:
        """Notes that the answer has been read: until the next message, none is expected."""
        self._rests = True

    def abort_later(self) -> None:
        """Ends the connection, which is closed now, if the receiver does not read what is still to be sent."""
        if self.transport is not None:
            self._aborting = self._loop.call_later(_CLOSING_MAX_S, self.transport.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._aborting is not None:
            self._aborting.cancel()
        super().connection_lost(exc)

    @property
    def has_sent(self) -> bool:
        """Whether all of the last message has left this process.

        A TLS transport counts what it has not encrypted yet. The rest waits in the transport below it, which is hidden:
        something may wait there while the kernel takes no more, and of a large message a moment longer.
        """
        if self.transport is None or self.transport.get_write_buffer_size():
            return False
        if self.transport.get_extra_info("ssl_object") is None:
            return True
        return self._size <= _ENCRYPTED_MAX and _is_writable(self.transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        if self._rests:
            self.abort()
            return
        room = RECEIVED_MAX - self._received
        self._received += len(data)
        if room > 0:
            # The head by itself: some receivers send a body with 204. The parser takes it for a broken further answer,
            # and would drop the one before it, which came in the same packet.
            head, end, rest = data[:room].partition(b"\r\n\r\n")
            super().data_received(head + end)
            if rest:
                super().data_received(rest)
        if self._received > RECEIVED_MAX:
            self.set_exception(ReceivedTooMuch())
            if self.transport is not None:
                self.transport.abort()
