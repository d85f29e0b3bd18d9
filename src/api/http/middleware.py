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

from api.http.error_responses import error_response
from api.http.errors import ApiError, ClientGone
from api.http.request import ApiRequest
from api.http.request_metrics import RequestMetrics
from api.http.response import send_response
from ledger.telemetry.logs import REQUEST_ID
from ledger.timeouts import Timeouts

REQUEST_SCOPE_KEY: Final = "ledger.call"
"""Where the scope keeps the `Call`."""

_TARGET_BYTES_MAX: Final = 8 << 10
_HEADERS_MAX: Final = 100
_HEADER_BYTES_MAX: Final = 32 << 10


class Middleware:
    """Wraps the router: ids, limits on the request line and headers, a deadline, an answer to every exception, a note of
    every request.
    """

    def __init__(self, router: ASGIApp, traffic: RequestMetrics, *, timeout_s: float) -> None:
        self._router = router
        self._traffic = traffic
        self._timeout_s = timeout_s
        self._deadlines = Timeouts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; pass on the server's lifespan."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        began = perf_counter()
        scope[REQUEST_SCOPE_KEY] = call = ApiRequest(scope, receive)
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
            self._traffic.observe(call, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, call: ApiRequest) -> None:
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        scope["path"] = raw_path.decode("latin-1")
        try:
            with self._deadlines.within(self._timeout_s):
                _refuse_oversized(scope, raw_path)
                await self._router(scope, receive, send)
        except ClientGone:
            raise
        except Exception as failure:  # noqa: BLE001 - every request gets an answer
            await send_response(error_response(_told_apart(failure, call), call.request_id), send, call.answer_headers)
        except asyncio.CancelledError:  # the service ends and has waited long enough
            await send_response(error_response(TimeoutError(), call.request_id), send, call.answer_headers)


def _refuse_oversized(scope: Scope, raw_path: bytes) -> None:
    if len(raw_path) + len(scope["query_string"]) > _TARGET_BYTES_MAX:
        raise ApiError(414, "URI_TOO_LONG", f"The address must have at most {_TARGET_BYTES_MAX} bytes.")
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
    if size > _HEADER_BYTES_MAX or len(scope["headers"]) > _HEADERS_MAX:
        raise ApiError(431, "HEADERS_TOO_LARGE", f"The headers must have at most {_HEADER_BYTES_MAX} bytes.")


def _told_apart(failure: Exception, call: ApiRequest) -> Exception:
    """A deadline that passed while the body was still coming is the sender's, not ours."""
    if isinstance(failure, TimeoutError) and call.is_reading:
        return ApiError(
            408, "REQUEST_TIMEOUT", "The body did not arrive in time.", headers=((b"connection", b"close"),)
        )
    return failure
