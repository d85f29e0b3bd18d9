"""Spans of calls to a payment processor, whichever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from opentelemetry.trace import Span, SpanKind, Tracer

from ledger.processors.contract import Processor, Request
from ledger.tracing.spans import span_around

_CALLS: Final = (
    "authorize",
    "submit_device_data",
    "validate_authentication",
    "capture",
    "void",
    "release",
    "refund",
    "issue_reference",
    "cancel_reference",
    "pay_out",
    "look_up",
    "look_up_capture",
    "look_up_void",
    "look_up_release",
    "look_up_refund",
    "look_up_reference",
    "look_up_cancellation",
    "look_up_payout",
)


def trace_calls(tracer: Tracer, processor: Processor, account: str) -> None:
    """Lets each call of an account's processor record a span: replaces the methods of this one object."""
    about = {"ledger.processor": processor.capabilities.name, "ledger.processor_account": account}
    for name in _CALLS:
        setattr(processor, name, _call(tracer, about, name, getattr(processor, name)))


def _call(
    tracer: Tracer, about: dict[str, str], name: str, send: Callable[[Any], Awaitable[Any]]
) -> Callable[..., Any]:
    async def traced(request: Request) -> Any:
        attributes: dict[str, str | int] = {**about, "ledger.merchant_id": str(request.merchant_id)}
        if request.order_id is not None:
            attributes["ledger.stream_id"] = str(request.order_id)
        if request.payment_id is not None:
            attributes["ledger.payment_id"] = str(request.payment_id)
        with span_around(tracer, f"processor {name}", attributes, kind=SpanKind.CLIENT) as span:
            answer = await send(request)
            _describe(span, answer)
            return answer

    return traced


def _describe(span: Span, answer: Any) -> None:
    span.set_attribute("ledger.answer", "NotFound" if answer is None else type(answer).__name__)
    code = getattr(answer, "code", None)
    if isinstance(code, str):
        span.set_attribute("ledger.decline_code", code)
