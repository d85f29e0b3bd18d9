"""The decider of a new subscription: its dates, and its first charge or its trial."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET

from ledger.domain.rejections import DuplicateExternalId, InvalidField, refuse_fields
from ledger.domain.subscriptions.calendar import days_after, start_problem
from ledger.domain.subscriptions.commands import RequestSubscription
from ledger.domain.subscriptions.decide import steps
from ledger.domain.subscriptions.events import (
    ChargeTrigger,
    SubscriptionEvent,
    SubscriptionRequested,
    SubscriptionStarted,
)
from ledger.domain.subscriptions.state import Subscription


def decide_request(state: Subscription | None, command: RequestSubscription) -> list[SubscriptionEvent]:
    """Requests a subscription. With a trial it starts at once; otherwise its first invoice is charged.

    `state` is None, or that of the subscription with the same external id: one that was refused is requested again.
    Raises InvalidField for `startDate` and `trialEnd`, DuplicateExternalId.
    """
    first_charge_at = _first_charge_at(command)
    if state is not None and state.refusal is None:
        raise DuplicateExternalId(
            "Another subscription has this externalId: change that subscription or use another externalId.",
            field="externalId",
        )
    is_trial = first_charge_at > command.at
    requested = SubscriptionRequested(
        subscription_id=command.subscription_id,
        customer_id=command.customer_id,
        plan_id=command.plan.plan_id,
        plan_name=command.plan.name,
        terms=command.plan.terms,
        payment_method_id=command.payment_method_id,
        anchor=first_charge_at,
        time_zone=command.time_zone,
        at=command.at,
        trial_end=first_charge_at if is_trial else None,
        external_id=command.external_id,
        metadata=UNSET if command.metadata is None else command.metadata,
    )
    if is_trial:
        return [requested, SubscriptionStarted(at=command.at)]
    state = steps.after(state, [requested])
    opened = steps.next_period(state, command.at)
    state = steps.after(state, opened)
    invoice = state.oldest_open
    assert invoice is not None, "a plan has a price"
    return [requested, *opened, steps.begin_charge(state, invoice, ChargeTrigger.DUE, command.at)]


def _first_charge_at(command: RequestSubscription) -> datetime:
    """Returns the end of the trial, else the start, else now. Raises InvalidField."""
    at, start, trial_end = command.at, command.start, command.trial_end
    problems = [*_date_problems("startDate", start, at), *_date_problems("trialEnd", trial_end, at)]
    if not problems and start is not None and isinstance(trial_end, datetime) and trial_end < start:
        problems.append(InvalidField("trialEnd", "must not be before startDate"))
    refuse_fields(problems)
    if isinstance(trial_end, datetime):
        return trial_end
    begins_at = start or at
    if trial_end is None or not command.plan.terms.trial_period_days:
        return begins_at
    return days_after(begins_at, command.time_zone, command.plan.terms.trial_period_days)


def _date_problems(field: str, date: object, at: datetime) -> list[InvalidField]:
    if not isinstance(date, datetime):
        return []
    problem = start_problem(date, at)
    return [] if problem is None else [InvalidField(field, problem)]
