"""Posts webhooks. The receivers are chosen by merchants: expect every kind of answer, and none.

The address is checked where the socket is made (`_socket`), so the one that was checked is the one connected to,
whatever a name resolved to before, and a literal is checked too. A connection that is kept open was checked when it was
made. No redirects, no proxies, no cookies: each of them would have the client talk to another address, or remember.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache, partial
from http import HTTPStatus
from threading import Thread
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from msgspec import Struct
from yarl import URL

from ledger.domain.rejections import InvalidField
from ledger.webhooks.addresses import Destinations
from ledger.webhooks.attempts import BODY_READ_MAX, Attempt, Outcome, kept_text, retry_after
from ledger.webhooks.signing import signed_headers
from ledger.webhooks.urls import FIELD, parse_url

TIMEOUT_S: Final = 15.0
_LOOK_UP_S: Final = 5.0
_LOOK_UPS_MAX: Final = 512
"""How many names are looked up at once, most of which hang if there are so many."""
_HEADERS: Final = {
    "Content-Type": "application/json",
    "User-Agent": "payment-ledger",
    "Accept-Encoding": "identity",  # a compressed answer could be of any size
}
_RECEIVED_MAX: Final = 8 * BODY_READ_MAX
"""How many bytes a receiver may send to one message, with heads and the framing of chunks."""
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)

_parsed: Final = lru_cache(maxsize=1_000)(parse_url)

LookUp = Callable[..., Sequence[tuple[Any, ...]]]
"""`socket.getaddrinfo`, or what replaces it."""


class _Progress(Struct):
    """How far an attempt is. `refused` are the addresses to which it may not connect."""

    url: URL
    refused: list[str]
    is_connected: bool = False
    is_reused: bool = False
    status: int | None = None
    body: bytearray = bytearray()
    retry_after: str | None = None


_progress: Final = ContextVar[_Progress]("_progress")
"""The attempt for which aiohttp makes a socket: its hooks get no argument of the caller."""


class WebhookClient:
    """The connections of one process to the receivers of webhooks. They open with the first attempt.

    `look_up` resolves names; `tls` has the certificates that are trusted, without it those of the system.
    """

    def __init__(
        self, destinations: Destinations, *, look_up: LookUp = socket.getaddrinfo, tls: ssl.SSLContext | None = None
    ) -> None:
        self._destinations = destinations
        self._resolver = _Resolver(look_up)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def require_permitted(self, text: str) -> None:
        """Raises InvalidField for a URL to which no message may be sent, with `url` as the field.

        Every address of a name is checked. A name without one is accepted: it may get one later.
        """
        url = parse_url(text)
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                found = await self._resolver.resolve(url.raw_host or "", url.port or 0)
        except OSError:  # TimeoutError too
            return
        is_encrypted = url.scheme == "https"
        for address in (each["host"] for each in found):
            if not self._destinations.permits(address, is_encrypted=is_encrypted):
                raise InvalidField(FIELD, self._problem(url, address), "URL_NOT_ALLOWED")

    async def post(
        self, text: str, message_id: str, body: bytes, secrets: Sequence[str], *, timeout_s: float = TIMEOUT_S
    ) -> Attempt:
        """Posts a message once, within `timeout_s` in all, and returns how it ended.

        A message may arrive twice: if a kept connection breaks, it is sent again on a new one.
        """
        at, began = datetime.now(UTC), time.monotonic()
        try:
            progress = _Progress(_parsed(text), [], body=bytearray())
        except InvalidField as wrong:
            return Attempt(at=at, duration_ms=0, outcome=Outcome.NOT_ALLOWED, error=wrong.message)
        headers = {**_HEADERS, **signed_headers(message_id, body, secrets, at)}
        token = _progress.set(progress)
        try:
            async with asyncio.timeout(timeout_s):
                outcome, error = await self._answer(progress, headers, body)
        except TimeoutError:
            outcome, error = Outcome.TIMED_OUT, _late(progress, timeout_s)
        finally:
            _progress.reset(token)
        return Attempt(
            at=at,
            duration_ms=round((time.monotonic() - began) * 1000),
            outcome=outcome,
            error=error,
            response_status=progress.status,
            response_body=kept_text(bytes(progress.body)),
            retry_after=None if outcome is Outcome.DELIVERED else retry_after(progress.retry_after, datetime.now(UTC)),
        )

    async def _answer(self, progress: _Progress, headers: dict[str, str], body: bytes) -> tuple[Outcome, str | None]:
        try:
            while True:
                progress.is_reused = False
                try:
                    return await self._exchange(progress, headers, body)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    # The receiver closed a connection that was kept open, perhaps before the message left.
                    if not progress.is_reused or progress.status is not None:
                        raise
        except _FAILURES as failure:
            return self._failed(progress, failure)

    async def _exchange(self, progress: _Progress, headers: dict[str, str], body: bytes) -> tuple[Outcome, str | None]:
        async with self._opened().post(progress.url, data=body, headers=headers, allow_redirects=False) as response:
            progress.status = response.status
            progress.retry_after = response.headers.get("Retry-After")
            while piece := await response.content.readany():
                progress.body += piece
                if len(progress.body) > BODY_READ_MAX:
                    response.close()
                    return Outcome.TOO_LONG, (
                        f"The receiver answered {response.status} with more than {BODY_READ_MAX} bytes: "
                        "answer with a short body, or none."
                    )
            return _judged(response)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_create_end.append(_connected)
            tracing.on_connection_reuseconn.append(_reused)
            connector = aiohttp.TCPConnector(
                limit=0,  # the caller limits what is under way
                resolver=self._resolver,
                socket_factory=self._socket,
                ssl=self._tls or True,
            )
            # aiohttp has no setting for it; tests/webhooks/test_client.py fails if the name changes.
            connector._factory = partial(_BoundedHandler, loop=asyncio.get_running_loop())  # type: ignore[assignment]  # noqa: SLF001
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[tracing],
                auto_decompress=False,
                trust_env=False,
                read_bufsize=BODY_READ_MAX,
            )
        return self._session

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Makes the socket of a connection, if its address is permitted. Raises PermissionError."""
        family, kind, protocol, _, address = info
        progress = _progress.get()
        if not self._destinations.permits(address[0], is_encrypted=progress.url.scheme == "https"):
            progress.refused.append(address[0])
            raise PermissionError(errno.EACCES, f"webhooks may not be sent to {address[0]}")
        return socket.socket(family, kind, protocol)

    def _problem(self, url: URL, address: str) -> str:
        if self._destinations.permits(address, is_encrypted=True):
            return "must begin with https://: nothing is sent in the clear over the public internet"
        named = "is" if address == url.raw_host else f"leads to {address},"
        return f"{named} an address to which no messages may be sent: use one on the public internet"

    def _failed(self, progress: _Progress, failure: Exception) -> tuple[Outcome, str]:
        """Returns what a failure means, in words for the merchant."""
        host = progress.url.raw_host
        if progress.refused and not progress.is_connected:
            return Outcome.NOT_ALLOWED, f"url {self._problem(progress.url, progress.refused[0])}."
        match failure:
            case _ReceivedTooMuch():
                return Outcome.TOO_LONG, f"The receiver sent more than {_RECEIVED_MAX} bytes, and no answer that ends."
            case aiohttp.ClientConnectorDNSError():
                return (
                    Outcome.UNRESOLVED,
                    f"The name {host} has no address: check the endpoint's url and your DNS records.",
                )
            case aiohttp.ClientConnectorCertificateError():
                reason = getattr(failure.certificate_error, "verify_message", "it cannot be verified")
                return Outcome.TLS, f"The certificate of {host} is not valid: {reason}."
            case aiohttp.ClientConnectorSSLError():
                reason = getattr(failure.os_error, "reason", None) or "the receiver speaks none"
                return Outcome.TLS, f"No TLS connection with {host}: {reason}."
            case aiohttp.ClientConnectorError():
                return Outcome.UNREACHABLE, f"No connection to {host}: {failure.os_error.strerror or 'it was refused'}."
            case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() if progress.status is None:
                return Outcome.UNREADABLE, "The receiver closed the connection without an answer."
            case aiohttp.InvalidURL():
                return Outcome.NOT_ALLOWED, f"The endpoint's url cannot be used: {failure.description or host}."
            case _ if progress.status is not None:
                return Outcome.UNREADABLE, f"The receiver answered {progress.status}, and its answer broke off."
            case _:
                return Outcome.UNREADABLE, "The receiver's answer is not HTTP."


class _ReceivedTooMuch(aiohttp.ClientError):
    """The receiver sent more than an answer may have."""


class _BoundedHandler(ResponseHandler):
    """A connection that ends when a receiver sends too much.

    aiohttp holds interim answers (100 Continue) without a limit, and reads those that wait in one go: a receiver that
    sends nothing else would occupy the event loop and the memory of the process.
    """

    _received = 0

    def set_response_params(self, **options: Any) -> None:
        self._received = 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        room = _RECEIVED_MAX - self._received
        self._received += len(data)
        if room > 0:
            super().data_received(data[:room])
        if self._received > _RECEIVED_MAX:
            self.set_exception(_ReceivedTooMuch())
            if self.transport is not None:
                self.transport.abort()


_Found = Sequence[tuple[Any, ...]]


class _Resolver(AbstractResolver):
    """Resolves each name in a thread of its own, for which the end of the process does not wait.

    The library's call cannot be ended, and takes as long as the name servers like. So a name that hangs has one thread,
    however often it is asked for, and delays no other name.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._under_way: dict[tuple[str, int, int], asyncio.Future[_Found]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        key = host, port, int(family)
        while key not in self._under_way and len(self._under_way) >= _LOOK_UPS_MAX:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        found = await asyncio.shield(self._under_way.get(key) or self._begin(key))
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return [
            ResolveResult(hostname=host, host=each[4][0], port=port, family=each[0], proto=each[2], flags=0)
            for each in found
        ]

    async def close(self) -> None:
        """Does nothing: a thread whose name server hangs cannot be ended."""

    def _begin(self, key: tuple[str, int, int]) -> asyncio.Future[_Found]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[_Found] = loop.create_future()

        def ended(_: asyncio.Future[_Found]) -> None:
            del self._under_way[key]
            found.exception()  # those who wait may have given up

        def look_up() -> None:
            try:
                settle = partial(found.set_result, self._look_up(*key, socket.SOCK_STREAM))
            except Exception as fault:  # noqa: BLE001 - raised where it is waited for
                settle = partial(found.set_exception, fault)
            with suppress(RuntimeError):  # the process is ending
                loop.call_soon_threadsafe(settle)

        try:
            Thread(target=look_up, name="webhook-name", daemon=True).start()
        except RuntimeError:
            raise socket.gaierror(socket.EAI_AGAIN, "no thread for it") from None
        self._under_way[key] = found
        found.add_done_callback(ended)
        return found


async def _connected(_session: aiohttp.ClientSession, _context: SimpleNamespace, _about: Any) -> None:
    _progress.get().is_connected = True


async def _reused(_session: aiohttp.ClientSession, _context: SimpleNamespace, _about: Any) -> None:
    progress = _progress.get()
    progress.is_connected = progress.is_reused = True


def _judged(response: aiohttp.ClientResponse) -> tuple[Outcome, str | None]:
    """Returns what a whole answer means."""
    status = response.status
    if 200 <= status < 300:
        return Outcome.DELIVERED, None
    if 300 <= status < 400:
        return Outcome.REDIRECT, (
            f"The receiver answered {status}, a redirect, which is not followed: give the endpoint the url that answers."
        )
    return (
        Outcome.STATUS,
        f"The receiver answered {status}{_phrase(status)}: only a status from 200 to 299 is a success.",
    )


def _phrase(status: int) -> str:
    return f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""


def _late(progress: _Progress, timeout_s: float) -> str:
    """Returns for what the time was not enough."""
    if progress.status is not None:
        return f"The receiver answered {progress.status}, but did not end its answer within {timeout_s:g} s."
    if progress.is_connected:
        return f"The receiver did not answer within {timeout_s:g} s."
    return f"No connection to {progress.url.raw_host} within {timeout_s:g} s."
