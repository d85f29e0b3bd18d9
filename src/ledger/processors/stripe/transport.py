"""One request to Stripe: its deadline, its idempotency key, and what its failure means.

Raise `ProcessorUnavailable` only if the request had no effect: no connection was there that it could have left on, or
Stripe answered that it did not carry it out. Every other failure is `ProcessorTimedOut`.

Stripe stores the answer of a request under its key, a 500 as well, and repeats it. It stores no answer to a request
that it turned away: one with a key that is in use (409), or one too many (429). Source:
docs.stripe.com/api/idempotent_requests.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.stripe.forms import Form, encoded
from ledger.processors.stripe.objects import Error, Failure, List

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

URL: Final = "https://api.stripe.com"
VERSION: Final = "2026-08-26.dahlia"
"""The pinned version of the interface: answers keep this shape whatever version the account has set."""

_ANSWER_MAX: Final = 8 << 20
_CONNECT_S: Final = 10.0
_CONNECTIONS_MAX: Final = 1_000
_TRIES: Final = 4
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.2, 2.0
_PAGE: Final = 100
"""The most objects that a page of a list can have."""
_FORBIDDEN: Final = 403
_TURNED_AWAY: Final = frozenset({401, _FORBIDDEN})
_OK: Final = 200

T = TypeVar("T", bound=Struct)

_failures: Final = msgspec.json.Decoder(Failure)


class ReplayedFailure(ProcessorTimedOut):
    """Stripe repeats a failure of its own under this key. The request is over, and what it did is to be looked up."""


class _Disconnected(ProcessorTimedOut):
    """A connection that was kept open broke: Stripe may have closed it before the request left."""


class KeyRefused(ProcessorUnavailable):
    """Stripe refuses the account's secret key, or lets it not do this. The text is Stripe's own."""


class NotPermitted(KeyRefused):
    """The account's key is restricted, and Stripe does not let it do this."""


class Refused(Exception):
    """Stripe carried out nothing, or declined the card: the status is 400, 402, 404 or another one below 500."""

    def __init__(self, status: int, error: Error) -> None:
        super().__init__(f"status {status}, code {error.code}")
        self.status = status
        self.error = error


class Reply(Struct, frozen=True):
    """An answer. `is_replayed` if Stripe had it stored under the request's key."""

    status: int
    body: bytes
    is_replayed: bool = False
    retry_after: str | None = None


class _Sending:
    """What has become of a request under way. Once it is `connected`, its bytes may leave.

    `reused` is whether it had a connection of an earlier request, which the other side may be closing.
    """

    __slots__ = ("connected", "created", "reused")

    def __init__(self) -> None:
        self.connected = self.created = self.reused = False


_sending: Final = ContextVar[_Sending]("stripe_request")
"""The request that the current task sends."""


class _Connector(aiohttp.TCPConnector):
    """Connections that are noted on the request which gets them.

    `aiohttp` has events for that, which make it follow every step of every request: a tenth of its processor time.
    """

    async def connect(  # with the names of the method that it replaces
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Connection:
        sending = _sending.get()
        sending.created = False
        connection = await super().connect(req, traces, timeout)
        sending.connected = True
        sending.reused |= not sending.created
        return connection

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> ResponseHandler:
        created = await super()._create_connection(req, traces, timeout)
        _sending.get().created = True
        return created


class Connections:
    """The connections of one process to Stripe, shared by its accounts. They open with the first request."""

    def __init__(self, url: str = URL, *, connections_max: int = _CONNECTIONS_MAX) -> None:
        self.url = url.rstrip("/")
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """Returns the session of the running event loop."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=self._connections_max),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class Transport:
    """The requests of one account. Its secret key is in no text of this object."""

    def __init__(self, connections: Connections, secret_key: str) -> None:
        self._connections = connections
        self._headers = {"Authorization": f"Bearer {secret_key}", "Stripe-Version": VERSION}

    def __repr__(self) -> str:
        return "Transport(***)"

    async def get(self, path: str, form: Form, type_: type[T], *, deadline_at: datetime) -> T:
        """Returns an object. Raises Refused, ProcessorTimedOut and ProcessorUnavailable."""
        query = encoded(form)
        reply = await self._send("GET", f"{path}?{query}" if query else path, None, {}, deadline_at)
        return _decoded(reply, type_)

    async def post(self, path: str, form: Form, type_: type[T], *, key: str, deadline_at: datetime) -> T:
        """Sends a request under its idempotency key and returns the object. Raises like `get`, and ReplayedFailure."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/x-www-form-urlencoded"}
        return _decoded(await self._send("POST", path, encoded(form).encode(), headers, deadline_at), type_)

    async def list(self, path: str, form: Form, type_: type[T], *, deadline_at: datetime) -> AsyncIterator[T]:
        """Yields the objects of a list, the newest first, page after page. Raises like `get`."""
        after: str | None = None
        while True:
            asked = {**form, "limit": _PAGE, "starting_after": after}
            page = await self.get(path, asked, List[type_], deadline_at=deadline_at)  # type: ignore[valid-type]
            for item in page.data:
                yield item
            if not page.has_more or not page.data:
                return
            after = page.data[-1].id  # type: ignore[attr-defined]

    async def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], deadline_at: datetime
    ) -> Reply:
        """Sends a request, again if Stripe turned it away, until an answer or the deadline. Returns one below 500."""
        is_unknown = False
        for tries in range(_TRIES):
            try:
                reply = await self._once(method, path, data, headers, deadline_at)
            except _Disconnected:
                if is_unknown:
                    raise
                is_unknown = True  # the key makes the second request harmless
                continue
            except ProcessorUnavailable as failure:
                raise _failure(str(failure), is_unknown=is_unknown) from None
            if is_unknown and reply.status in _TURNED_AWAY:
                raise ProcessorTimedOut(
                    "Stripe refuses the account's key by now, and may have carried out an earlier try"
                )
            if reply.status not in {409, 429}:
                return _answered(reply)
            is_unknown |= reply.status == 409  # another request with this key, or about this object, is under way
            pause_s = _pause_s(reply, tries)
            if tries == _TRIES - 1 or _left_s(deadline_at) <= pause_s:
                break
            await asyncio.sleep(pause_s)
        raise _failure(
            "Stripe turned the request away: too many of them, or one like it is under way", is_unknown=is_unknown
        )

    async def _once(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], deadline_at: datetime
    ) -> Reply:
        """Sends a request once. Raises ProcessorUnavailable if no connection was there, else ProcessorTimedOut."""
        left_s = _left_s(deadline_at)
        if left_s <= 0:
            raise ProcessorUnavailable("the deadline passed before the request was sent")
        sent = _Sending()
        _sending.set(sent)
        try:
            async with self._connections.session().request(
                method,
                self._connections.url + path,
                data=data,
                headers={**self._headers, **headers},
                timeout=aiohttp.ClientTimeout(total=left_s, connect=min(_CONNECT_S, left_s)),
                allow_redirects=False,
            ) as response:
                body = await _body(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as failure:
            kind = type(failure).__name__
            if sent.reused and isinstance(failure, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
                raise _Disconnected(f"the connection broke: {kind}") from None
            if sent.connected:
                raise ProcessorTimedOut(f"Stripe did not answer: {kind}") from None
            raise ProcessorUnavailable(f"Stripe cannot be reached: {kind}") from None
        is_replayed = response.headers.get("Idempotent-Replayed") == "true"
        return Reply(response.status, body, is_replayed, response.headers.get("Retry-After"))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Returns the body of an answer. Raises ProcessorTimedOut if it is too large."""
    pieces, size = [], 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > _ANSWER_MAX:
            raise ProcessorTimedOut("Stripe's answer is too large")
        pieces.append(piece)
    return b"".join(pieces)


def _answered(reply: Reply) -> Reply:
    """Returns a reply that is an answer. Raises ProcessorUnavailable, ReplayedFailure, ProcessorTimedOut, Refused."""
    if reply.status == _OK:
        return reply
    if reply.status in _TURNED_AWAY:
        failure = NotPermitted if reply.status == _FORBIDDEN else KeyRefused
        raise failure(_message(reply) or f"Stripe refused the account's key with status {reply.status}.")
    if reply.status >= 500 and reply.is_replayed:
        raise ReplayedFailure(f"Stripe failed at this request with status {reply.status}, and repeats it")
    if reply.status >= 500 or not 400 <= reply.status < 500:
        raise ProcessorTimedOut(f"Stripe answered with status {reply.status}")
    try:
        error = _failures.decode(reply.body).error
    except (msgspec.DecodeError, RecursionError):
        raise ProcessorTimedOut(f"Stripe's answer with status {reply.status} is unreadable") from None
    raise Refused(reply.status, error)


def _message(reply: Reply) -> str | None:
    """Returns Stripe's own words, None if there are none."""
    try:
        return _failures.decode(reply.body).error.message
    except (msgspec.DecodeError, RecursionError):
        return None


def _decoded(reply: Reply, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=type_)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise ProcessorTimedOut(f"Stripe's answer is unreadable: {type(fault).__name__}") from None


def _failure(reason: str, *, is_unknown: bool) -> ProcessorTimedOut | ProcessorUnavailable:
    return ProcessorTimedOut(reason) if is_unknown else ProcessorUnavailable(reason)


def _pause_s(reply: Reply, tries: int) -> float:
    """Returns how long to wait before the next try: as long as Stripe asks for, else twice as long each time."""
    asked = reply.retry_after or ""
    if asked.isascii() and asked.isdecimal():
        return min(float(asked[:6]), 60.0)
    longest_s: float = min(_PAUSE_FIRST_S * 2**tries, _PAUSE_MAX_S)
    return longest_s * random.uniform(0.5, 1.0)


def _left_s(deadline_at: datetime) -> float:
    return (deadline_at - datetime.now(UTC)).total_seconds()
