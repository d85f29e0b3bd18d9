"""The outermost layer: what happens to every request before a route is found and after it has answered or failed.

The rule a stranger would break: routes are matched on the path as it was sent. A merchant's id may hold an encoded slash;
decoded too early, it would be another path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.error_responses import answer_to
from api.http.errors import ClientGone, Refusal
from api.http.request import Call
from api.http.request_metrics import Traffic
from api.http.response import send_answer
from ledger.telemetry.logs import REQUEST_ID
from ledger.timeouts import Deadlines

CALL: Final = "ledger.call"
"""Where the scope keeps the `Call`."""

_TARGET_BYTES_MAX: Final = 8 << 10
_HEADERS_MAX: Final = 100
_HEADER_BYTES_MAX: Final = 32 << 10


class Edge:
    """Wraps the router: ids, limits on the request line and headers, a deadline, an answer to every exception, a note of
    every request.
    """

    def __init__(self, router: ASGIApp, traffic: Traffic, *, timeout_s: float) -> None:
        self._router = router
        self._traffic = traffic
        self._timeout_s = timeout_s
        self._deadlines = Deadlines()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; pass on the server's lifespan."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        began = perf_counter()
        scope[CALL] = call = Call(scope, receive)
        REQUEST_ID.set(call.request_id)

        def noting(message: Message) -> Awaitable[None]:
            if not call.status:
                call.status = message["status"]
            return send(message)

        try:
            await self._answer(scope, receive, noting, call)
        except ClientGone:
            pass
        finally:
            self._traffic.note(call, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        scope["path"] = raw_path.decode("latin-1")
        try:
            with self._deadlines.within(self._timeout_s):
                _refuse_oversized(scope, raw_path)
                await self._router(scope, receive, send)
        except ClientGone:
            raise
        except Exception as failure:  # noqa: BLE001 - every request gets an answer
            await send_answer(answer_to(_told_apart(failure, call), call.request_id), send, call.answer_headers)
        except asyncio.CancelledError:  # the service ends and has waited long enough
            await send_answer(answer_to(TimeoutError(), call.request_id), send, call.answer_headers)


def _refuse_oversized(scope: Scope, raw_path: bytes) -> None:
    if len(raw_path) + len(scope["query_string"]) > _TARGET_BYTES_MAX:
        raise Refusal(414, "URI_TOO_LONG", f"The address must have at most {_TARGET_BYTES_MAX} bytes.")
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
    if size > _HEADER_BYTES_MAX or len(scope["headers"]) > _HEADERS_MAX:
        raise Refusal(431, "HEADERS_TOO_LARGE", f"The headers must have at most {_HEADER_BYTES_MAX} bytes.")


def _told_apart(failure: Exception, call: Call) -> Exception:
    """A deadline that passed while the body was still coming is the sender's, not ours."""
    if isinstance(failure, TimeoutError) and call.is_reading:
        return Refusal(408, "REQUEST_TIMEOUT", "The body did not arrive in time.", headers=((b"connection", b"close"),))
    return failure
