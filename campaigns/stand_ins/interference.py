"""A server between the ledger and what stands in for Stripe: it lets requests fail as a network does, and as Stripe does.

It works in front of any stand-in, also of one that has no faults of its own. A failure of Stripe's own is stored under the request's
key and replayed, as at Stripe (docs.stripe.com/api/idempotent_requests).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL


class Fault(StrEnum):
    """What becomes of one request."""

    REQUEST_LOST = "request lost"
    """The connection is reset, and nothing arrives."""
    ANSWER_LOST = "answer lost"
    """Everything is carried out, and the connection is reset."""
    ANSWER_CUT = "answer cut"
    """Everything is carried out, and half an answer comes back."""
    SILENT = "silent"
    """Everything is carried out, and no answer comes until the other side gives up."""
    LATE = "late"
    """The connection is reset at once, and the request arrives `late_s` later."""
    ERROR_BEFORE = "error before"
    """A 500 and no effect. The 500 is stored and replayed."""
    ERROR_AFTER = "error after"
    """A 500 after the effect. The 500 is stored and replayed."""
    LIMITED = "limited"
    """A 429, which is not stored."""
    IN_USE = "in use"
    """A 409 with `idempotency_key_in_use`, which is not stored."""


Decide = Callable[[web.Request], Fault | None]
"""Is called for every request. Returns its fault, None to leave it alone."""

_KEY: Final = "Idempotency-Key"
_HOP: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "keep-alive"})
_DECIDING: Final = ("/confirm", "/capture", "/cancel", "/v1/refunds")
_SILENCE_S: Final = 60.0


def decides(request: web.Request) -> bool:
    """Returns whether money can move by a request: a confirmation, a capture, a cancellation or a refund."""
    return request.method == "POST" and request.path.endswith(_DECIDING)


def never(_request: web.Request) -> None:
    """Disturbs nothing."""


class Interference:
    """The server before `upstream`. `decide` may be changed at any time.

    `faults` counts what has happened, `posts` the POST requests by the merchant in their keys. `shown` has the answers of
    paths that the stand-in does not have.
    """

    def __init__(
        self, upstream: str, decide: Decide = never, *, late_s: float = 1.0, shown: Mapping[str, object] | None = None
    ) -> None:
        self.decide = decide
        self.faults = Counter[Fault]()
        self.posts = Counter[str]()
        self.url = ""
        self._upstream = upstream.rstrip("/")
        self._late_s = late_s
        self._shown = shown or {}
        self._stored: dict[str, bytes] = {}
        self._ending = asyncio.Event()
        self._late = set[asyncio.Task[None]]()
        self._session: aiohttp.ClientSession

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answers a request as the stand-in does, or lets it fail."""
        if request.method == "GET" and request.path in self._shown:
            return web.json_response(self._shown[request.path])
        try:
            body, key = await request.read(), request.headers.get(_KEY)
        except ConnectionResetError:
            return web.Response()  # the other side has ended the connection within its request
        if request.method == "POST":
            self.posts[(key or "").partition(":")[0]] += 1
        if key is not None and key in self._stored:
            return _replayed(self._stored[key] == _digest(request, body))
        fault = self.decide(request)
        if fault is not None:
            self.faults[fault] += 1
        turned_away = self._turned_away(fault, request, body)
        if turned_away is not None:
            return turned_away
        return await self._answered(fault, request, await self._forward(request, body), body)

    def _turned_away(self, fault: Fault | None, request: web.Request, body: bytes) -> web.Response | None:
        """Returns the answer of a fault before the request arrives, None if it is to arrive."""
        match fault:
            case Fault.REQUEST_LOST:
                return _reset(request)
            case Fault.LATE:
                self._later(request, body)
                return _reset(request)
            case Fault.LIMITED:
                return _error(429, "rate_limit", "Request rate limit exceeded.")
            case Fault.IN_USE:
                return _error(409, "idempotency_key_in_use", "Another request with this key is under way.")
            case Fault.ERROR_BEFORE:
                return self._fail(request, body)
            case _:
                return None

    async def _answered(
        self, fault: Fault | None, request: web.Request, answer: web.Response, body: bytes
    ) -> web.StreamResponse:
        """Returns the stand-in's answer, or that of a fault afterwards."""
        match fault:
            case Fault.ERROR_AFTER:
                return self._fail(request, body)
            case Fault.ANSWER_LOST:
                return _reset(request)
            case Fault.SILENT:
                await self._wait(_SILENCE_S)
                return _reset(request)
            case Fault.ANSWER_CUT:
                return await _cut(request, answer)
            case _:
                return answer

    async def open(self) -> None:
        """Begins. Each request has a connection of its own: one that the stand-in closes meanwhile would be a fault too."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Lets late requests arrive, and ends the silence of the others."""
        self._ending.set()
        await asyncio.gather(*self._late)
        await self._session.close()

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
        url = URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            passed = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP]
            return web.Response(body=await answer.read(), status=answer.status, headers=dict(passed))

    def _later(self, request: web.Request, body: bytes) -> None:
        async def arrive() -> None:
            await self._wait(self._late_s)
            await self._forward(request, body)

        task = asyncio.get_running_loop().create_task(arrive())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _wait(self, seconds: float) -> None:
        waiting = asyncio.create_task(self._ending.wait())
        await asyncio.wait([waiting], timeout=seconds)
        waiting.cancel()

    def _fail(self, request: web.Request, body: bytes) -> web.Response:
        key = request.headers.get(_KEY)
        if key is not None:
            self._stored[key] = _digest(request, body)
        return _error(500, None, "An unknown error occurred.")


@asynccontextmanager
async def interfered(
    upstream: str, decide: Decide = never, *, late_s: float = 1.0, shown: Mapping[str, object] | None = None
) -> AsyncIterator[Interference]:
    """Runs the server in front of a stand-in; its `url` is what to connect to."""
    between = Interference(upstream, decide, late_s=late_s, shown=shown)
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", between.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    between.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await between.open()
    try:
        yield between
    finally:
        await between.close()
        await runner.cleanup()


def _digest(request: web.Request, body: bytes) -> bytes:
    return blake2b(request.raw_path.encode() + b"\0" + body, digest_size=16).digest()


def _replayed(is_same: bool) -> web.Response:
    if not is_same:
        text = "Keys for idempotent requests can only be used with the same parameters they were first used with."
        return _error(400, None, text, kind="idempotency_error")
    answer = _error(500, None, "An unknown error occurred.")
    answer.headers["Idempotent-Replayed"] = "true"
    return answer


def _error(status: int, code: str | None, message: str, *, kind: str = "api_error") -> web.Response:
    error = {"type": kind, "message": message} | ({} if code is None else {"code": code})
    return web.Response(text=json.dumps({"error": error}), status=status, content_type="application/json")


def _reset(request: web.Request) -> web.Response:
    """Breaks the connection. What is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """Sends half of an answer, and breaks the connection."""
    body = answer.body if isinstance(answer.body, bytes) else b""
    half = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
    half.content_length = len(body)
    await half.prepare(request)
    await half.write(body[: len(body) // 2])
    return _reset(request)
