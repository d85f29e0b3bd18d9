"""What a merchant's requests about a subscription lead to: its first charge, cancellation, change of plan."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.domain.test_subscriptions import HARD, MEXICO, PAID, START, due, plan, requested, settled, then

from ledger.domain.money import AMOUNT_MAX
from ledger.domain.plans.terms import Interval
from ledger.domain.rejections import AmountNotChargeable
from ledger.domain.subscriptions import commands
from ledger.domain.subscriptions.calendar import period
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_change, decide_resume
from ledger.domain.subscriptions.proration import total
from ledger.domain.subscriptions.state import Subscription

LATER = START + timedelta(days=3)


def changed(state: Subscription, proration: commands.Proration, at: datetime, **terms: Any) -> Subscription:
    command = commands.ChangeSubscription(at=at, plan=plan(2, **terms), proration=proration)
    return then(state, decide_change(state, command))


@pytest.mark.parametrize(
    ("trial_days", "asked", "first_charge_at"),
    [
        (0, {}, START),
        (0, {"start": LATER}, LATER),
        (2, {}, START + timedelta(days=2)),
        (2, {"start": LATER}, LATER + timedelta(days=2)),
        (2, {"trial_end": None}, START),
        (2, {"trial_end": None, "start": LATER}, LATER),
        (2, {"trial_end": LATER}, LATER),
        (0, {"trial_end": LATER}, LATER),
        (2, {"trial_end": LATER, "start": START}, LATER),
    ],
)
def test_the_first_charge_is_at_the_trial_s_end_else_at_the_start_else_now(
    trial_days: int, asked: dict[str, Any], first_charge_at: datetime
) -> None:
    state = requested(plan(trial_period_days=trial_days), **asked)
    assert state.anchor == first_charge_at
    if first_charge_at > START:
        assert (state.status, state.trial_end, state.charge) == ("TRIALING", first_charge_at, None)
        assert due(state, first_charge_at - timedelta(days=3)).charge is None
        state = due(due(state, first_charge_at), first_charge_at)
    assert state.charge is not None
    assert state.invoices[0].period_start == first_charge_at


def test_a_trial_that_is_cancelled_at_its_end_is_never_charged() -> None:
    state = requested(plan(trial_period_days=10))
    state = then(state, decide_cancel(state, commands.CancelSubscription(at=START, at_period_end=True)))
    assert (state.status, state.cancel_at_period_end, state.canceled_at) == ("TRIALING", True, START)
    ends_at = START + timedelta(days=10)
    assert not due(state, ends_at - timedelta(seconds=1)).trial_end_announced
    ended = due(state, ends_at)
    assert (ended.status, ended.ended_at, ended.invoices) == ("CANCELED", ends_at, ())
    resumed = then(state, decide_resume(state, commands.ResumeSubscription(at=LATER)))
    assert (resumed.cancel_at_period_end, resumed.canceled_at) == (False, None)
    assert due(due(resumed, ends_at), ends_at).charge is not None


def test_an_unpaid_subscription_is_cancelled_now() -> None:
    state = settled(requested(), PAID)
    at = state.current_period_end
    state = settled(due(state, at), HARD, at)
    assert state.status == "UNPAID"
    state = then(state, decide_cancel(state, commands.CancelSubscription(at=at, at_period_end=True)))
    assert (state.status, state.ended_at, state.invoices[-1].status) == ("CANCELED", at, "VOID")


def test_a_change_of_plan_is_settled_as_its_proration_behaviour_has_it() -> None:
    state = settled(requested(), PAID)
    half = START + (state.current_period_end - START) / 2
    for behaviour, now, following in (
        (commands.Proration.NONE, [], [30_000]),
        (commands.Proration.NEXT_INVOICE, [], [30_000, -5_000, 15_000]),
        (commands.Proration.INVOICE_NOW, [-5_000, 15_000], [30_000]),
    ):
        after = changed(state, behaviour, half, amount=Decimal(30_000))
        assert [line.amount for invoice in after.invoices[1:] for line in invoice.lines] == now
        assert (after.charge is not None) is bool(now)
        assert after.current_period_end == state.current_period_end
        if after.charge is not None:
            assert after.invoices[1].amount == 10_000
            after = settled(after, PAID, half)
        after = due(after, state.current_period_end)
        assert [line.amount for line in after.invoices[-1].lines] == following, behaviour
        assert after.invoices[-1].amount == sum(following)


@pytest.mark.parametrize("behaviour", [commands.Proration.NEXT_INVOICE, commands.Proration.INVOICE_NOW])
def test_a_change_of_plan_leaves_no_more_than_the_last_invoice_can_charge(behaviour: commands.Proration) -> None:
    yearly = plan(interval=Interval.YEAR, amount=AMOUNT_MAX)
    state = settled(requested(yearly), PAID)
    with pytest.raises(AmountNotChargeable):
        changed(state, behaviour, LATER, amount=AMOUNT_MAX, interval=Interval.MONTH)
    with pytest.raises(AmountNotChargeable):  # a refund of the year takes its credit back
        changed(state, behaviour, LATER, amount=AMOUNT_MAX // 8, interval=Interval.MONTH)
    unsettled = changed(state, commands.Proration.NONE, LATER, amount=AMOUNT_MAX, interval=Interval.MONTH)
    assert unsettled.carried == ()
    after = changed(state, behaviour, LATER, amount=AMOUNT_MAX // 20, interval=Interval.MONTH)
    ended = then(after, decide_cancel(after, commands.CancelSubscription(at=LATER, at_period_end=False)))
    assert total(ended.carried) <= 0, "nothing that is owed is left without an invoice"


def test_a_plan_with_other_periods_begins_where_the_current_one_ends() -> None:
    state = settled(requested(), PAID)
    after = changed(state, commands.Proration.NONE, START, interval=Interval.WEEK)
    after = settled(due(after, state.current_period_end), PAID, state.current_period_end)
    assert after.invoices[-1].period_start == state.current_period_end
    assert after.current_period_end == state.current_period_end + timedelta(weeks=1)


@pytest.mark.parametrize("zone", ["America/Tijuana", "Europe/Madrid", MEXICO])
@pytest.mark.parametrize("interval", [Interval.DAY, Interval.WEEK, Interval.HALF_MONTH, Interval.MONTH])
def test_periods_keep_the_merchant_s_time_of_day_across_a_year(zone: str, interval: Interval) -> None:
    """Tijuana and Madrid have summer time; central Mexico has had none since 2022."""
    local = START.astimezone(ZoneInfo(zone)).time()
    starts = [period(START, zone, interval, 1, n).start for n in range(380 if interval is Interval.DAY else 30)]
    assert {start.astimezone(ZoneInfo(zone)).time() for start in starts} == {local}
    assert len({start.time() for start in starts}) == (1 if zone == MEXICO else 2)
