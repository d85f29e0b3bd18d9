"""The decider of work that is due by the merchant's clock: one step at a time, in the order in which the steps were
due.
"""

from __future__ import annotations

from typing import assert_never

from ledger.domain.subscriptions.commands import RunDue
from ledger.domain.subscriptions.decide import steps
from ledger.domain.subscriptions.due import Step, next_due
from ledger.domain.subscriptions.events import CanceledBecause, ChargeTrigger, SubscriptionEvent, TrialWillEnd
from ledger.domain.subscriptions.state import Subscription, SubscriptionStatus


def decide_due(state: Subscription, command: RunDue) -> list[SubscriptionEvent]:
    """Does the earliest of what is due. Returns no events if nothing is due yet."""
    due = next_due(state)
    if due is None or due.at > command.at:
        return []
    match due.step:
        case Step.TRIAL_NOTICE:
            assert state.trial_end is not None, "a trial has an end"
            return [TrialWillEnd(trial_end=state.trial_end, at=command.at)]
        case Step.PERIOD_END:
            return decide_period_end(state, command)
        case Step.CHARGE | Step.RETRY:
            return _charge(state, ChargeTrigger.RETRY if due.step is Step.RETRY else ChargeTrigger.DUE, command)
        case Step.UNPAID_END:
            return steps.end(state, CanceledBecause.UNPAID_TOO_LONG, due.at, command.at)
        case _:
            assert_never(due.step)


def decide_period_end(state: Subscription, command: RunDue) -> list[SubscriptionEvent]:
    """Ends the subscription with its period, or begins the next period and charges it if no older invoice is open."""
    ended_at = state.current_period_end
    if state.cancel_at_period_end:
        return steps.end(state, CanceledBecause.PERIOD_ENDED, ended_at, command.at)
    if state.is_expiring:
        return steps.end(state, CanceledBecause.EXPIRED, ended_at, command.at)
    opened = steps.next_period(state, command.at)
    state = steps.after(state, opened)
    invoice = state.oldest_open
    is_first = invoice is not None and invoice.ordinal == state.last_ordinal
    if state.charge is not None or not is_first or state.status is SubscriptionStatus.UNPAID:
        return opened
    return [*opened, *_charge(state, ChargeTrigger.DUE, command)]


def _charge(state: Subscription, trigger: ChargeTrigger, command: RunDue) -> list[SubscriptionEvent]:
    invoice = state.oldest_open
    assert invoice is not None, "an open invoice was due"
    if not invoice.amount:
        return steps.paid(state, invoice, command.at)
    return [steps.begin_charge(state, invoice, trigger, command.at)]
