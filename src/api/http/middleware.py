"""The outermost layer: what happens to every request before a route is found and after it has answered or failed.

Match routes on the path as it was sent. A merchant's id may hold an encoded slash; decoded too early, it would be
another path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain
from time import perf_counter
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send

from api.errors import ApiError, ClientGone, DatabaseAway
from api.http.endpoint import RouteTable
from api.http.error_responses import error_response
from api.http.open_requests import OpenRequests
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.http.request_metrics import RequestMetrics
from api.response import ERRORS_PAGE
from ledger.asgi import ENDING
from ledger.journal.append import CommitUnknown
from ledger.telemetry.logs import REQUEST


class _ErrorCode(Struct):
    """What the log needs of the answer to a failure."""

    code: str | None = None


_error_code: Final = msgspec.json.Decoder(_ErrorCode).decode
_TARGET_BYTES_MAX: Final = 8 << 10
_HEADERS_MAX: Final = 100
_HEADER_BYTES_MAX: Final = 32 << 10


class Middleware:
    """Wraps the routes: request ids, limits of the request line and the headers, a deadline, an answer to every
    exception, and a measurement of every request. `ending` is set once the process is to end.
    """

    def __init__(
        self,
        routes: RouteTable,
        traffic: RequestMetrics,
        *,
        timeout_s: float,
        errors_url: str = ERRORS_PAGE,
        has_database: Callable[[], bool] = lambda: True,
    ) -> None:
        self._routes = routes
        self._traffic = traffic
        self._errors_url = errors_url
        self.open_requests = OpenRequests(timeout_s, has_database)
        self.ending = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request; passes the server's lifespan events on."""
        if scope["type"] != "http":
            self.ending = scope.get(ENDING, self.ending)
            await self._routes(scope, receive, send)
            return
        scope[REQUEST_SCOPE_KEY] = request = ApiRequest(scope, receive, self._errors_url)
        REQUEST.set(request)

        def record_status(message: Message) -> Awaitable[None]:
            if not request.status:
                request.status = message["status"]
            return send(message)

        self.open_requests.add(request)
        try:
            raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
            scope["path"] = raw_path.decode("latin-1")
            _check_size(scope, raw_path)
            answer = self._routes.find(scope)
            await answer(scope, receive, record_status)
        except ClientGone:
            pass
        except Exception as failure:  # noqa: BLE001 - every request gets an answer
            await self._refuse(_blamed(failure, request), request, record_status)
        except asyncio.CancelledError:  # its time is over, or the service stops and has waited long enough
            await self._refuse(_blamed(TimeoutError(), request), request, record_status)
        finally:
            self.open_requests.remove(request)
            self._traffic.observe(request, perf_counter() - request.began)
            # It refers to the scope: the two, and a body that nothing read, would wait for the garbage collector.
            del scope[REQUEST_SCOPE_KEY]

    async def _refuse(self, failure: Exception, request: ApiRequest, send: Send) -> None:
        """Answers a failure, and keeps the answer's code for the log."""
        self.open_requests.remove(request)
        response = error_response(failure, request.request_id, self._errors_url)
        request.error_code = _error_code(response.body).code
        await request.respond(response, send)


def _check_size(scope: Scope, raw_path: bytes) -> None:
    """Raises ApiError: 414 for a long path and query, 431 for many or long headers."""
    if len(raw_path) + len(scope["query_string"]) > _TARGET_BYTES_MAX:
        raise ApiError(414, "URI_TOO_LONG", f"The address must have at most {_TARGET_BYTES_MAX} bytes.")
    size = sum(map(len, chain.from_iterable(scope["headers"])))
    if size > _HEADER_BYTES_MAX or len(scope["headers"]) > _HEADERS_MAX:
        raise ApiError(431, "HEADERS_TOO_LARGE", f"The headers must have at most {_HEADER_BYTES_MAX} bytes.")


def _blamed(failure: Exception, request: ApiRequest) -> Exception:
    """Returns the failure, or what a time-out really is: the client's, while the body was still coming, or the
    database's.
    """
    if isinstance(failure, TimeoutError) and request.lost_database:
        return DatabaseAway()
    if isinstance(failure, TimeoutError) and request.is_unconfirmed:
        return CommitUnknown()
    if isinstance(failure, TimeoutError) and request.has_timed_out and request.is_reading:
        return ApiError(
            408,
            "REQUEST_TIMEOUT",
            "The body did not arrive in time: send the request again.",
            headers=((b"connection", b"close"),),
        )
    return failure
