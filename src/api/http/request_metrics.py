"""What passes through this process: how many requests, how they ended, how long they took, and a line for each in the log.

The rule a stranger would break: a request is known here by its route's template, never by its path. Paths hold merchants'
own ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api.http.request import ApiRequest
from ledger.telemetry.histogram import SECONDS, Histogram
from ledger.telemetry.logs import AccessLog
from ledger.telemetry.metrics import histogram_sample, metric_sample
from ledger.telemetry.shared_metrics import MetricSample

NO_ROUTE: Final = "(none)"
"""The template of a request that no route matched."""

_CLASSES: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


class RequestMetrics:
    """Counts requests by method, route and class of status, and writes their lines where there is a log for them."""

    def __init__(self, log: AccessLog | None = None) -> None:
        self._log = log
        self._seen: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, call: ApiRequest, seconds: float) -> None:
        """A request that has ended. Its status is 0 where nobody waited for an answer."""
        scope, status = call.scope, call.status
        route = scope["route"].path if "route" in scope else NO_ROUTE
        method = scope["method"]
        key = method, route, status // 100
        histogram = self._seen.get(key)
        if histogram is None:
            histogram = self._seen[key] = Histogram(SECONDS)
        histogram.add(seconds)
        if self._log is not None:
            self._log.note(method, route, status, seconds, call.request_id, call.merchant_id)

    def figures(self) -> Iterator[MetricSample]:
        """Requests by outcome, and their times."""
        for (method, route, status), histogram in self._seen.items():
            yield metric_sample("ledger_http_requests_total", sum(histogram.counts), method, route, _CLASSES[status])
            yield histogram_sample("ledger_http_request_seconds", histogram, method, route)

    def close(self) -> None:
        """Write the last lines."""
        if self._log is not None:
            self._log.flush()
