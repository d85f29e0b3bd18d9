"""Records the spans of one process, and sends them to a collector in the background.

The SDK reads the other standard variables, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER.
"""

from __future__ import annotations

import threading
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ledger.tracing.commits import TracedWriter
from ledger.tracing.jobs import traced_handlers
from ledger.tracing.processor_calls import trace_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ledger.background.scheduler.jobs import Handler
    from ledger.journal.commit.writer import Writer
    from ledger.processors.contract import Processor

_EXPORT_MAX_S: Final = 2.0
_STOP_MAX_S: Final = 1.0


class Tracing:
    """What the wiring of a process needs to record spans. `endpoint` is the base address of an OTLP receiver.

    `process` is the service's name in the spans' resource, unless OTEL_SERVICE_NAME gives another.
    """

    def __init__(self, endpoint: str, process: str) -> None:
        resource = Resource.create(
            {"service.name": "payment-ledger", "service.version": version("payment-ledger"), "ledger.process": process}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_MAX_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer("ledger")

    @property
    def new_writer(self) -> Callable[..., Writer]:
        """What makes the journal's writer."""
        return partial(TracedWriter, self.tracer)

    def trace_calls(self, processor: Processor, account: str) -> None:
        """Lets each call of the processor of this account record a span."""
        trace_calls(self.tracer, processor, account)

    def handlers(self, handlers: Mapping[str, Handler]) -> Mapping[str, Handler]:
        """Returns the handlers of jobs with a span for each job."""
        return traced_handlers(self.tracer, handlers)

    def stop(self) -> None:
        """Sends the remaining spans, for at most a second: a collector that is away must not delay the end of a
        process.
        """
        stopping = threading.Thread(target=self._provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(_STOP_MAX_S)
