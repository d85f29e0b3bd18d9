"""GET /health/live and GET /health/ready, for load balancers and operators, without a key; and their descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import method_not_allowed
from api.http.dependencies import DependencyHolder
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.operation import ANY, OperationSpec
from api.response import ApiResponse, json_response
from api.system.metrics import METRICS
from api.system.readiness import Checks, check
from ledger.telemetry import unopened

LIVE: Final = "/health/live"
READY: Final = "/health/ready"

_REASONS: Final = {
    "database": "the database does not answer",
    "writer": "the journal has no connection to the database",
    "commits": "a commit takes longer than LEDGER_COMMIT_AGE_MAX_S: look for the database's disk and synchronous standby",
    "disk": "the database has no room to write: make room on its disk",
    "processor": "the connection of the payment processor is lost",
    "order_numbers": "there are no numbers for new orders",
    "clock": "this machine's clock is more than five seconds from the database's: synchronise both by NTP",
    "reactions": "the reactions to events are more than a minute behind: look at the worker",
    "processes": "a process of the service is missing, and is being started again",
}
"""What an operator reads of each failed check."""

_UNOPENED: Final = (
    "a sealed record could not be opened within the last five minutes: run `ledger doctor`, which names missing keys"
)
"""What an operator reads beside the checks. The service stays ready: all other records can be used."""

_READ_ONLY: Final = (
    "the database takes no writes: it is a standby, or was made read-only; the service looks for the primary"
)


class Live(Struct):
    """The process answers."""

    status: Annotated[Literal["live"], Meta(description="Always `live`.")]


class Readiness(Struct):
    """Whether the service is ready, and the result of each check."""

    status: Annotated[Literal["ready", "not ready"], Meta(description="`ready` where all checks are true.")]
    checks: Checks
    reason: Annotated[str, Meta(description="What the failed checks mean, for a person; empty where all are true.")] = (
        ""
    )
    warning: Annotated[str, Meta(description="What is wrong although the service is ready.")] = ""


def live() -> ASGIApp:
    """GET /health/live: the process answers."""
    return _Probe(None)


def ready(holder: DependencyHolder) -> ASGIApp:
    """GET /health/ready: an order can be created, the reactions are not behind, and every process runs; else 503."""
    return _Probe(holder)


class _Probe:
    def __init__(self, holder: DependencyHolder | None) -> None:
        self._holder = holder

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        holder = self._holder
        response = json_response(200, Live(status="live")) if holder is None else await _readiness(holder)
        await request.respond(response, send)


async def _readiness(holder: DependencyHolder) -> ApiResponse:
    checks = await check(holder.deps)
    warning = "; ".join(_warnings(holder))
    if not checks.failed:
        return json_response(200, Readiness(status="ready", checks=checks, warning=warning))
    reason = "the process is starting or ending"
    if holder.deps is not None:
        read_only = {"writer": _READ_ONLY} if holder.deps.ledger.journal.disk.is_read_only else {}
        reason = "; ".join((_REASONS | read_only)[name] for name in checks.failed)
    return json_response(503, Readiness(status="not ready", checks=checks, reason=reason, warning=warning))


def _warnings(holder: DependencyHolder) -> Iterator[str]:
    """Yields what is wrong although the service is ready."""
    if unopened.is_recent():
        yield _UNOPENED
    replica = None if holder.deps is None else holder.deps.queries.replica
    if replica is not None and replica.reason:
        yield f"the primary answers all lists, because the replica is not used: {replica.reason}"


_CODES: Final = {414: ANY[414], 431: ANY[431]}

PROBES: Final[Mapping[str, OperationSpec]] = {
    LIVE: OperationSpec(
        name="isLive",
        summary="Whether the process answers",
        description="For load balancers and operators. Needs no key.",
        answers={200: ("The process answers.", Live)},
        codes=_CODES,
    ),
    READY: OperationSpec(
        name="isReady",
        summary="Whether the service is ready",
        description="Checks what a new order needs (the database, the journal, the processor, order numbers), the "
        "reactions to events and the other processes of the service. Needs no key.",
        answers={
            200: ("The service is ready.", Readiness),
            503: ("The service is not ready: `checks` shows which check failed.", Readiness),
        },
        codes=_CODES,
    ),
    METRICS: OperationSpec(
        name="getMetrics",
        summary="The service's metrics",
        description="For operators, in Prometheus' text format. Needs no API key. Where `LEDGER_METRICS_TOKEN` is set, "
        "it answers clients that send it as a bearer token; otherwise, clients on the same machine. Other "
        "clients get a 404.",
        text="The metrics of every process of the service.",
        codes={404: ("NOT_FOUND",), **_CODES},
    ),
}
"""The GET operations without a key, by their path: the probes, and `api.system.metrics`."""
