"""Spans of requests: the application that records them, and the attributes that a span gets at its end.

A request with a `traceparent` header (W3C Trace Context) continues the trace of its client.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import SpanKind, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.request import ApiRequest
from api.http.request_metrics import NO_ROUTE, OTHER_METHOD, RequestMetrics
from ledger.tracing.spans import fail, span_around

_CONTEXT_HEADERS: Final = (b"traceparent", b"tracestate")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_extract: Final = TraceContextTextMapPropagator().extract


class RequestSpans:
    """An application that records a span for each request to `app`."""

    def __init__(self, tracer: Tracer, app: ASGIApp) -> None:
        self._tracer = tracer
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else OTHER_METHOD
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CONTEXT_HEADERS
        }
        attributes = {"http.request.method": method}
        with span_around(self._tracer, method, attributes, kind=SpanKind.SERVER, context=_extract(carrier)):
            await self._app(scope, receive, send)


class DescribedRequests(RequestMetrics):
    """Request metrics that also describe the span of a request that has ended: with ids and codes, never its path."""

    def observe(self, request: ApiRequest, seconds: float) -> None:
        super().observe(request, seconds)
        scope, span = request.scope, get_current_span()
        route = scope["route"].path if "route" in scope else NO_ROUTE
        method = scope["method"] if scope["method"] in _METHODS else OTHER_METHOD
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", request.status)
        span.set_attribute("ledger.request_id", request.request_id)
        if request.merchant_id is not None:
            span.set_attribute("ledger.merchant_id", str(request.merchant_id))
            span.set_attribute("ledger.key_id", str(request.key_id))
        if request.error_code is not None:
            span.set_attribute("ledger.error_code", request.error_code)
        if request.status >= 500 or request.status == 0:
            fail(span, request.error_code or "ClientGone")
