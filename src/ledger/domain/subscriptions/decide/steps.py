"""The events that several deciders share: an invoice is made, a charge begins, a subscription ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ledger.domain.fold import fold
from ledger.domain.rejections import SubscriptionCanceled as CanceledAlready
from ledger.domain.subscriptions import charge_ids
from ledger.domain.subscriptions.calendar import period
from ledger.domain.subscriptions.events import (
    CanceledBecause,
    ChargeBegun,
    ChargeTrigger,
    CreditCarried,
    InvoiceLine,
    InvoiceOpened,
    InvoicePaid,
    InvoiceUncollectible,
    InvoiceVoided,
    SubscriptionActivated,
    SubscriptionCanceled,
    SubscriptionEvent,
    SubscriptionRenewed,
    SubscriptionStarted,
)
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.proration import plan_line, summed
from ledger.domain.subscriptions.state import Invoice, Subscription, SubscriptionStatus

_ENDS_WITHOUT_DEBT: Final = (CanceledBecause.REQUESTED, CanceledBecause.CUSTOMER_ERASED)
"""The reasons for which open invoices become VOID; with any other they become UNCOLLECTIBLE."""


def after(state: Subscription | None, events: Sequence[SubscriptionEvent]) -> Subscription:
    """Returns the state after the decided events."""
    return fold(evolve, state, events)


def require_live(state: Subscription) -> None:
    """Raises SubscriptionCanceled if the subscription has ended."""
    if not state.is_live:
        raise CanceledAlready("The subscription is cancelled, which is final: create another one.")


def next_period(state: Subscription, at: datetime) -> list[SubscriptionEvent]:
    """Returns the invoice of the next period, due at its start. An invoice of amount zero is paid at once."""
    terms, n = state.terms, state.next_period
    start, end = period(state.anchor, state.time_zone, terms.interval, terms.interval_count, n)
    lines = (plan_line(state.plan_name, terms), *state.carried)
    return open_invoice(state, lines, (start, end), start, at, n)


def open_invoice(
    state: Subscription,
    lines: Sequence[InvoiceLine],
    times: tuple[datetime, datetime],
    due_at: datetime,
    at: datetime,
    n: int | None,
) -> list[SubscriptionEvent]:
    """Returns an invoice of these lines for the time from `times[0]` to `times[1]`; `n` is the number of its period, if
    any.

    An invoice of amount zero is paid at once, unless an older invoice is unpaid.
    """
    invoice = summed(lines)
    ordinal = state.last_ordinal + 1
    opened = InvoiceOpened(
        invoice_id=charge_ids.invoice_id(state.subscription_id, ordinal),
        ordinal=ordinal,
        number=charge_ids.invoice_number(state.subscription_id, ordinal),
        period_start=times[0],
        period_end=times[1],
        due_at=due_at,
        amount=invoice.amount,
        lines=invoice.lines,
        at=at,
        period=n,
        draft=state.status is SubscriptionStatus.UNPAID,
    )
    events: list[SubscriptionEvent] = [opened]
    if invoice.carried:
        events.append(CreditCarried(lines=invoice.carried, at=at))
    if not invoice.amount and state.oldest_collectable is None:
        events += paid(after(state, events), after(state, events).invoice(opened.invoice_id), at)
    return events


def begin_charge(state: Subscription, invoice: Invoice, trigger: ChargeTrigger, at: datetime) -> ChargeBegun:
    """Returns the beginning of the next attempt to charge an invoice to the subscription's card."""
    attempt = len(invoice.orders) + 1
    order_id = charge_ids.order_id(invoice.invoice_id, attempt, at)
    return ChargeBegun(
        invoice_id=invoice.invoice_id,
        attempt=attempt,
        order_id=order_id,
        payment_id=charge_ids.payment_id(order_id),
        payment_method_id=state.payment_method_id,
        trigger=trigger,
        at=at,
    )


def paid(state: Subscription, invoice: Invoice, at: datetime, **by: object) -> list[SubscriptionEvent]:
    """Returns the events of a paid invoice and their effect on its subscription (contract 2.3). `order_id` in `by` is
    the order that paid, if any.
    """
    events: list[SubscriptionEvent] = [InvoicePaid(invoice_id=invoice.invoice_id, at=at, **by)]  # type: ignore[arg-type]
    match state.status:
        case None:
            return [*events, SubscriptionStarted(at=at)]
        case SubscriptionStatus.CANCELED:
            return events
        case SubscriptionStatus.ACTIVE:
            return (
                [*events, SubscriptionRenewed(invoice_id=invoice.invoice_id, at=at)]
                if invoice.period is not None
                else events
            )
        case _:
            return [*events, SubscriptionActivated(at=at)]


def end(state: Subscription, because: CanceledBecause, ended_at: datetime, at: datetime) -> list[SubscriptionEvent]:
    """Returns the end of a subscription and of its open invoices.

    An invoice that is being charged waits for the outcome.
    """
    charged = None if state.charge is None else state.charge.invoice_id
    return [
        SubscriptionCanceled(because=because, ended_at=ended_at, at=at),
        *(
            end_invoice(invoice, because, at)
            for invoice in state.invoices
            if invoice.is_collectable and invoice.invoice_id != charged
        ),
    ]


def end_invoice(invoice: Invoice, because: CanceledBecause, at: datetime) -> SubscriptionEvent:
    """Returns the end of an open invoice of a subscription that ended for this reason."""
    if because in _ENDS_WITHOUT_DEBT:
        return InvoiceVoided(invoice_id=invoice.invoice_id, at=at)
    return InvoiceUncollectible(invoice_id=invoice.invoice_id, at=at)
