"""What the deciders of all outcomes share about a call that got no answer."""

from __future__ import annotations

from datetime import datetime

from ledger.domain.orders.events import CallUnanswered, ProcessorCall
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Unanswered


def call_unanswered(payment: Payment, call: ProcessorCall, outcome: Unanswered, at: datetime) -> CallUnanswered:
    """Returns the event of a call of this payment that came back without an answer."""
    return CallUnanswered(
        payment_id=payment.payment_id, call=call, reason=outcome.reason, at=at, came_back_at=outcome.came_back_at
    )
