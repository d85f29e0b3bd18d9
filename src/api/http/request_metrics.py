"""What passes through this process: how many requests, how they ended, how long they took, and a line for each in the
log.

Never record the path of a request: paths hold merchants' own ids. Record the template of its route.
"""

from __future__ import annotations

from typing import Any, Final

from prometheus_client import Histogram

from api.http.request import ApiRequest
from ledger.telemetry.logs import AccessLog
from ledger.telemetry.metrics import REQUEST_SECONDS, REQUESTS, value_of

NO_ROUTE: Final = "(none)"
"""The template of a request that no route matched."""

OTHER_METHOD: Final = "(other)"
"""The label of the methods that no operation has: the parser accepts 35, each with a histogram for each route."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CLASSES: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


class RequestMetrics:
    """Counts requests by method, route and status, and writes their lines if there is a log for them."""

    def __init__(self, log: AccessLog | None = None) -> None:
        self._log = log
        self._metrics: dict[tuple[str, str, int], tuple[Any, Histogram]] = {}

    def observe(self, request: ApiRequest, seconds: float) -> None:
        """Counts a request that has ended. Its status is 0 if the client closed the connection before the answer."""
        scope, status = request.scope, request.status
        route = scope["route"].path if "route" in scope else NO_ROUTE
        method = scope["method"]
        label = method if method in _METHODS else OTHER_METHOD
        key = label, route, status
        metrics = self._metrics.get(key)
        if metrics is None:
            code = str(status) if status else _CLASSES[0]
            counter = value_of(REQUESTS.labels(label, route, _CLASSES[status // 100], code))
            metrics = self._metrics[key] = counter, REQUEST_SECONDS.labels(label, route)
        metrics[0].inc(1)
        metrics[1].observe(seconds)
        if self._log is not None:
            self._log.note(
                method,
                route,
                status,
                seconds,
                request.request_id,
                request.merchant_id,
                request.key_id,
                request.error_code,
                request.order_id,
            )

    def close(self) -> None:
        """Writes the last lines."""
        if self._log is not None:
            self._log.flush()
