"""The outermost layer: what happens to every request before a route is found and after it has answered or failed.

Match routes on the path as it was sent. A merchant's id may hold an encoded slash; decoded too early, it would be
another path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.error_responses import error_response
from api.http.errors import ApiError, ClientGone, DatabaseAway
from api.http.outage import Outage
from api.http.request import ApiRequest
from api.http.request_metrics import RequestMetrics
from api.http.response import ERRORS_PAGE
from ledger.telemetry.logs import ORDER, REQUEST_ID
from ledger.timeouts import Timeouts

REQUEST_SCOPE_KEY: Final = "ledger.call"
"""The scope's key of the `ApiRequest`."""


class _ErrorCode(Struct):
    """What the log needs of the answer to a failure."""

    code: str | None = None


_error_code: Final = msgspec.json.Decoder(_ErrorCode).decode
_TARGET_BYTES_MAX: Final = 8 << 10
_HEADERS_MAX: Final = 100
_HEADER_BYTES_MAX: Final = 32 << 10


class Middleware:
    """Wraps the router: request ids, limits of the request line and the headers, a deadline, an answer to every
    exception, and a measurement of every request.
    """

    def __init__(
        self,
        router: ASGIApp,
        traffic: RequestMetrics,
        *,
        timeout_s: float,
        errors_url: str = ERRORS_PAGE,
        has_database: Callable[[], bool] = lambda: True,
    ) -> None:
        self._router = router
        self._traffic = traffic
        self._timeout_s = timeout_s
        self._errors_url = errors_url
        self._outage = Outage(has_database)
        self._timeouts = Timeouts(self._outage.look)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request; passes the server's lifespan events on."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        began = perf_counter()
        scope[REQUEST_SCOPE_KEY] = request = ApiRequest(scope, receive, self._errors_url)
        REQUEST_ID.set(request.request_id)
        ORDER.set(request)
        self._outage.requests[request] = began

        def record_status(message: Message) -> Awaitable[None]:
            if not request.status:
                request.status = message["status"]
            return send(message)

        try:
            await self._answer(scope, receive, record_status, request)
        except ClientGone:
            pass
        finally:
            del self._outage.requests[request]
            self._traffic.observe(request, perf_counter() - began)
            # It refers to the scope: the two, and a body that nothing read, would wait for the garbage collector.
            del scope[REQUEST_SCOPE_KEY]

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request: ApiRequest) -> None:
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        scope["path"] = raw_path.decode("latin-1")
        try:
            with self._timeouts.within(self._timeout_s) as request.timeout:
                _check_size(scope, raw_path)
                await self._router(scope, receive, send)
        except ClientGone:
            raise
        except Exception as failure:  # noqa: BLE001 - every request gets an answer
            await self._refuse(_blamed(failure, request), request, send)
        except asyncio.CancelledError:  # the service stops and has waited long enough
            await self._refuse(TimeoutError(), request, send)

    async def _refuse(self, failure: Exception, request: ApiRequest, send: Send) -> None:
        """Answers a failure, and keeps the answer's code for the log."""
        response = error_response(failure, request.request_id, self._errors_url)
        request.error_code = _error_code(response.body).code
        await request.respond(response, send)


def _check_size(scope: Scope, raw_path: bytes) -> None:
    """Raises ApiError: 414 for a long path and query, 431 for many or long headers."""
    if len(raw_path) + len(scope["query_string"]) > _TARGET_BYTES_MAX:
        raise ApiError(414, "URI_TOO_LONG", f"The address must have at most {_TARGET_BYTES_MAX} bytes.")
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
    if size > _HEADER_BYTES_MAX or len(scope["headers"]) > _HEADERS_MAX:
        raise ApiError(431, "HEADERS_TOO_LARGE", f"The headers must have at most {_HEADER_BYTES_MAX} bytes.")


def _blamed(failure: Exception, request: ApiRequest) -> Exception:
    """Returns the failure, or what a time-out really is: the client's, while the body was still coming, or the
    database's.
    """
    if isinstance(failure, TimeoutError) and request.lost_database:
        return DatabaseAway()
    if isinstance(failure, TimeoutError) and request.is_reading:
        return ApiError(
            408,
            "REQUEST_TIMEOUT",
            "The body did not arrive in time: send the request again.",
            headers=((b"connection", b"close"),),
        )
    return failure
