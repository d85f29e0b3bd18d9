"""The decider of outcomes of charges: the effect of a payment order on its invoice and on the subscription.

Money outranks every status: an invoice is PAID by an order that captured its amount, whatever the status of the invoice
or the subscription is by then.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from ledger.domain.plans.terms import OnRetriesExhausted
from ledger.domain.subscriptions.commands import (
    ChargeFailed,
    ChargeNotSent,
    ChargePaid,
    RecordCharge,
    RecordRefund,
)
from ledger.domain.subscriptions.decide import steps
from ledger.domain.subscriptions.events import (
    CanceledBecause,
    ChargeDeclined,
    ChargeSurplus,
    ChargeTrigger,
    ChargeUnsent,
    CreditCarried,
    InvoiceRefunded,
    InvoiceVoided,
    ProrationDeferred,
    RefusedBecause,
    SubscriptionEvent,
    SubscriptionPastDue,
    SubscriptionRefused,
    SubscriptionUnpaid,
)
from ledger.domain.subscriptions.proration import after_return, credit_given_back, credit_taken, credit_taken_back
from ledger.domain.subscriptions.state import Charge, Invoice, InvoiceStatus, Subscription, SubscriptionStatus

_UNSENT_PAUSE: Final = timedelta(minutes=5)
"""The first pause before a charge that never reached the processor begins again. Each further one is twice as long."""

_UNSENT_PAUSE_MAX: Final = timedelta(hours=6)

_SCHEDULED: Final = (ChargeTrigger.DUE, ChargeTrigger.RETRY)


def is_surplus(state: Subscription | None, order_id: UUID) -> bool:
    """Returns whether money that this order captured has to go back: its invoice was paid by another order, or its
    subscription never began.
    """
    invoice = None if state is None else state.invoice_of(order_id)
    if invoice is None:
        return True
    return invoice.status is InvoiceStatus.PAID and invoice.payment_order_id != order_id


def decide_outcome(state: Subscription, command: RecordCharge) -> list[SubscriptionEvent]:
    """Records the outcome of a charge. Returns no events if it is recorded already.

    An order that failed and was paid later, by the merchant or by a late report, pays its invoice if that is unpaid.
    """
    invoice = state.invoice_of(command.order_id)
    if invoice is None:
        return []
    charge = state.charge if state.charge is not None and state.charge.order_id == command.order_id else None
    outcome = command.outcome
    if isinstance(outcome, ChargePaid):
        if invoice.status is not InvoiceStatus.PAID:
            return steps.paid(state, invoice, command.at, order_id=command.order_id)
        is_new = charge is not None
        return (
            [ChargeSurplus(invoice_id=invoice.invoice_id, order_id=command.order_id, at=command.at)] if is_new else []
        )
    if charge is None or charge.payment_id != command.payment_id:
        return []
    if isinstance(outcome, ChargeFailed):
        return _declined(state, invoice, charge, outcome, command)
    return _unsent(state, invoice, charge, outcome, command)


def decide_refund(state: Subscription, command: RecordRefund) -> list[SubscriptionEvent]:
    """Records how much of the order that paid an invoice has gone back. Returns no events if it is recorded already.

    A credit that waits for unused time of the same period is taken back by as much. Once a refund comes back, what it
    had taken of credits is given again.
    """
    invoice = state.invoice_of(command.order_id)
    if invoice is None or invoice.payment_order_id != command.order_id or invoice.status is not InvoiceStatus.PAID:
        return []
    if invoice.amount_refunded == command.amount_refunded:
        return []
    refunded = InvoiceRefunded(
        invoice_id=invoice.invoice_id,
        order_id=command.order_id,
        amount_refunded=command.amount_refunded,
        at=command.at,
    )
    difference = command.amount_refunded - invoice.amount_refunded
    if difference > 0:
        waiting = credit_taken_back(state.carried, invoice.period_end, difference, command.at)
    else:
        given = _credit_of_return(state, invoice, -difference)
        waiting = credit_given_back(state.carried, invoice.period_end, given, command.at)
    if waiting is None or not state.is_live:
        return [refunded]
    before, added = waiting[: len(state.carried)], waiting[len(state.carried) :]
    if before == state.carried:
        return [refunded, ProrationDeferred(lines=added, at=command.at)]
    return [refunded, CreditCarried(lines=waiting, at=command.at)]


def _credit_of_return(state: Subscription, invoice: Invoice, came_back: Decimal) -> Decimal:
    """Returns how much credit is given again once so much of a refund came back. For an earlier period that is at most
    what the lines that wait show.
    """
    if state.priced is not None and invoice in state.period_invoices:
        return state.priced.withheld - after_return(state.priced, came_back).withheld
    return min(came_back, credit_taken(state.carried, invoice.period_end))


def _declined(
    state: Subscription, invoice: Invoice, charge: Charge, outcome: ChargeFailed, command: RecordCharge
) -> list[SubscriptionEvent]:
    next_attempt_at = _next_attempt_at(state, invoice, charge, outcome, command.at)
    declined = ChargeDeclined(
        invoice_id=invoice.invoice_id,
        order_id=command.order_id,
        decline_code=outcome.code,
        at=command.at,
        hard=outcome.hard,
        refused_by_risk=outcome.by_risk,
        next_attempt_at=next_attempt_at,
    )
    if state.status is None:
        refused = SubscriptionRefused(
            because=RefusedBecause.DECLINED,
            at=command.at,
            decline_code=outcome.code,
            refused_by_risk=outcome.by_risk,
        )
        return [declined, InvoiceVoided(invoice_id=invoice.invoice_id, at=command.at), refused]
    if not invoice.is_collectable:
        return [declined]
    if state.status is SubscriptionStatus.CANCELED:
        assert state.canceled_because is not None, "a cancelled subscription has a reason"
        return [declined, *_ended(state, invoice, state.canceled_because, command.at)]
    return [declined, *_dunning(steps.after(state, [declined]), invoice, next_attempt_at is None, command)]


def _dunning(
    state: Subscription, invoice: Invoice, is_exhausted: bool, command: RecordCharge
) -> list[SubscriptionEvent]:
    """Returns the events of a decline on a live subscription (contract 2.3): it becomes PAST_DUE, and ends if no retry
    is left.
    """
    events: list[SubscriptionEvent] = []
    if state.status in (SubscriptionStatus.TRIALING, SubscriptionStatus.ACTIVE):
        events.append(SubscriptionPastDue(invoice_id=invoice.invoice_id, at=command.at))
    elif state.status is SubscriptionStatus.UNPAID:
        return []
    if not is_exhausted:
        return events
    if state.terms.on_retries_exhausted is OnRetriesExhausted.CANCEL:
        return [*events, *steps.end(state, CanceledBecause.RETRIES_EXHAUSTED, command.at, command.at)]
    cancels_at = command.at + timedelta(days=command.unpaid_days)
    return [*events, SubscriptionUnpaid(invoice_id=invoice.invoice_id, cancels_at=cancels_at, at=command.at)]


def _next_attempt_at(
    state: Subscription, invoice: Invoice, charge: Charge, outcome: ChargeFailed, at: datetime
) -> datetime | None:
    """Returns when the invoice is charged again by itself; None if the plan's retries are used up.

    A charge by request leaves the plan's retries as they are, and begins them if none is due.
    """
    if outcome.hard or not state.is_live or state.status is SubscriptionStatus.UNPAID:
        return None
    if charge.trigger not in _SCHEDULED and invoice.next_attempt_at is not None:
        return invoice.next_attempt_at
    if invoice.retries >= state.terms.max_retries:
        return None
    return at + timedelta(hours=state.terms.retry_delay_hours)


def _unsent(
    state: Subscription, invoice: Invoice, charge: Charge, outcome: ChargeNotSent, command: RecordCharge
) -> list[SubscriptionEvent]:
    """Returns the events of a charge that was never sent: it is no decline, and begins again unless the subscription
    is new or over. The last invoice of a subscription that is over begins again too.
    """
    is_charged = invoice.is_final or (state.is_live and state.status is not SubscriptionStatus.UNPAID)
    waits = is_charged and invoice.is_collectable
    again_at = command.at + _unsent_pause(len(invoice.attempts[-1].payment_ids))
    if charge.trigger not in _SCHEDULED and invoice.next_attempt_at is not None:
        again_at = invoice.next_attempt_at
    unsent = ChargeUnsent(
        invoice_id=invoice.invoice_id,
        order_id=command.order_id,
        at=command.at,
        next_attempt_at=again_at if waits else None,
        order_ended=outcome.order_ended,
    )
    if state.status is None:
        refused = SubscriptionRefused(because=RefusedBecause.NOT_SENT, at=command.at)
        return [unsent, InvoiceVoided(invoice_id=invoice.invoice_id, at=command.at), refused]
    if state.status is SubscriptionStatus.CANCELED and invoice.is_collectable and not invoice.is_final:
        assert state.canceled_because is not None, "a cancelled subscription has a reason"
        return [unsent, *_ended(state, invoice, state.canceled_because, command.at)]
    return [unsent]


def _ended(state: Subscription, failed: Invoice, because: CanceledBecause, at: datetime) -> list[SubscriptionEvent]:
    """Returns the end of an invoice whose charge failed after its subscription had ended, and of the last invoice."""
    unpaid = (each for each in state.invoices if each == failed or (each.is_final and each.is_collectable))
    return [steps.end_invoice(invoice, because, at) for invoice in unpaid]


def _unsent_pause(tries: int) -> timedelta:
    """Returns the pause after an attempt has begun so many times without being sent."""
    pause = _UNSENT_PAUSE
    for _ in range(tries - 1):
        if pause >= _UNSENT_PAUSE_MAX:
            break
        pause *= 2
    return min(pause, _UNSENT_PAUSE_MAX)
