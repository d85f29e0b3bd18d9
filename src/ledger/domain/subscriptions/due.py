"""What is due next on a subscription, and when: one timer for each subscription.

A charge that is in progress holds back every other charge and the ends that depend on its outcome, but no new period.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final, NamedTuple

from ledger.domain.subscriptions.state import Subscription, SubscriptionStatus

DUE: Final = "subscription-due"
"""The kind of the timer of a subscription's next work."""

TRIAL_NOTICE: Final = timedelta(days=3)
"""How long before the end of a trial the event `trial_will_end` is recorded."""

CHARGE_TIME: Final = timedelta(seconds=60)
"""After how long by the merchant's clock a charge without an outcome is completed by a worker."""


class Step(IntEnum):
    """The kinds of due work. Of two that are due at the same time, the smaller is done first."""

    CHARGE = 0
    TRIAL_NOTICE = 1
    PERIOD_END = 2
    RETRY = 3
    UNPAID_END = 4


class Due(NamedTuple):
    """Work that is due at `at`."""

    at: datetime
    step: Step


def next_due(state: Subscription) -> Due | None:
    """Returns the earliest work of a subscription, due or not yet, or None. A charge in progress is no part of it."""
    return min(_due(state), default=None)


def charge_over_at(state: Subscription) -> datetime | None:
    """Returns when the charge in progress is completed by a worker, because a crash may have left it; None for none."""
    return None if state.charge is None else state.charge.begun_at + CHARGE_TIME


def _due(state: Subscription) -> Iterator[Due]:
    if not state.is_live:
        yield from _last_charge(state)
        return
    if state.status is SubscriptionStatus.TRIALING and not state.trial_end_announced and not state.cancel_at_period_end:
        assert state.trial_end is not None, "a trial has an end"
        if not state.invoices:
            yield Due(max(state.created_at, state.trial_end - TRIAL_NOTICE), Step.TRIAL_NOTICE)
    if _ends_or_renews(state):
        yield Due(state.current_period_end, Step.PERIOD_END)
    if state.charge is None:
        yield from _charges(state)
        if state.status is SubscriptionStatus.UNPAID and state.cancels_at is not None:
            yield Due(state.cancels_at, Step.UNPAID_END)


def _last_charge(state: Subscription) -> Iterator[Due]:
    """Yields the charge of the last invoice of a subscription that has ended."""
    invoice = state.oldest_open
    if state.status is SubscriptionStatus.CANCELED and invoice is not None and state.charge is None:
        yield Due(invoice.next_attempt_at or invoice.due_at, Step.CHARGE)


def _ends_or_renews(state: Subscription) -> bool:
    """Returns whether the end of the current period ends the subscription or begins a period.

    After the last period of a plan with an end, an open invoice or a charge keeps the subscription from ending.
    """
    if state.cancel_at_period_end or not state.is_expiring:
        return True
    return state.status is SubscriptionStatus.ACTIVE and state.charge is None and state.oldest_open is None


def _charges(state: Subscription) -> Iterator[Due]:
    """Yields the charge of the oldest open invoice. An UNPAID subscription is charged on request alone."""
    invoice = state.oldest_open
    if invoice is None or state.status is SubscriptionStatus.UNPAID:
        return
    if state.status is SubscriptionStatus.PAST_DUE and invoice.last_decline is not None:
        if invoice.next_attempt_at is not None:
            yield Due(invoice.next_attempt_at, Step.RETRY)
    else:
        yield Due(invoice.next_attempt_at or invoice.due_at, Step.CHARGE)
