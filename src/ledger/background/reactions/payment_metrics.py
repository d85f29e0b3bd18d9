"""The metrics of payments, counted by the worker from the events of the logs.

Count after the commit that moved the cursor past the events, so that a repeated range is counted once. Events that were
committed while no worker counts (it was killed between the two) are missing: a counter shows rates, the log amounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.domain.orders.events import PaymentDeclined
from ledger.journal.reader import RecordedEvent
from ledger.telemetry.metrics import DECLINES, PAYMENT_EVENTS

_COUNTED: Final = frozenset(
    {
        "payment-authorized.v1",
        "payment-captured.v1",
        "payment-declined.v1",
        "payment-cancelled.v1",
        "payment-expired.v1",
        "payment-refunded.v1",
        "refund-refused.v1",
        "capture-refused.v1",
        "deposit-received.v1",
        "late-capture-reported.v1",
        "authorization-outcome-unknown.v1",
        "dispute-opened.v1",
        "dispute-lost.v1",
        "dispute-won.v1",
    }
)
_CODES_MAX: Final = 100
_OTHER: Final = "(other)"
_codes: set[str] = set()


def count(events: Sequence[RecordedEvent]) -> None:
    """Counts the events of payments, and declines by code: the first hundred codes of a process by name."""
    for recorded in events:
        if recorded.topic not in _COUNTED:
            continue
        PAYMENT_EVENTS.labels(recorded.topic.partition(".")[0]).inc()
        if isinstance(event := recorded.event, PaymentDeclined):
            if len(_codes) < _CODES_MAX:
                _codes.add(event.code)
            DECLINES.labels(event.code if event.code in _codes else _OTHER, event.refused_by).inc()
