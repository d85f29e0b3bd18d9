"""How a span shows a fault: by the type of the exception. Its text stays out: it may repeat what a customer typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

NO_PARENT: Final = Context()
"""The context of a span that begins a trace of its own."""


def fail(span: Span, reason: str) -> None:
    """Marks a span as failed."""
    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR, reason))


@contextmanager
def span_around(
    tracer: Tracer,
    name: str,
    attributes: Mapping[str, str | int],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    context: Context | None = None,
    links: Sequence[Link] = (),
) -> Iterator[Span]:
    """Makes a span the current one while the block runs, and marks it as failed if the block raises."""
    with tracer.start_as_current_span(
        name,
        context,
        kind,
        attributes,
        links,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as fault:  # a cancellation too: a call that ran into its deadline ends with one
            fail(span, type(fault).__name__)
            raise
