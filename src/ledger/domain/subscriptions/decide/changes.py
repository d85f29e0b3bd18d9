"""The deciders of a merchant's requests about a subscription: change, cancel, resume, retry."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.money import AMOUNT_MAX, plain
from ledger.domain.rejections import AmountNotChargeable, CurrencyMismatch, RequestInProgress, TooManyPendingLines
from ledger.domain.subscriptions.calendar import Period
from ledger.domain.subscriptions.commands import (
    CancelSubscription,
    ChangeSubscription,
    ChosenPlan,
    Proration,
    ResumeSubscription,
    RetryCharge,
)
from ledger.domain.subscriptions.decide import steps
from ledger.domain.subscriptions.events import (
    CancellationScheduled,
    ChargeTrigger,
    InvoiceLine,
    MetadataChanged,
    MethodReplaced,
    PlanChanged,
    ProrationDeferred,
    SubscriptionEvent,
    SubscriptionResumed,
)
from ledger.domain.subscriptions.proration import has_same_length, priced_as, proration_lines, total
from ledger.domain.subscriptions.state import Subscription, SubscriptionStatus

PENDING_LINES_MAX: Final = 100
"""How many lines may wait for the next invoice: two for each change of plan."""

_OWES: Final = (SubscriptionStatus.PAST_DUE, SubscriptionStatus.UNPAID)


def decide_change(state: Subscription, command: ChangeSubscription) -> list[SubscriptionEvent]:
    """Changes the plan, the card and the metadata. Returns no events if nothing differs (contract N67).

    If the subscription has an unpaid invoice, a new card is charged at once, unless a charge is in progress. Raises
    SubscriptionCanceled, CurrencyMismatch, TooManyPendingLines, AmountNotChargeable.
    """
    steps.require_live(state)
    events: list[SubscriptionEvent] = []
    if command.metadata is not UNSET and command.metadata != state.metadata:
        metadata = UNSET if command.metadata is None else command.metadata
        events.append(MetadataChanged(metadata=metadata, at=command.at))
    if command.payment_method_id not in (None, state.payment_method_id):
        assert command.payment_method_id is not None, "it differs from the card that the subscription has"
        events.append(MethodReplaced(payment_method_id=command.payment_method_id, at=command.at))
        if state.status in _OWES:
            events += _charge_now(steps.after(state, events), ChargeTrigger.METHOD_REPLACED, command)
    if command.plan is not None and command.plan.plan_id != state.plan_id:
        events += _change_plan(steps.after(state, events) if events else state, command.plan, command)
    return events


def decide_cancel(state: Subscription, command: CancelSubscription) -> list[SubscriptionEvent]:
    """Cancels a subscription (contract 2.3). An UNPAID subscription has no paid period left, so it ends now.

    Returns no events if its cancellation at the period's end is recorded already. Raises SubscriptionCanceled.
    """
    steps.require_live(state)
    if not command.at_period_end or state.status is SubscriptionStatus.UNPAID:
        return steps.end(state, command.because, command.at, command.at)
    return [] if state.cancel_at_period_end else [CancellationScheduled(at=command.at)]


def decide_resume(state: Subscription, command: ResumeSubscription) -> list[SubscriptionEvent]:
    """Takes back a cancellation at the period's end; no events if there is none. Raises SubscriptionCanceled."""
    steps.require_live(state)
    return [SubscriptionResumed(at=command.at)] if state.cancel_at_period_end else []


def decide_retry(state: Subscription, command: RetryCharge) -> list[SubscriptionEvent]:
    """Charges the oldest open invoice now; no events if none is open or a charge is in progress.

    Of an UNPAID subscription, drafts follow once that charge is paid. Raises SubscriptionCanceled; RequestInProgress if
    drafts are requested and a charge is in progress that leaves them.
    """
    steps.require_live(state)
    if not command.drafts:
        return _charge_now(state, ChargeTrigger.REQUEST, command)
    if state.status is SubscriptionStatus.UNPAID:
        if state.charge is not None and state.charge.trigger is not ChargeTrigger.ALL_REQUESTED:
            raise RequestInProgress(
                "The oldest invoice is being charged: send the request again once that charge has its outcome."
            )
        return _charge_now(state, ChargeTrigger.ALL_REQUESTED, command)
    opened = steps.open_drafts(state.drafts, command.at)
    return [*opened, *_charge_now(steps.after(state, opened), ChargeTrigger.REQUEST, command)]


def _charge_now(
    state: Subscription, trigger: ChargeTrigger, command: ChangeSubscription | RetryCharge
) -> list[SubscriptionEvent]:
    invoice = state.oldest_open
    if invoice is None or state.charge is not None:
        return []
    if not invoice.amount:
        return steps.paid(state, invoice, command.at)
    return [steps.begin_charge(state, invoice, trigger, command.at)]


def _change_plan(state: Subscription, plan: ChosenPlan, command: ChangeSubscription) -> list[SubscriptionEvent]:
    """Moves a subscription to another plan and settles the rest of its current period.

    A trial has no price, so nothing is settled in it, and nothing is in a missed period, which may never be charged.
    Raises CurrencyMismatch, TooManyPendingLines, AmountNotChargeable.
    """
    if plan.terms.currency != state.terms.currency:
        raise CurrencyMismatch(
            f"The subscription is charged in {state.terms.currency} and the plan in {plan.terms.currency}: use a plan in "
            f"{state.terms.currency}, or create another subscription.",
            field="planId",
        )
    after = plan.terms
    changed = PlanChanged(plan_id=plan.plan_id, plan_name=plan.name, terms=after, at=command.at)
    if not has_same_length(after, state.terms):
        changed = replace(changed, anchor=state.current_period_end)
        if state.billed is not None and has_same_length(after, state.billed.terms):  # as before the change away from it
            changed = replace(changed, anchor=state.billed.anchor, next_period=state.billed.next_period)
    if command.proration is Proration.NONE or state.priced is None or state.billed is None or state.is_period_missed:
        return [changed]
    priced = priced_as(plan.name, after, state.billed, state.current_period_start, state.time_zone)
    rest = Period(command.at, state.current_period_end)
    lines = proration_lines(state.priced, priced, rest, is_charged=not state.has_waiting_change)
    if not lines:
        return [changed]
    changed = replace(changed, priced_seconds=priced.seconds)
    return [changed, *_settle(steps.after(state, [changed]), lines, command)]


def _settle(
    state: Subscription, lines: tuple[InvoiceLine, ...], command: ChangeSubscription
) -> list[SubscriptionEvent]:
    """Invoices the lines of a change of plan now, or leaves them to the next invoice; a credit always waits for it.

    Raises TooManyPendingLines, AmountNotChargeable.
    """
    waiting = (*state.carried, *lines)
    _require_chargeable(state, waiting)
    if command.proration is Proration.NEXT_INVOICE or total(waiting) <= 0:
        if len(waiting) > PENDING_LINES_MAX:
            raise _too_many(state)
        return [ProrationDeferred(lines=lines, at=command.at)]
    times = (command.at, state.current_period_end)
    opened = steps.open_invoice(state, waiting, times, command.at, command.at, None)
    state = steps.after(state, opened)
    invoice = state.oldest_open
    is_first = invoice is not None and invoice.ordinal == state.last_ordinal
    if not is_first or invoice is None or state.charge is not None:
        return opened
    return [*opened, steps.begin_charge(state, invoice, ChargeTrigger.DUE, command.at)]


def _require_chargeable(state: Subscription, waiting: Sequence[InvoiceLine]) -> None:
    """Raises AmountNotChargeable if a change has more wait than one invoice can charge: after the last invoice of a
    subscription no other one charges the rest. A refund may take back the credit for what was charged before.
    """
    owed, before = _without_credit(waiting), _without_credit(state.carried)
    if owed > max(before, AMOUNT_MAX):
        raise AmountNotChargeable(
            f"With this change {plain(owed)} minor units would wait for the next invoice, and {plain(AMOUNT_MAX)} is the "
            "most that one can charge: change the plan with prorationBehavior NONE, or in the next period."
        )


def _without_credit(lines: Sequence[InvoiceLine]) -> Decimal:
    return total([line for line in lines if not line.charged_before])


def _too_many(state: Subscription) -> TooManyPendingLines:
    """Returns the rejection of a change whose lines would be too many for the next invoice."""
    advice = ""
    if total(state.carried) > 0:
        advice = "with prorationBehavior INVOICE_NOW, which invoices the lines that wait as well, "
    return TooManyPendingLines(
        f"{len(state.carried)} lines of changes of plan wait for the next invoice, and {PENDING_LINES_MAX} is the most "
        f"that may wait: change the plan {advice}with prorationBehavior NONE, or in the next period."
    )
