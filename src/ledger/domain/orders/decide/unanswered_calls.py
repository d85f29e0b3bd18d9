"""What the deciders of all outcomes share about a call that got no answer, and the call that is sent again.

Repeat only calls about money that the processor has already, under their own key. An authorisation is never repeated:
the card is not kept.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ledger.domain.orders.commands import RepeatCall
from ledger.domain.orders.events import CallPostponed, CallRepeated, CallUnanswered, OrderEvent, ProcessorCall
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import Unanswered
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType

_REPEATED: Final = {
    EntryAction.CAPTURE: ProcessorCall.CAPTURE,
    EntryAction.CANCELLATION: ProcessorCall.VOID,
    EntryAction.REFUND: ProcessorCall.REFUND,
    EntryAction.RELEASE: ProcessorCall.RELEASE,
}


def call_unanswered(payment: Payment, call: ProcessorCall, outcome: Unanswered, at: datetime) -> CallUnanswered:
    """Returns the event of a call of this payment that came back without an answer."""
    return CallUnanswered(
        payment_id=payment.payment_id, call=call, reason=outcome.reason, at=at, came_back_at=outcome.came_back_at
    )


def call_postponed(payment: Payment, call: ProcessorCall, until: datetime, at: datetime) -> list[OrderEvent]:
    """Returns the event of a call of this payment that never reached the processor and is sent again, once for each."""
    if payment.intent is not None and payment.intent.unsent:
        return []
    return [CallPostponed(payment_id=payment.payment_id, call=call, until=until, at=at)]


def can_be_repeated(order: Order, intent: Intent) -> bool:
    """Returns whether a call that never reached the processor is sent again.

    The destination of a payout is erased with its customer; without it, the money would go to another account.
    """
    if intent.action not in _REPEATED or intent.payment_id is None:
        return False
    is_payout = order.payment(intent.payment_id).started.method.type is not MethodType.CARD
    return not (is_payout and order.payer_forgotten)


def decide_repetition(order: Order, command: RepeatCall) -> list[OrderEvent]:
    """Sends a call again. Returns no events if it has an outcome, or another worker sends it again already."""
    payment = order.payment(command.payment_id)
    intent = payment.intent
    if intent is None or intent.idempotency_key != command.idempotency_key or intent.deadline_at != command.after:
        return []
    if not can_be_repeated(order, intent):
        return []
    return [
        CallRepeated(
            payment_id=command.payment_id,
            call=_REPEATED[intent.action],
            idempotency_key=command.idempotency_key,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]
