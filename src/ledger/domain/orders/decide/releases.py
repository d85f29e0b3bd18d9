"""The deciders of releases: the end of the hold on the rest of a partly captured authorisation, and its call's outcome.

A release takes no money and gives none back. What the processor reports as captured counts, also after a release.
"""

from __future__ import annotations

from datetime import datetime

from ledger.domain.money import shortest
from ledger.domain.orders.commands import RecordReleaseOutcome, ReleaseRest
from ledger.domain.orders.decide.guards import require_payment, wrong_state
from ledger.domain.orders.decide.references import cancel_references
from ledger.domain.orders.decide.unanswered_calls import call_postponed, call_unanswered
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthorizationReleased,
    CallAbandoned,
    CancelledBecause,
    OrderEvent,
    ProcessorCall,
    ReleasedBecause,
    ReleaseRefused,
    ReleaseRequested,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Released, Unanswered
from ledger.domain.orders.processor_outcomes import ReleaseRefused as Refusal
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus


def decide_release_of_rest(order: Order, command: ReleaseRest) -> list[OrderEvent]:
    """Ends the hold on what a partial capture has left. Returns no events if it has ended or is being ended.

    Raises PaymentNotFound, InvalidOrderState.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    payment = _releasable(order, command)
    if payment is None:
        return []
    return [
        ReleaseRequested(
            payment_id=payment.payment_id,
            amount=shortest(payment.capturable),
            idempotency_key=command.idempotency_key,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_release_outcome(order: Order, command: RecordReleaseOutcome) -> list[OrderEvent]:
    """Records the outcome of a release's call. Returns no events if it is recorded already. Never refuses."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    is_open_call = intent is not None and intent.idempotency_key == command.idempotency_key
    match command.outcome:
        case Released():
            return released(order, payment, command.outcome, ReleasedBecause.REQUESTED, at)
        case Refusal(code=code, message=message) if is_open_call:
            return [ReleaseRefused(payment_id=payment.payment_id, code=code, at=at, message=message)]
        case Unanswered() as outcome if is_open_call and intent is not None and not intent.unknown:
            return [call_unanswered(payment, ProcessorCall.RELEASE, outcome, at)]
        case NotSent(until=datetime() as until) if is_open_call:
            return call_postponed(payment, ProcessorCall.RELEASE, until, at)
        case NotSent() | NotFound() if is_open_call:
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            return [CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.RELEASE, because=because, at=at)]
        case _:
            return []


def released(
    order: Order, payment: Payment, outcome: Released, because: ReleasedBecause, at: datetime
) -> list[OrderEvent]:
    """Returns the events of a hold that has ended: none if that is recorded already.

    On an order of one tender the references for the rest end with what the merchant has released: it expects no more
    money. An authorisation that lapses ends none: by them the merchant still asks for the rest.
    """
    if payment.hold_ended_at is not None:
        return []
    ended = AuthorizationReleased(
        payment_id=payment.payment_id,
        amount=shortest(outcome.amount),
        because=because,
        at=at,
        processor_reference=outcome.processor_reference,
    )
    if because is ReleasedBecause.LAPSED:
        return [ended]
    return [ended, *cancel_references(order, CancelledBecause.RELEASED, at)]


def _releasable(order: Order, command: ReleaseRest) -> Payment | None:
    """Returns the payment whose hold is to be ended, the newest if none is named; None if it is or will be ended."""
    named = None if command.payment_id is None else require_payment(order, command.payment_id)
    candidates = order.payments if named is None else (named,)
    if order.cancel_requested:
        raise wrong_state(order, "The order is being cancelled: release after the cancellation has an outcome.")
    captured = [payment for payment in reversed(candidates) if payment.captured]
    if not captured:
        raise wrong_state(
            order,
            "Nothing was captured: cancel instead, which voids the whole authorisation.",
            OrderStatus.PARTIALLY_PAID,
        )
    for payment in captured:
        if payment.capturable <= 0:
            continue
        if payment.intent is None and not payment.refunding:
            return payment
        if payment.is_being_released:
            return None
        raise wrong_state(order, "A call about the payment is being carried out: release after its outcome.")
    if any(payment.hold_ended_at is not None for payment in captured):
        return None
    raise wrong_state(order, "No rest of an authorisation is held: it was captured in full, or paid by a reference.")
