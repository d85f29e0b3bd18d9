"""The metrics of calls to processors: how long each takes, and how it ends, for each processor and operation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import Final, TypeVar

from ledger.domain.orders import processor_outcomes as outcomes
from ledger.domain.orders.payment import EntryAction
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.telemetry.metrics import PROCESSOR_CALL_SECONDS, LabelCache

T = TypeVar("T")

LOOK_UP: Final = "look-up"
"""The operation of the recovery, which asks for the outcome of an earlier call."""

WITHDRAWAL: Final = "withdrawal"
"""The operation that asks a processor to stop showing a reference."""

VERIFICATION: Final = "verification"
"""The operation that asks a card's issuer whether the card is good, with what continues it after the payer acted."""

OPERATIONS: Final = {
    EntryAction.AUTHORIZATION: "authorization",
    EntryAction.DEVICE_DATA: "device-data",
    EntryAction.AUTHENTICATION: "authentication",
    EntryAction.CAPTURE: "capture",
    EntryAction.CANCELLATION: "void",
    EntryAction.RELEASE: "release",
    EntryAction.REFUND: "refund",
    EntryAction.REFERENCE: "reference",
}

_OUTCOMES: Final[dict[type, str]] = {
    outcomes.Approved: "done",
    outcomes.Captured: "done",
    outcomes.Voided: "done",
    outcomes.Released: "done",
    outcomes.Refunded: "done",
    outcomes.ReferenceIssued: "done",
    outcomes.ReferenceCancelled: "done",
    outcomes.Declined: "refused",
    outcomes.CaptureRefused: "refused",
    outcomes.VoidRefused: "refused",
    outcomes.ReleaseRefused: "refused",
    outcomes.RefundRefused: "refused",
    outcomes.ReferenceRefused: "refused",
    outcomes.RefundPending: "pending",
    outcomes.ActionRequired: "action-required",
    type(None): "not-found",
    ProcessorUnavailable: "not-sent",
    ProcessorTimedOut: "unanswered",
    TimeoutError: "unanswered",
    asyncio.CancelledError: "unanswered",
}
_UNREADABLE: Final = "unreadable"

_histograms: Final = LabelCache(PROCESSOR_CALL_SECONDS)


async def observed(processor: str, operation: str, call: Awaitable[T]) -> T:
    """Awaits a call to a processor and records its time and outcome. Raises what the call raises."""
    began = perf_counter()
    try:
        answer = await call
    except BaseException as fault:
        ended = _OUTCOMES.get(type(fault), _UNREADABLE)
        raise
    else:
        ended = _OUTCOMES.get(type(answer), _UNREADABLE)
        return answer
    finally:
        _histograms[processor, operation, ended].observe(perf_counter() - began)
