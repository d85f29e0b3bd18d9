"""The deciders of references and of the money that arrives on them (section 8.10): transfers and cash.

A deposit is a fact. Refuse it only if the payment never had a reference; record the money whatever the status of the
payment or the order is by then.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from ledger.domain.money import GROSS_MAX, ZERO, shortest
from ledger.domain.orders.capabilities import Candidate
from ledger.domain.orders.commands import NewPayment, RecordDeposit, RecordReferenceOutcome
from ledger.domain.orders.decide.candidates import account_in_event
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_multiple, require_payment, wrong_state
from ledger.domain.orders.decide.unanswered_calls import call_unanswered
from ledger.domain.orders.declines import decline
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CancelledBecause,
    DepositReceived,
    OrderCreated,
    OrderEvent,
    PaymentCancelled,
    PaymentDeclined,
    ProcessorCall,
    ReferenceIssued,
    ReferenceRequested,
)
from ledger.domain.orders.payment import EntryAction, Payment
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, ReferenceRefused, Unanswered
from ledger.domain.orders.processor_outcomes import ReferenceIssued as Issued
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.orders.terms import MethodType, Reference

_ENDED: Final = frozenset({PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})


def reference_requested(
    terms: OrderCreated, payment: NewPayment, chosen: Candidate, amount: Decimal, at: datetime
) -> ReferenceRequested:
    """Returns the intent to get a reference for this payment. It expires no earlier than the order's due date."""
    expires_at = at + timedelta(seconds=chosen.reference_s)
    if terms.due_date is not None:
        expires_at = max(expires_at, terms.due_date)
    return ReferenceRequested(
        payment_id=payment.payment_id,
        processor=chosen.processor,
        account=account_in_event(chosen),
        idempotency_key=payment.idempotency_key,
        amount=amount,
        expires_at=expires_at,
        deadline_at=payment.deadline_at,
        at=at,
    )


def decide_reference_outcome(order: Order, command: RecordReferenceOutcome) -> list[OrderEvent]:
    """Records the outcome of a requested reference. Returns no events if it is recorded already. Never refuses."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    if intent is None or intent.action is not EntryAction.REFERENCE:
        late = isinstance(command.outcome, Issued) and payment.reference is None
        return _issued(payment, command) if late else []
    is_created = payment.status is PaymentStatus.CREATED
    match command.outcome:
        case Issued():
            return _issued(payment, command)
        case ReferenceRefused(code=code, message=message) if is_created:
            refusal = decline(code)
            declined = PaymentDeclined(
                payment_id=payment.payment_id, code=refusal.code, at=at, message=message or refusal.message
            )
            return with_cancellation_closed(order, [declined])
        case Unanswered() as outcome:
            return [] if intent.unknown else [call_unanswered(payment, ProcessorCall.REFERENCE, outcome, at)]
        case ReferenceRefused() | NotSent() | NotFound():
            sent = not isinstance(command.outcome, NotSent)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            abandoned = CallAbandoned(
                payment_id=payment.payment_id, call=ProcessorCall.REFERENCE, because=because, at=at
            )
            return with_cancellation_closed(order, [abandoned])


def decide_deposit(order: Order, command: RecordDeposit) -> list[OrderEvent]:
    """Records money that arrived on a reference, once for each deposit id (section 8.10).

    Money from a store that took another amount than the payment's counts, and the event records the difference
    (decision 0022). Raises PaymentNotFound, InvalidField for `amount`, InvalidOrderState.
    """
    payment = require_payment(order, command.payment_id)
    if command.deposit_id in payment.deposits:
        return []
    require_multiple(order, command.amount, most=GROSS_MAX)
    if payment.started.method.type is MethodType.CARD or payment.reference is None:
        raise wrong_state(order, "The payment has no reference that money can be sent to.")
    late = payment.status in _ENDED or (order.closed and payment.captured == ZERO)
    expected = takes_exactly(payment, command.sent_to)
    received = DepositReceived(
        payment_id=payment.payment_id,
        deposit_id=command.deposit_id,
        amount=shortest(command.amount),
        processor_reference=command.processor_reference,
        at=command.at,
        late=late,
        amount_differs=expected is not None and command.amount != expected,
        sender_clabe=None if order.payer_forgotten else command.sender_clabe,
    )
    return with_cancellation_closed(order, [received])


def cancel_references(order: Order, because: CancelledBecause, at: datetime) -> list[OrderEvent]:
    """Returns the events that end the references of an order of one tender, none for a split order, which has parts.

    A reference that is still being issued ends too. A deposit that arrives later on one of them counts as late.
    """
    if order.terms.allow_partials:
        return []
    return [
        PaymentCancelled(payment_id=payment.payment_id, because=because, at=at)
        for payment in order.payments
        if payment.status is PaymentStatus.CREATED or payment.next_action is NextAction.DISPLAY_REFERENCE
    ]


def takes_exactly(payment: Payment, sent_to: str | None) -> Decimal | None:
    """Returns the exact amount that a store takes under this number, in minor units (section 8.10).

    Returns None for a CLABE, which takes any amount, and if the payment's reference or the number is unknown.
    """
    reference = payment.reference
    if reference is None or sent_to is None or sent_to == reference.clabe:
        return None
    return payment.amount


def _issued(payment: Payment, command: RecordReferenceOutcome) -> list[OrderEvent]:
    outcome = command.outcome
    assert isinstance(outcome, Issued), "the caller has checked the outcome"
    return [
        ReferenceIssued(
            payment_id=payment.payment_id,
            reference=Reference(
                clabe=outcome.clabe,
                reference=outcome.reference,
                convenio=outcome.convenio,
                channel=outcome.channel,
                voucher_url=outcome.voucher_url,
            ),
            expires_at=outcome.expires_at,
            processor_reference=outcome.processor_reference,
            at=command.at,
        )
    ]
