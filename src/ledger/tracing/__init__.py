"""Traces: spans of requests, commits, processor calls and jobs, sent to a collector by OTLP.

Import OpenTelemetry here and in `api.system.request_spans` only, and these only if traces are on: they wrap what the
wiring composes, so that a service without traces runs no line of them. No attribute holds personal data: ids and codes
only.

In reading order:

- `tracing`: the spans of one process and their collector; the wiring uses it. `spans`: how a span ends with a fault.
- `commits`: the writer with a span for each command and each batch, linked to each other.
- `processor_calls`, `jobs`: a span for each call to the payment processor, and for each job.
"""
