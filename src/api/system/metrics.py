"""GET /metrics: the figures of every process of the service, as Prometheus reads them.

The rule a stranger would break: this is for operators. Without a token it answers only whoever asks from this machine and
is not passed on by a proxy; everybody else is told that there is nothing here.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder
from api.http.errors import ApiError, method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from ledger.journal.journal import journal_metrics
from ledger.postgres.dataloader import dataloader_metrics
from ledger.postgres.faults import Fault
from ledger.settings import Settings
from ledger.telemetry.metrics import FAMILIES, Family, metric_sample
from ledger.telemetry.shared_metrics import MetricSample, SharedMetrics, summed

METRICS: Final = "/metrics"
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
_PASSED_ON: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})


class Metrics:
    """The endpoint."""

    def __init__(self, house: DependencyHolder, board: SharedMetrics, settings: Settings) -> None:
        self._house = house
        self._board = board
        self._token = settings.metrics_token
        self._margin = timedelta(seconds=settings.recovery_margin_s)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request. Raises Refusal."""
        call: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if not self._may_see(scope, call.headers):
            raise ApiError(404, "NOT_FOUND", "There is nothing at this address.")
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        body = generate_latest(_Figures([*self._gathered(), *await self._open_calls()]))
        headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body)), *call.answer_headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _may_see(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        if self._token is not None:
            sent = headers.get(b"authorization", b"")
            return hmac.compare_digest(sent, b"Bearer " + self._token.encode())
        client = scope.get("client")
        return client is not None and client[0] in _LOOPBACK and _PASSED_ON.isdisjoint(headers)

    def _gathered(self) -> Iterator[MetricSample]:
        """The figures of all processes, ours as they are now; those of each alone under its name."""
        self._board.publish()
        for process, readings in self._board.read():
            for reading in readings:
                if FAMILIES[reading.name].each:
                    yield MetricSample(reading.name, (*reading.labels, process), reading.value)
                else:
                    yield reading

    async def _open_calls(self) -> list[MetricSample]:
        """What waits for the recovery, asked of the database; nothing where that cannot be asked."""
        if self._house.rooms is None:
            return []
        try:
            number, oldest = await self._house.rooms.reader.open_calls()
            reacted_until = await self._house.rooms.reader.reacted_until()
            messages, since, set_aside = await self._house.rooms.reader.waiting_messages()
        except Fault:
            return []
        overdue = timedelta() if oldest is None else datetime.now(UTC) - oldest - self._margin
        behind = datetime.now(UTC) - reacted_until
        waited = timedelta() if since is None else datetime.now(UTC) - since
        return [
            metric_sample("ledger_reactions_lag_seconds", max(0.0, behind.total_seconds())),
            metric_sample("ledger_messages_waiting", messages),
            metric_sample("ledger_messages_set_aside", set_aside),
            metric_sample("ledger_messages_waiting_seconds", max(0.0, waited.total_seconds())),
            metric_sample("ledger_recovery_open", number),
            metric_sample("ledger_recovery_overdue_seconds", max(0.0, overdue.total_seconds())),
        ]


def rooms_figures(rooms: Dependencies) -> Iterator[MetricSample]:
    """What the parts count that requests are answered with."""
    yield from journal_metrics(rooms.ledger.journal)
    yield from dataloader_metrics(rooms.reader.points)
    yield metric_sample("ledger_http_rate_limited_total", (rooms.shared_limiter or rooms.limiter).refused)


class _Figures(Collector):
    """Readings in the library's own terms: it knows how they are written."""

    def __init__(self, readings: Iterable[MetricSample]) -> None:
        self._readings: dict[str, list[MetricSample]] = defaultdict(list)
        for reading in summed(readings):
            self._readings[reading.name].append(reading)

    def collect(self) -> Iterator[Metric]:
        for name, family in FAMILIES.items():
            yield _metric(name, family, self._readings[name])


def _metric(name: str, family: Family, readings: Iterable[MetricSample]) -> Metric:
    labels = [*family.labels, "process"] if family.each else list(family.labels)
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, family.about, labels=labels)
        for reading in readings:
            assert isinstance(reading.value, list), "the family says so"
            *counts, total = reading.value
            histogram.add_metric(reading.labels, _cumulative(family.bounds, counts), total)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(name, family.about, labels=labels)
    for reading in readings:
        assert not isinstance(reading.value, list), "the family says so"
        metric.add_metric(reading.labels, reading.value)
    return metric


def _cumulative(bounds: Iterable[float], counts: Iterable[float]) -> list[tuple[str, float]]:
    buckets, seen = [], 0.0
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        seen += count
        buckets.append((bound, seen))
    return buckets
