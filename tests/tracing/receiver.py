"""A receiver of traces over loopback, as a collector is one: OTLP over HTTP."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

PATIENCE_S = 60.0


class Received(NamedTuple):
    """A span as it arrived. Ids in hex; `links` are pairs of trace and span id."""

    name: str
    process: str
    trace: str
    id: str
    parent: str
    links: frozenset[tuple[str, str]]
    attributes: dict[str, Any]
    failed: bool
    begun: int

    @property
    def context(self) -> tuple[str, str]:
        return self.trace, self.id


class Receiver:
    """Use it in a `with` block. `url` is what OTEL_EXPORTER_OTLP_ENDPOINT names."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def wait_for(self, *names: str) -> None:
        """Waits until a span of each name has arrived."""
        until = time.monotonic() + PATIENCE_S
        while missing := set(names) - {span.name for span in self.spans}:
            assert time.monotonic() < until, f"{missing} did not arrive, but {sorted({s.name for s in self.spans})}"
            time.sleep(0.05)


def _spans(request: ExportTraceServiceRequest) -> list[Received]:
    return [
        Received(
            name=span.name,
            process=_attributes(of_process.resource)["ledger.process"],
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            links=frozenset((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
            attributes=_attributes(span),
            failed=span.status.code == Status.STATUS_CODE_ERROR,
            begun=span.start_time_unix_nano,
        )
        for of_process in request.resource_spans
        for of_scope in of_process.scope_spans
        for span in of_scope.spans
    ]


def _attributes(holder: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}
