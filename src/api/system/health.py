"""GET /health/live and GET /health/ready, for load balancers and operators, without a key; and their descriptions.

Ask the database on every readiness check: a connection that looks open may be broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec
import structlog
from msgspec import Meta, Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder
from api.http.errors import method_not_allowed
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.http.response import ApiResponse, json_response
from api.openapi.operation import ANY, OperationSpec
from api.system.metrics import METRICS
from ledger.postgres.faults import Fault
from ledger.telemetry.all_processes import all_ready

_log = structlog.get_logger()

LIVE: Final = "/health/live"
READY: Final = "/health/ready"

_TIMEOUT_S: Final = 2.0
_LAG_MAX: Final = timedelta(seconds=60)
"""Reactions read every log every two seconds: with a lag of this much none is running, or it cannot keep up."""
_NO_KEY: Final = bytes(32)
_REASONS: Final = {
    "database": "the database does not answer",
    "writer": "the journal has no connection to the database",
    "disk": "the database has no room to write: make room on its disk",
    "processor": "the connection of the payment processor is lost",
    "order_numbers": "there are no numbers for new orders",
    "reactions": "the reactions to events are more than a minute behind: look at the worker",
    "processes": "a process of the service is missing, and is being started again",
}
"""What an operator reads of each failed check."""


class Live(Struct):
    """The process answers."""

    status: Annotated[Literal["live"], Meta(description="Always `live`.")]


class Checks(Struct, rename="camel"):
    """The results of the checks: all that a request needs to create an order, and the other processes."""

    database: Annotated[bool, Meta(description="Whether the database answers.")]
    writer: Annotated[bool, Meta(description="Whether the journal can read and write.")]
    disk: Annotated[bool, Meta(description="Whether the database has room to write.")]
    processor: Annotated[
        bool, Meta(description="Whether calls can be sent to the payment processor; true where none is connected.")
    ]
    order_numbers: Annotated[bool, Meta(description="Whether new orders get their numbers.")]
    reactions: Annotated[bool, Meta(description="Whether the reactions to events are less than a minute behind.")]
    processes: Annotated[
        bool, Meta(description="Whether every process of the service runs; true in a process that runs alone.")
    ]


class Readiness(Struct):
    """Whether the service is ready, and the result of each check."""

    status: Annotated[Literal["ready", "not ready"], Meta(description="`ready` where all checks are true.")]
    checks: Checks
    reason: Annotated[str, Meta(description="What the failed checks mean, for a person; empty where all are true.")] = (
        ""
    )


def live() -> ASGIApp:
    """GET /health/live: the process answers."""
    return _Probe(None)


def ready(holder: DependencyHolder) -> ASGIApp:
    """GET /health/ready: an order can be created, the reactions are not behind, and every process runs; else 503."""
    return _Probe(holder)


class _Probe:
    def __init__(self, holder: DependencyHolder | None) -> None:
        self._holder = holder
        self._was_ready = True

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        holder = self._holder
        response = json_response(200, Live(status="live")) if holder is None else await _readiness(holder.deps)
        if holder is not None and holder.deps is not None:  # else the process starts or ends
            self._log_change(response)
        await request.respond(response, send)

    def _log_change(self, response: ApiResponse) -> None:
        """Logs that this process became ready, or is ready no more, with the checks that fail."""
        is_ready = response.status == 200
        if is_ready == self._was_ready:
            return
        self._was_ready = is_ready
        if is_ready:
            _log.warning("readiness_back")
            return
        checks = msgspec.structs.asdict(msgspec.json.decode(response.body, type=Readiness).checks)
        _log.warning("readiness_lost", failed=[name for name, passed in checks.items() if not passed])


async def _readiness(deps: Dependencies | None) -> ApiResponse:
    checks = Checks(
        database=False,
        writer=False,
        disk=False,
        processor=False,
        order_numbers=False,
        reactions=False,
        processes=all_ready(),
    )
    if deps is not None:
        ledger = deps.ledger
        checks.writer = ledger.journal.alive
        checks.disk = not ledger.journal.disk.refusal
        checks.processor = ledger.processor is None or ledger.processor.alive
        with suppress(Fault, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_S):
                await deps.queries.find_key(_NO_KEY)
                lag = datetime.now(UTC) - await deps.queries.reacted_until()
                checks.database = ledger.clock.alive
                checks.reactions = lag < _LAG_MAX
                await ledger.order_numbers.provide()
                checks.order_numbers = True
    failed = [name for name, passed in msgspec.structs.asdict(checks).items() if not passed]
    if not failed:
        return json_response(200, Readiness(status="ready", checks=checks))
    reason = "; ".join(_REASONS[name] for name in failed) if deps is not None else "the process is starting or ending"
    return json_response(503, Readiness(status="not ready", checks=checks, reason=reason))


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
