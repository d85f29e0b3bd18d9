"""The journal's writer with traces: a span for each command, in its request's trace, and one for each batch.

A batch commits commands of many requests, so it begins a trace of its own. Its span has a link to the span of each of
its commands, and theirs have one to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from opentelemetry.trace import Link, Span, Tracer

from ledger.journal.append import Append, Conflict
from ledger.journal.commit.writer import Writer
from ledger.journal.inline import InlineTable
from ledger.postgres.connection import Connection
from ledger.postgres.pipeline import Rows
from ledger.tracing.spans import NO_PARENT, fail, span_around


class TracedWriter(Writer):
    """A writer that records spans. A command's span ends with its result."""

    def __init__(
        self,
        tracer: Tracer,
        url: str,
        tables: Sequence[InlineTable] = (),
        *,
        batch_max: int = 256,
        queue_max: int = 10_000,
        name: str = "ledger-writer",
    ) -> None:
        super().__init__(url, tables, batch_max=batch_max, queue_max=queue_max, name=name)
        self._tracer = tracer
        self._spans: dict[int, Span] = {}

    def submit(self, command: Append) -> asyncio.Future[int]:
        span = self._tracer.start_span("journal commit", attributes=_attributes(command))
        try:
            future = super().submit(command)
        except BaseException as fault:
            fail(span, type(fault).__name__)
            span.end()
            raise
        self._spans[id(command)] = span
        future.add_done_callback(partial(self._end, id(command)))
        return future

    async def _execute(self, connection: Connection, commands: Sequence[Append]) -> Rows:
        # The caller of a command may be gone, and its span ended, before the command is committed.
        spans = [span for command in commands if (span := self._spans.get(id(command))) is not None]
        links = [Link(span.get_span_context()) for span in spans]
        attributes = {"ledger.commands": len(commands)}
        with span_around(self._tracer, "journal batch", attributes, context=NO_PARENT, links=links) as batch:
            for span in spans:
                span.add_link(batch.get_span_context())
            return await super()._execute(connection, commands)

    def _end(self, command: int, future: asyncio.Future[int]) -> None:
        span = self._spans.pop(command)
        if future.cancelled():
            fail(span, "CancelledError")
        elif isinstance(fault := future.exception(), Conflict):  # it is decided again, which is no fault
            span.set_attribute("ledger.conflict", type(fault).__name__)
        elif fault is not None:
            fail(span, type(fault).__name__)
        span.end()


def _attributes(command: Append) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "ledger.merchant_id": str(UUID(bytes=command.merchant_id)),
        "ledger.events": sum(len(stream.events) for stream in command.streams),
    }
    if command.streams:
        found["ledger.stream_id"] = str(UUID(bytes=command.streams[0].stream_id))
    return found
