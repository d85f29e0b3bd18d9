"""The events that several deciders share: an invoice is made, a charge begins, a subscription ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import Final

from ledger.domain.fold import fold
from ledger.domain.rejections import SubscriptionCanceled as CanceledAlready
from ledger.domain.subscriptions import charge_ids
from ledger.domain.subscriptions.calendar import period
from ledger.domain.subscriptions.events import (
    BillingCycleReset,
    CanceledBecause,
    ChargeBegun,
    ChargeTrigger,
    CreditCarried,
    DraftsOpened,
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
from ledger.domain.subscriptions.proration import plan_line, summed, total
from ledger.domain.subscriptions.state import Invoice, InvoiceStatus, Subscription, SubscriptionStatus

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
    """Returns the invoice of the next period, due at its start. An invoice of amount zero is paid at once.

    The lines that wait stay so while the subscription is UNPAID: its drafts may never be charged.
    """
    terms, n = state.terms, state.next_period
    start, end = period(state.anchor, state.time_zone, terms.interval, terms.interval_count, n)
    own = plan_line(state.plan_name, terms)
    if state.status is not SubscriptionStatus.UNPAID:
        return open_invoice(state, (own, *state.carried), (start, end), start, at, n)
    opened = open_invoice(state, (own,), (start, end), start, at, n)
    return [*opened, CreditCarried(lines=state.carried, at=at)] if state.carried else opened


def open_invoice(
    state: Subscription,
    lines: Sequence[InvoiceLine],
    times: tuple[datetime, datetime],
    due_at: datetime,
    at: datetime,
    n: int | None,
    *,
    final: bool = False,
) -> list[SubscriptionEvent]:
    """Returns an invoice of these lines for the time from `times[0]` to `times[1]`; `n` is the number of its period, if
    any. `final` is that of a subscription that ends.

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
        draft=state.status is SubscriptionStatus.UNPAID and not final,
        final=final,
    )
    events: list[SubscriptionEvent] = [opened]
    if invoice.carried:
        events.append(CreditCarried(lines=invoice.carried, at=at))
    if not invoice.amount and state.oldest_open is None:
        events += paid(after(state, events), after(state, events).invoice(opened.invoice_id), at)
    return events


def begin_charge(state: Subscription, invoice: Invoice, trigger: ChargeTrigger, at: datetime) -> ChargeBegun:
    """Returns the beginning of the next attempt to charge an invoice to the subscription's card.

    An attempt of which nothing was sent begins again: another payment of the same order.
    """
    unsent = invoice.unsent_attempt
    attempt = len(invoice.attempts) + (unsent is None)
    order_id = charge_ids.order_id(invoice.invoice_id, attempt, at) if unsent is None else unsent.order_id
    return ChargeBegun(
        invoice_id=invoice.invoice_id,
        attempt=attempt,
        order_id=order_id,
        payment_id=charge_ids.payment_id(order_id, 0 if unsent is None else len(unsent.payment_ids)),
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
        case SubscriptionStatus.UNPAID:
            events = [*_missed_periods(state, at), *events, SubscriptionActivated(at=at)]
            return [*events, *_after_return(state, after(state, events), at, by.get("order_id"))]
        case _:
            still_failing = any(each.last_decline for each in state.invoices if _is_open_besides(each, invoice))
            return events if still_failing else [*events, SubscriptionActivated(at=at)]


def _is_open_besides(each: Invoice, invoice: Invoice) -> bool:
    return each.status is InvoiceStatus.OPEN and each.invoice_id != invoice.invoice_id


def _missed_periods(state: Subscription, at: datetime) -> list[SubscriptionEvent]:
    """Returns the drafts of periods that began while the subscription was UNPAID, and that no worker has made yet."""
    events: list[SubscriptionEvent] = []
    while state.current_period_end <= at and not state.is_expiring and not state.cancel_at_period_end:
        made = next_period(state, at)
        events += made
        state = after(state, made)
    return events


def open_drafts(drafts: Sequence[Invoice], at: datetime) -> list[SubscriptionEvent]:
    """Returns the opening of drafts, to be charged one after the other; no events for none."""
    invoice_ids = tuple(invoice.invoice_id for invoice in drafts)
    return [DraftsOpened(invoice_ids=invoice_ids, at=at)] if invoice_ids else []


def _after_return(unpaid: Subscription, state: Subscription, at: datetime, order_id: object) -> list[SubscriptionEvent]:
    """Returns what follows once an UNPAID subscription is ACTIVE again, by the charge of this order if it was one.

    Missed periods are charged if the merchant has requested it. Otherwise they stay drafts and a period begins now;
    a change of plan in a period that is paid by now is charged in any case.
    """
    charge = unpaid.charge
    if charge is not None and charge.order_id == order_id and charge.trigger is ChargeTrigger.ALL_REQUESTED:
        return open_drafts(state.drafts, at)
    changes = takewhile(lambda draft: draft.period is None, state.drafts)
    opened = open_drafts(tuple(changes), at)
    return [*opened, *_replace_missed_period(after(state, opened), at)]


def _replace_missed_period(state: Subscription, at: datetime) -> list[SubscriptionEvent]:
    """Returns a period that begins now in place of a missed one, of a subscription that came back from UNPAID.

    Nothing of the missed period is charged any more, so that no time is charged twice. No period follows the last one
    of a plan with an end. Lines of earlier periods that a draft of release 0.1.0 has taken over wait again.
    """
    is_over = state.is_expiring and state.current_period_end <= at
    if not state.is_period_missed or is_over:
        return []
    drafts = [invoice for invoice in state.period_invoices if invoice.status is InvoiceStatus.DRAFT]
    events: list[SubscriptionEvent] = [InvoiceVoided(invoice_id=draft.invoice_id, at=at) for draft in drafts]
    taken_over = tuple(line for line in drafts[0].lines if line.proration)
    if taken_over:
        events.append(CreditCarried(lines=(*state.carried, *taken_over), at=at))
    events.append(BillingCycleReset(anchor=at, at=at))
    return [*events, *next_period(after(state, events), at)]


def end(state: Subscription, because: CanceledBecause, ended_at: datetime, at: datetime) -> list[SubscriptionEvent]:
    """Returns the end of a subscription and of its open invoices.

    An invoice that is being charged waits for the outcome. The lines that wait become a last invoice, which is charged
    once if nothing else is owed.
    """
    last = [] if because is CanceledBecause.CUSTOMER_ERASED else _last_invoice(state, ended_at, at)
    charged = None if state.charge is None else state.charge.invoice_id
    ended = [
        invoice for invoice in after(state, last).invoices if invoice.is_collectable and invoice.invoice_id != charged
    ]
    if not any(invoice.status is InvoiceStatus.OPEN and not invoice.is_final for invoice in ended):
        ended = [invoice for invoice in ended if not invoice.is_final]
    return [
        *last,
        SubscriptionCanceled(because=because, ended_at=ended_at, at=at),
        *(end_invoice(invoice, because, at) for invoice in ended),
    ]


def _last_invoice(state: Subscription, ended_at: datetime, at: datetime) -> list[SubscriptionEvent]:
    """Returns the invoice of the lines that wait when a subscription ends. A credit is not paid out."""
    if total(state.carried) <= 0:
        return []
    times = (state.current_period_start, state.current_period_end)
    return open_invoice(state, state.carried, times, ended_at, at, None, final=True)


def end_invoice(invoice: Invoice, because: CanceledBecause, at: datetime) -> SubscriptionEvent:
    """Returns the end of an open invoice of a subscription that ended for this reason."""
    if because in _ENDS_WITHOUT_DEBT and not invoice.is_final:
        return InvoiceVoided(invoice_id=invoice.invoice_id, at=at)
    return InvoiceUncollectible(invoice_id=invoice.invoice_id, at=at)
