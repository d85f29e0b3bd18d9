"""The deciders of a subscription by example: dates, retries, ends, and one charge at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from ledger.domain.fold import fold
from ledger.domain.plans.terms import Interval, OnRetriesExhausted, PlanTerms
from ledger.domain.rejections import CurrencyMismatch, InvalidField, NoNextInvoice, TooManyPendingLines
from ledger.domain.rejections import SubscriptionCanceled as CanceledAlready
from ledger.domain.subscriptions import charge_ids, commands
from ledger.domain.subscriptions.calendar import Period, period
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_change, decide_retry
from ledger.domain.subscriptions.decide.charges import decide_outcome, is_surplus
from ledger.domain.subscriptions.decide.due_work import decide_due
from ledger.domain.subscriptions.decide.preview import preview_next
from ledger.domain.subscriptions.decide.request import decide_request
from ledger.domain.subscriptions.events import (
    ChargeBegun,
    ChargeSurplus,
    CreditCarried,
    ProrationDeferred,
    SubscriptionEvent,
)
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.proration import proration_lines
from ledger.domain.subscriptions.state import Charge, PricedPlan, Subscription, SubscriptionStatus

START = datetime(2027, 1, 31, 18, tzinfo=UTC)
MEXICO = "America/Mexico_City"
SOFT = commands.ChargeFailed(code="INSUFFICIENT_FUNDS", hard=False)
HARD = commands.ChargeFailed(code="CARD_LOST_OR_STOLEN", hard=True)
PAID = commands.ChargePaid()
NEXT_INVOICE = commands.Proration.NEXT_INVOICE


def plan(n: int = 1, **terms: Any) -> commands.ChosenPlan:
    values = {"amount": Decimal(10_000), "currency": "MXN", "interval": Interval.MONTH, **terms}
    return commands.ChosenPlan(plan_id=UUID(int=n), name=f"Plan {n}", terms=PlanTerms(**values))


def requested(chosen: commands.ChosenPlan | None = None, **changes: Any) -> Subscription:
    command = commands.RequestSubscription(
        subscription_id=UUID(int=7),
        customer_id=UUID(int=8),
        plan=chosen or plan(),
        payment_method_id=UUID(int=9),
        time_zone=MEXICO,
        at=START,
        **changes,
    )
    return fold(evolve, None, decide_request(None, command))


def then(state: Subscription, events: list[SubscriptionEvent]) -> Subscription:
    return fold(evolve, state, events)


def settled(state: Subscription, outcome: commands.ChargeOutcome, at: datetime = START) -> Subscription:
    assert state.charge is not None
    return then(state, decide_outcome(state, outcome_of(state.charge, outcome, at)))


def outcome_of(charge: Charge, outcome: commands.ChargeOutcome, at: datetime) -> commands.RecordCharge:
    return commands.RecordCharge(
        order_id=charge.order_id, payment_id=charge.payment_id, outcome=outcome, at=at, unpaid_days=60
    )


def due(state: Subscription, at: datetime) -> Subscription:
    return then(state, decide_due(state, commands.RunDue(at=at)))


@pytest.mark.parametrize(
    ("interval", "starts"),
    [
        (Interval.MONTH, ["01-31", "02-28", "03-31", "04-30", "05-31"]),
        (Interval.HALF_MONTH, ["01-31", "02-16", "02-28", "03-16", "03-31"]),
        (Interval.WEEK, ["01-31", "02-07", "02-14", "02-21", "02-28"]),
        (Interval.DAY, ["01-31", "02-01", "02-02", "02-03", "02-04"]),
    ],
)
def test_periods_are_counted_from_the_anchor(interval: Interval, starts: list[str]) -> None:
    assert [f"{period(START, MEXICO, interval, 1, n).start:%m-%d}" for n in range(5)] == starts


def test_a_period_keeps_the_local_time_of_day_across_daylight_saving() -> None:
    anchor = datetime(2027, 3, 14, 9, tzinfo=UTC)  # 10:00 in Madrid
    assert [period(anchor, "Europe/Madrid", Interval.MONTH, 1, n).start.hour for n in range(3)] == [9, 8, 8]


def test_the_leap_day_comes_back() -> None:
    anchor = datetime(2028, 2, 29, 12, tzinfo=UTC)
    years = [period(anchor, "UTC", Interval.YEAR, 1, n).start for n in (1, 4)]
    assert [f"{one:%Y-%m-%d}" for one in years] == ["2029-02-28", "2032-02-29"]


def test_dates_outside_their_bounds_are_refused_together() -> None:
    with pytest.raises(InvalidField) as refused:
        requested(start=START - timedelta(seconds=1), trial_end=START + timedelta(days=731))
    assert [refused.value.field, *(other.field for other in refused.value.others)] == ["startDate", "trialEnd"]
    with pytest.raises(InvalidField):
        requested(start=START + timedelta(days=3), trial_end=START + timedelta(days=2))


def test_a_soft_decline_is_retried_as_often_as_the_plan_allows() -> None:
    state = settled(requested(plan(max_retries=2, retry_delay_hours=24)), PAID)
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    statuses, at = [state.status], state.current_period_start
    for _ in range(2):
        at += timedelta(days=1)
        state = settled(due(state, at), SOFT, at)
        statuses.append(state.status)
    assert statuses == ["PAST_DUE", "PAST_DUE", "UNPAID"]
    assert state.cancels_at == at + timedelta(days=60)


@pytest.mark.parametrize(
    ("ends", "status"), [(OnRetriesExhausted.UNPAID, "UNPAID"), (OnRetriesExhausted.CANCEL, "CANCELED")]
)
def test_a_hard_decline_is_not_retried(ends: OnRetriesExhausted, status: str) -> None:
    state = settled(requested(plan(on_retries_exhausted=ends)), PAID)
    state = settled(due(state, state.current_period_end), HARD, state.current_period_end)
    assert (state.status, state.invoices[-1].next_attempt_at) == (status, None)


def test_a_charge_that_was_never_sent_is_no_decline() -> None:
    state = settled(requested(), PAID)
    at = state.current_period_end
    state = settled(due(state, at), commands.ChargeNotSent(), at)
    assert (state.status, state.invoices[-1].attempt_count) == ("ACTIVE", 0)
    assert due(state, at).charge is None
    assert due(state, at + timedelta(minutes=5)).charge is not None


def test_a_charge_that_is_not_sent_begins_again_on_the_same_order_after_growing_pauses() -> None:
    state = settled(requested(), PAID)
    at, pauses, charges = state.current_period_end, [], []
    for _ in range(50):
        state = due(state, at)
        assert state.charge is not None
        charges.append(state.charge)
        state = settled(state, commands.ChargeNotSent(), at)
        again_at = state.invoices[-1].next_attempt_at
        assert again_at is not None
        pauses.append((again_at - at) // timedelta(minutes=1))
        at = again_at
    assert pauses == [5, 10, 20, 40, 80, 160, 320, *[360] * 43]
    assert {(charge.order_id, charge.attempt) for charge in charges} == {(charges[0].order_id, 1)}
    assert len({charge.payment_id for charge in charges}) == 50
    state = settled(due(state, at), SOFT, at)
    assert state.invoices[-1].attempt_count == 1
    assert state.invoices[-1].next_attempt_at is not None
    later = due(state, state.invoices[-1].next_attempt_at)
    assert later.charge is not None
    assert later.charge.attempt == 2
    assert later.charge.order_id != charges[0].order_id


def test_an_attempt_whose_order_takes_no_further_payment_gets_another_order() -> None:
    state = settled(requested(), PAID)
    at = state.current_period_end
    state = due(state, at)
    first = state.charge
    assert first is not None
    state = due(settled(state, commands.ChargeNotSent(order_ended=True), at), at + timedelta(minutes=5))
    assert state.charge is not None
    assert (state.charge.attempt, state.invoices[-1].attempt_count) == (2, 1)
    assert state.charge.order_id != first.order_id


def test_the_outcome_of_an_earlier_payment_does_not_end_a_charge_that_began_again() -> None:
    state = settled(requested(), PAID)
    at = state.current_period_end
    state = due(state, at)
    first = state.charge
    assert first is not None
    state = due(settled(state, commands.ChargeNotSent(), at), at + timedelta(minutes=5))
    assert state.charge is not None
    for outcome in (commands.ChargeNotSent(), SOFT):
        assert decide_outcome(state, outcome_of(first, outcome, at + timedelta(minutes=5))) == []
    state = then(state, decide_outcome(state, outcome_of(first, PAID, at + timedelta(minutes=5))))
    assert (state.charge, state.invoices[-1].status) == (None, "PAID")


def test_one_charge_is_in_progress_at_a_time() -> None:
    state = settled(requested(), PAID)
    state = due(state, state.current_period_end)
    assert decide_retry(state, commands.RetryCharge(at=state.current_period_end)) == []
    later = due(state, state.current_period_end)
    assert (len(later.invoices), later.charge) == (3, state.charge)


def test_an_order_that_pays_a_paid_invoice_goes_back() -> None:
    state = settled(requested(plan(max_retries=3)), PAID)
    at = state.current_period_end
    state = settled(due(state, at), SOFT, at)
    failed = state.invoices[-1].attempts[0]
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    late = commands.RecordCharge(
        order_id=failed.order_id, payment_id=failed.payment_ids[0], outcome=PAID, at=at, unpaid_days=60
    )
    state = then(state, decide_outcome(state, late))
    assert (state.status, state.invoices[-1].payment_order_id) == ("ACTIVE", failed.order_id)
    assert state.charge is not None
    assert is_surplus(state, state.charge.order_id)
    assert not is_surplus(state, failed.order_id)
    surplus = decide_outcome(state, outcome_of(state.charge, PAID, at))
    assert [type(event) for event in surplus] == [ChargeSurplus]


def test_money_for_a_subscription_that_never_began_goes_back() -> None:
    state = requested()
    assert state.charge is not None
    refused = settled(state, SOFT)
    assert refused.status is None
    assert is_surplus(refused, state.charge.order_id)
    assert is_surplus(None, state.charge.order_id)


def test_a_cancelled_subscription_stays_cancelled() -> None:
    state = settled(requested(), PAID)
    state = then(state, decide_cancel(state, commands.CancelSubscription(at=START)))
    assert (state.status, state.canceled_at, state.ended_at) == ("CANCELED", START, START)
    for decide in (
        lambda: decide_cancel(state, commands.CancelSubscription(at=START)),
        lambda: decide_retry(state, commands.RetryCharge(at=START)),
        lambda: decide_change(state, commands.ChangeSubscription(at=START)),
    ):
        with pytest.raises(CanceledAlready):
            decide()


def test_a_plan_in_another_currency_is_refused() -> None:
    state = settled(requested(), PAID)
    with pytest.raises(CurrencyMismatch):
        decide_change(state, commands.ChangeSubscription(at=START, plan=plan(2, currency="USD")))


def test_a_cheaper_plan_leaves_a_credit_that_the_next_invoice_takes_over() -> None:
    state = settled(requested(plan(amount=Decimal(30_000))), PAID)
    command = commands.ChangeSubscription(
        at=START, plan=plan(2, amount=Decimal(10_000)), proration=commands.Proration.INVOICE_NOW
    )
    state = then(state, decide_change(state, command))
    assert (len(state.invoices), [line.amount for line in state.carried]) == (1, [-30_000, 10_000])
    state = due(state, state.current_period_end)
    assert (state.invoices[-1].amount, state.invoices[-1].status, state.charge) == (0, "PAID", None)
    assert [line.amount for line in state.carried] == [-10_000]


def test_a_part_of_a_period_is_counted_to_the_second_and_rounded_half_to_even() -> None:
    terms = plan(amount=Decimal(5), interval=Interval.DAY).terms
    day_s = 24 * 60 * 60
    rest = Period(START, START + timedelta(hours=12))
    lines = proration_lines(PricedPlan("a", terms, day_s), PricedPlan("b", terms, day_s), rest)
    assert [line.amount for line in lines] == [-2, 2]


def _moved(state: Subscription, at: datetime, to: commands.ChosenPlan, proration: commands.Proration) -> Subscription:
    state = then(state, decide_change(state, commands.ChangeSubscription(at=at, plan=to, proration=proration)))
    return settled(state, PAID, at) if state.charge is not None else state


def test_plans_that_are_changed_and_changed_back_at_once_cost_nothing() -> None:
    monthly, yearly = plan(), plan(2, amount=Decimal(240_000), interval=Interval.YEAR)
    at = START + timedelta(days=10)
    state = _moved(settled(requested(monthly), PAID), at, yearly, commands.Proration.INVOICE_NOW)
    (_, extra) = state.invoices
    state = _moved(state, at, monthly, commands.Proration.NEXT_INVOICE)
    credit, charge = [line.amount for line in state.carried]
    assert credit == -extra.lines[1].amount, "the rest of the period was charged by the year"
    assert charge == -extra.lines[0].amount


def test_a_plan_that_was_never_charged_gives_no_credit() -> None:
    cheap, dear = plan(), plan(2, amount=Decimal(100_000))
    at = START + timedelta(days=10)
    state = _moved(settled(requested(cheap), PAID), at, dear, commands.Proration.NONE)
    state = _moved(state, at, cheap, commands.Proration.NEXT_INVOICE)
    assert sum(line.amount for line in state.carried) == 0
    assert state.carried[0].description == f"Unused time on {cheap.name}"


def test_a_plan_of_the_same_price_and_interval_costs_nothing_in_any_month() -> None:
    state = settled(requested(), PAID)
    state = due(state, state.current_period_end)  # from 28 February to 31 March
    state = settled(state, PAID, state.current_period_start)
    state = _moved(state, state.current_period_start, plan(2), commands.Proration.NEXT_INVOICE)
    assert [line.amount for line in state.carried] == [-10_000, 10_000]


def test_a_requested_charge_that_is_declined_begins_the_retries_of_an_invoice_without_any() -> None:
    state = settled(requested(plan(interval=Interval.DAY)), PAID)
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    at = state.current_period_end
    state = due(state, at)  # a second open invoice, which waits for the first one
    for outcome in (PAID, SOFT):
        state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
        state = settled(state, outcome, at)
    latest = state.invoices[-1]
    assert (state.status, latest.status) == (SubscriptionStatus.PAST_DUE, "OPEN")
    assert latest.next_attempt_at == at + timedelta(hours=state.terms.retry_delay_hours)


def test_a_requested_charge_that_was_not_sent_leaves_the_time_of_the_retry() -> None:
    state = settled(requested(), PAID)
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    planned = state.invoices[-1].next_attempt_at
    assert planned is not None
    at = planned - timedelta(hours=5)
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    state = settled(state, commands.ChargeNotSent(), at)
    assert state.invoices[-1].next_attempt_at == planned


@pytest.mark.parametrize("interval", [Interval.MONTH, Interval.HALF_MONTH])
def test_a_change_that_is_changed_back_costs_nothing_in_a_period_of_unusual_length(interval: Interval) -> None:
    first, yearly = plan(interval=interval), plan(2, amount=Decimal(240_000), interval=Interval.YEAR)
    state = settled(requested(first), PAID)
    while period(state.current_period_start, MEXICO, interval, 1, 0).end == state.current_period_end:
        state = settled(due(state, state.current_period_end), PAID, state.current_period_end)
    calendar = (state.anchor, state.next_period)
    at = state.current_period_start + timedelta(days=1)
    for to in (yearly, first):
        state = then(state, decide_change(state, commands.ChangeSubscription(at=at, plan=to, proration=NEXT_INVOICE)))
    assert sum(line.amount for line in state.carried) == 0
    assert (state.anchor, state.next_period) == calendar, "the next periods begin on the days as before"


def test_a_change_of_plan_records_its_own_lines_alone_and_at_most_a_hundred_wait() -> None:
    state, at = settled(requested(), PAID), START + timedelta(days=10)
    for n in range(50):
        command = commands.ChangeSubscription(at=at, plan=plan(2 + n % 2), proration=NEXT_INVOICE)
        _, deferred = events = decide_change(state, command)
        assert isinstance(deferred, ProrationDeferred)
        assert [line.amount < 0 for line in deferred.lines] == [True, False]
        assert {(line.period_start, line.period_end) for line in deferred.lines} == {(at, state.current_period_end)}
        state = then(state, events)
    assert len(state.carried) == 100
    dearer = plan(4, amount=Decimal(20_000))
    with pytest.raises(TooManyPendingLines):
        decide_change(state, commands.ChangeSubscription(at=at, plan=dearer, proration=NEXT_INVOICE))
    cheaper = plan(4, amount=Decimal(1))
    with pytest.raises(TooManyPendingLines):
        decide_change(state, commands.ChangeSubscription(at=at, plan=cheaper, proration=commands.Proration.INVOICE_NOW))
    free = commands.ChangeSubscription(at=at, plan=dearer, proration=commands.Proration.NONE)
    assert len(then(state, decide_change(state, free)).carried) == 100
    now = commands.ChangeSubscription(at=at, plan=dearer, proration=commands.Proration.INVOICE_NOW)
    invoiced = then(state, decide_change(state, now))
    assert (invoiced.carried, len(invoiced.invoices[-1].lines)) == ((), 102)


def test_lines_of_an_older_release_wait_with_the_new_ones() -> None:
    state = settled(requested(), PAID)
    assert state.billed is not None
    rest = Period(START, state.current_period_end)
    waiting = proration_lines(state.priced, state.priced, rest)
    state = then(state, [CreditCarried(lines=waiting, at=START)])
    command = commands.ChangeSubscription(at=START, plan=plan(2, amount=Decimal(20_000)), proration=NEXT_INVOICE)
    state = then(state, decide_change(state, command))
    assert [line.amount for line in state.carried] == [-10_000, 10_000, -10_000, 20_000]
    state = due(state, state.current_period_end)
    assert (state.invoices[-1].amount, state.carried) == (30_000, ())


def test_the_preview_is_the_invoice_that_the_end_of_the_period_makes() -> None:
    trial = requested(plan(trial_period_days=14))
    changed = settled(requested(), PAID)
    command = commands.ChangeSubscription(
        at=START + timedelta(days=3), plan=plan(2, amount=Decimal(20_000)), proration=NEXT_INVOICE
    )
    changed = then(changed, decide_change(changed, command))
    for state in (due(trial, START + timedelta(days=14)), settled(requested(), PAID), changed):
        assert preview_next(state) == replace(
            due(state, state.current_period_end).invoices[-1],
            attempts=(), attempt_count=0, payment_order_id=None,
        )  # fmt: skip


def test_a_subscription_that_ends_has_no_next_invoice() -> None:
    ending = settled(requested(), PAID)
    ending = then(ending, decide_cancel(ending, commands.CancelSubscription(at=START, at_period_end=True)))
    for state in (ending, settled(requested(plan(expiry_count=1)), PAID)):
        with pytest.raises(NoNextInvoice):
            preview_next(state)
    with pytest.raises(CanceledAlready):
        preview_next(then(ending, decide_cancel(ending, commands.CancelSubscription(at=START))))


def test_the_ids_of_an_attempt_follow_from_it() -> None:
    begun = [event for event in decide_request(None, _command()) if isinstance(event, ChargeBegun)]
    again = [event for event in decide_request(None, _command()) if isinstance(event, ChargeBegun)]
    assert begun == again
    assert charge_ids.may_be_charge(begun[0].order_id)


def test_an_order_of_the_first_release_names_its_subscription_by_its_ids() -> None:
    begun = next(event for event in decide_request(None, _command()) if isinstance(event, ChargeBegun))
    seven = charge_ids.external_id(UUID(int=7), 1, 1)
    assert charge_ids.subscription_in(begun.order_id, seven) == UUID(int=7)
    assert charge_ids.subscription_in(begun.order_id, "another") is None
    assert charge_ids.subscription_in(UUID(int=1), seven) is None, "a merchant chose the external id"


def _command() -> commands.RequestSubscription:
    return commands.RequestSubscription(
        subscription_id=UUID(int=7),
        customer_id=UUID(int=8),
        plan=plan(),
        payment_method_id=UUID(int=9),
        time_zone=MEXICO,
        at=START,
    )
