"""Spans of jobs. A worker's job begins a trace; one that a request runs, by moving its clock, is part of that one's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from opentelemetry.trace import SpanKind, Tracer

from ledger.background.scheduler.jobs import Handler
from ledger.operations.context.ledger import Ledger
from ledger.tracing.spans import span_around


def traced_handlers(tracer: Tracer, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Returns handlers that record a span for each job and do what `handlers` do."""
    return {kind: _traced(tracer, kind, handler) for kind, handler in handlers.items()}


def _traced(tracer: Tracer, kind: str, handler: Handler) -> Handler:
    async def handle(ledger: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        attributes = {
            "ledger.merchant_id": str(merchant_id),
            "ledger.stream_id": str(stream_id),
            "ledger.payment_id": str(payment_id),
            "ledger.due_at": due_at.isoformat(),
        }
        with span_around(tracer, f"job {kind}", attributes, kind=SpanKind.CONSUMER):
            await handler(ledger, merchant_id, stream_id, payment_id, due_at)

    return handle
