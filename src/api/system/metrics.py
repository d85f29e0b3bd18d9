"""GET /metrics: the metrics of every process of the service, in Prometheus' text format.

The endpoint is for operators, who send the token of `LEDGER_METRICS_TOKEN`. Without such a setting it answers only
clients on this machine, and only if the service can have no others: it listens on loopback alone, and no proxy is
configured. All others get a 404.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client import generate_latest
from starlette.types import Receive, Scope, Send

from api.errors import method_not_allowed, no_such_operation
from api.http.dependencies import DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from ledger.operations.message_delivery import UNMATCHED
from ledger.postgres.faults import Fault
from ledger.settings import Settings, is_private
from ledger.telemetry import metrics
from projections.queries import Queries

METRICS: Final = "/metrics"
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

COUNT_S: Final = 10.0
"""How long the numbers of orders and payments are kept, in seconds: on a large ledger a count takes a while."""

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
_FORWARDED: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})


class Metrics:
    """The endpoint."""

    def __init__(self, holder: DependencyHolder, settings: Settings) -> None:
        self._holder = holder
        self._token = settings.metrics_token
        self._trusts_loopback = is_private(settings)
        self._alarm_s = settings.unmatched_alarm_s
        self._margin = timedelta(seconds=settings.recovery_margin_s)
        self._counted_at: float | None = None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers one request. Raises ApiError."""
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if not self._may_see(scope, request.headers):
            raise no_such_operation()
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        await self._ask_database()
        # In a thread: reading the files of all processes takes 30 ms if there are many routes.
        body = await asyncio.to_thread(generate_latest, metrics.AllProcesses())
        headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body)), *request.answer_headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _may_see(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        if self._token is not None:
            sent = headers.get(b"authorization", b"")
            return hmac.compare_digest(sent, b"Bearer " + self._token.encode())
        client = scope.get("client")
        return (
            self._trusts_loopback and client is not None and client[0] in _LOOPBACK and _FORWARDED.isdisjoint(headers)
        )

    async def _ask_database(self) -> None:
        """Sets the gauges that the database knows; to None while it is away."""
        try:
            if (deps := self._holder.deps) is None:
                raise not_started()
            await self._count(deps.queries)
            values = await self._measure(deps.queries)
        except Fault:
            self._counted_at = None
            _forget_counts()
            metrics.STANDBYS.value = metrics.SERVICE_PROCESSES.value = None
            values = (None,) * len(metrics.ASKED)
        for gauge, value in zip(metrics.ASKED, values, strict=True):
            gauge.value = value

    async def _count(self, queries: Queries) -> None:
        """Counts what a count takes a while for, if the last one is too old. One that fails leaves no numbers."""
        if self._counted_at is not None and time.monotonic() - self._counted_at < COUNT_S:
            return
        self._counted_at = time.monotonic()
        try:
            metrics.ORDERS.value = await queries.orders_by_status()
            metrics.OPEN_PAYMENTS.value = await queries.open_payments()
            metrics.WEBHOOK_ENDPOINTS.value = await queries.endpoints_by_status()
            metrics.WEBHOOK_WAITING.value, oldest = await queries.waiting_deliveries()
            metrics.WEBHOOK_WAITING_SECONDS.value = _seconds_since(oldest)
            metrics.AUDIT_VIOLATIONS.value, ended_at = await queries.violations()
            metrics.AUDIT_AGE_SECONDS.value = None if ended_at is None else _seconds_since(ended_at)
        except Fault:
            _forget_counts()

    async def _measure(self, queries: Queries) -> tuple[float | None, ...]:
        """Returns the values of `metrics.ASKED`, in seconds and numbers. Raises a Fault."""
        open_calls, due_since = await queries.open_calls()
        announced_at = await queries.oldest_call()
        reacted_until = await queries.reacted_until()
        messages, waiting_since, set_aside = await queries.waiting_messages(UNMATCHED, self._alarm_s)
        archive_failing_s = await queries.archive_failing_s()
        standbys = await queries.standbys()
        metrics.SERVICE_PROCESSES.value = await queries.service_processes()
        metrics.STANDBYS.value = {name: float(is_sync) for name, is_sync in standbys.connected.items()}
        return (
            open_calls,
            _seconds_since(due_since, self._margin),
            _seconds_since(announced_at),
            messages,
            set_aside,
            _seconds_since(waiting_since),
            _seconds_since(reacted_until),
            archive_failing_s,
            None if standbys.hidden else float(standbys.is_missing),
        )


def _forget_counts() -> None:
    metrics.ORDERS.value = metrics.OPEN_PAYMENTS.value = metrics.WEBHOOK_ENDPOINTS.value = None
    metrics.WEBHOOK_WAITING.value = metrics.WEBHOOK_WAITING_SECONDS.value = None
    metrics.AUDIT_VIOLATIONS.value = metrics.AUDIT_AGE_SECONDS.value = None


def _seconds_since(moment: datetime | None, margin: timedelta = timedelta()) -> float:
    return 0.0 if moment is None else max(0.0, (datetime.now(UTC) - moment - margin).total_seconds())
