"""Any sequence of declines, cancellations, changes and clock jumps keeps a subscription's invariants.

Periods neither overlap nor leave a gap, statuses move only along contract 2.3, one charge is in progress at a time, and
what is paid is what was invoiced.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.audit.invariants.subscriptions import broken_subscription
from ledger.domain.fold import fold
from ledger.domain.plans.terms import Interval, OnRetriesExhausted, PlanTerms
from ledger.domain.rejections import Rejected
from ledger.domain.subscriptions import commands
from ledger.domain.subscriptions.calendar import period
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_change, decide_resume, decide_retry
from ledger.domain.subscriptions.decide.charges import decide_outcome, decide_refund
from ledger.domain.subscriptions.decide.due_work import decide_due
from ledger.domain.subscriptions.decide.request import decide_request
from ledger.domain.subscriptions.due import next_due
from ledger.domain.subscriptions.events import BillingCycleReset, CanceledBecause, SubscriptionEvent
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import (
    InvoiceStatus,
    PricedPlan,
    Subscription,
    SubscriptionStatus,
)

PROFILE = settings(max_examples=400, deadline=None)
START = datetime(2027, 1, 31, 8, 30, tzinfo=UTC)
ZONES = ("America/Mexico_City", "America/Tijuana", "Europe/Madrid", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC")
COUNTS = {Interval.DAY: 45, Interval.WEEK: 8, Interval.HALF_MONTH: 7, Interval.MONTH: 13, Interval.YEAR: 3}


@st.composite
def plans(draw: st.DrawFn) -> commands.ChosenPlan:
    interval = draw(st.sampled_from(list(Interval)))
    terms = PlanTerms(
        amount=Decimal(draw(st.integers(1, 10_000_000))),
        currency="MXN",
        interval=interval,
        interval_count=draw(st.integers(1, COUNTS[interval])),
        trial_period_days=draw(st.sampled_from([0, 0, 1, 3, 30])),
        expiry_count=draw(st.sampled_from([None, None, 1, 2, 7])),
        max_retries=draw(st.integers(0, 4)),
        retry_delay_hours=draw(st.sampled_from([1, 24, 48, 720])),
        on_retries_exhausted=draw(st.sampled_from(list(OnRetriesExhausted))),
    )
    plan_id = uuid.UUID(int=draw(st.integers(1, 1 << 60)))
    return commands.ChosenPlan(plan_id=plan_id, name="Plan", terms=terms)


moments = st.datetimes(datetime(2026, 12, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001


@PROFILE
@given(moments, st.sampled_from(ZONES), st.sampled_from(list(Interval)), st.data())
def test_periods_neither_overlap_nor_leave_a_gap(anchor, zone, interval, data):
    count = data.draw(st.integers(1, COUNTS[interval]))
    first = data.draw(st.integers(0, 60))
    periods = [period(anchor, zone, interval, count, n) for n in range(first, first + 8)]
    assert all(before.end == after.start for before, after in pairwise(periods))
    assert all(one.end - one.start >= timedelta(hours=22) for one in periods)
    # In UTC: a local time of the hour that the end of summer time repeats equals no time of another zone.
    first_start = anchor.astimezone(ZoneInfo(zone)).replace(fold=0).astimezone(UTC)
    assert period(anchor, zone, interval, count, 0).start == first_start
    local = anchor.astimezone(ZoneInfo(zone)).time()
    ends = [one.end.astimezone(ZoneInfo(zone)).time() for one in periods]
    assert sum(end != local for end in ends) <= sum(_is_skipped(one.end, zone) for one in periods) + 1


def _is_skipped(at: datetime, zone: str) -> bool:
    """Returns whether the clocks of a zone change within a day of a time."""
    tz, day = ZoneInfo(zone), timedelta(days=1)
    return (at - day).astimezone(tz).utcoffset() != (at + day).astimezone(tz).utcoffset()


outcomes = st.sampled_from(
    [
        commands.ChargePaid(),
        commands.ChargePaid(),
        commands.ChargePaid(),
        commands.ChargeFailed(code="INSUFFICIENT_FUNDS", hard=False),
        commands.ChargeFailed(code="INSUFFICIENT_FUNDS", hard=False),
        commands.ChargeFailed(code="CARD_LOST_OR_STOLEN", hard=True),
        commands.ChargeNotSent(),
        None,
    ]
)


class Model:
    """A subscription under test, with its events. `refused` counts the commands that were refused."""

    def __init__(self, plan: commands.ChosenPlan, zone: str) -> None:
        self.now = START
        self.state: Subscription | None = None
        command = commands.RequestSubscription(
            subscription_id=uuid.UUID(int=7),
            customer_id=uuid.UUID(int=8),
            plan=plan,
            payment_method_id=uuid.UUID(int=9),
            time_zone=zone,
            at=START,
        )
        self.orders: set[uuid.UUID] = set()
        self.resets = 0
        self.take(decide_request(None, command))

    def take(self, events: list[SubscriptionEvent]) -> bool:
        """Folds events and checks what holds after each."""
        for event in events:
            before, self.state = self.state, evolve(self.state, event)
            self.resets += isinstance(event, BillingCycleReset)
            assert list(broken_subscription(before, event, self.state)) == [], event
            if self.state.charge is not None:
                self.orders.add(self.state.charge.order_id)
        self.check()
        return bool(events)

    def check(self) -> None:
        state = self.state
        assert state is not None
        cycles = [invoice for invoice in state.invoices if invoice.period is not None]
        if not self.resets:
            assert all(one.period_end == two.period_start for one, two in pairwise(cycles))
        for invoice in state.invoices:
            assert sum(line.amount for line in invoice.lines) == invoice.amount >= 0
            assert (invoice.status is InvoiceStatus.PAID) == (invoice.paid_at is not None)
        orders = [attempt.order_id for invoice in state.invoices for attempt in invoice.attempts]
        assert len(orders) == len(set(orders))
        notices = [notice.notice_id for notice in state.notices]
        assert len(notices) == len(set(notices)), "a cause has one message"
        if state.status is SubscriptionStatus.CANCELED and state.charge is None:
            assert not any(invoice.is_collectable for invoice in state.invoices if not invoice.is_final)
        if cycles and state.status is not None:
            assert (state.current_period_start, state.current_period_end) == (
                cycles[-1].period_start,
                cycles[-1].period_end,
            )

    def settle(self, outcome: commands.ChargeOutcome) -> None:
        assert self.state is not None
        assert self.state.charge is not None
        charge = self.state.charge
        command = commands.RecordCharge(
            order_id=charge.order_id, payment_id=charge.payment_id, outcome=outcome, at=self.now, unpaid_days=60
        )
        events = decide_outcome(self.state, command)
        self.take(events)
        assert decide_outcome(self.state, command) == [] or self.state.refusal is not None

    def report(self, order_id: uuid.UUID, is_refund: bool) -> None:
        """Reports that an order of a charge was paid after all, or that half of its invoice went back."""
        assert self.state is not None
        invoice = self.state.invoice_of(order_id)
        if is_refund and invoice is not None:
            refund = commands.RecordRefund(order_id=order_id, amount_refunded=invoice.amount / 2, at=self.now)
            self.take(decide_refund(self.state, refund))
        else:
            paid = commands.RecordCharge(
                order_id=order_id, payment_id=order_id, outcome=commands.ChargePaid(), at=self.now, unpaid_days=60
            )
            self.take(decide_outcome(self.state, paid))

    def run(self, draw) -> None:
        """Does everything that is due, with drawn outcomes; a charge may keep its outcome to itself."""
        silent: uuid.UUID | None = None
        for _ in range(3_000):
            assert self.state is not None
            charge = self.state.charge
            if charge is not None and charge.payment_id != silent:
                outcome = draw(outcomes)
                silent = charge.payment_id if outcome is None else None
                if outcome is not None:
                    self.settle(outcome)
            elif not self.take(decide_due(self.state, commands.RunDue(at=self.now))):
                return
        raise AssertionError("it never ends")


@pytest.mark.parametrize("examples", [80, pytest.param(400, marks=pytest.mark.long)])
def test_changes_of_plan_cost_the_time_of_each_plan_and_never_credit_more_than_was_charged(examples):
    @settings(PROFILE, max_examples=examples)
    @given(
        st.lists(plans(), min_size=2, max_size=5, unique_by=lambda plan: plan.plan_id),
        st.sampled_from(ZONES),
        st.data(),
    )
    def holds(some, zone, data):
        first, *others = [replace(plan, terms=replace(plan.terms, trial_period_days=0)) for plan in some]
        model = Model(first, zone)
        model.settle(commands.ChargePaid())
        for _ in range(data.draw(st.integers(0, 3))):
            assert model.state is not None
            model.now = model.state.current_period_end
            if model.take(decide_due(model.state, commands.RunDue(at=model.now))) and model.state.charge is not None:
                model.settle(commands.ChargePaid())
        state = model.state
        assert state is not None
        assert state.priced is not None
        if not state.is_live:
            return
        end, charged = state.current_period_end, Fraction(state.terms.amount)
        expected, lines, running = Fraction(0), [], state.priced
        for chosen in (*others, replace(first, plan_id=state.plan_id)):
            model.now += (end - model.now) * data.draw(st.sampled_from([0, 0, 1, 5])) // 7
            command = commands.ChangeSubscription(at=model.now, plan=chosen, proration=commands.Proration.NEXT_INVOICE)
            before = len(state.carried)
            state = model.state = fold(evolve, state, decide_change(state, command))
            lines += [Fraction(line.amount) for line in state.carried[before:]]
            assert state.priced is not None
            rest = (end - model.now) // timedelta(seconds=1)
            expected += rest * (_rate(state.priced) - _rate(running))
            running = state.priced
        assert abs(sum(lines) - expected) <= Fraction(len(lines), 2)
        assert running.seconds == (end - state.current_period_start) // timedelta(seconds=1)
        assert -sum(amount for amount in lines if amount < 0) <= charged + sum(amount for amount in lines if amount > 0)

    holds()


def _rate(priced: PricedPlan) -> Fraction:
    """Returns the price of a second."""
    return Fraction(priced.terms.amount) / priced.seconds


@PROFILE
@given(st.lists(plans(), min_size=2, max_size=5, unique_by=lambda plan: plan.plan_id), st.data())
def test_credits_never_exceed_what_a_period_has_paid_and_not_given_back(some, data):
    first, *others = [replace(plan, terms=replace(plan.terms, trial_period_days=0)) for plan in some]
    model = Model(first, "UTC")
    model.settle(commands.ChargePaid())
    assert model.state is not None
    end, back = model.state.current_period_end, Decimal(0)
    for chosen in others:
        back += (model.state.invoices[0].amount - back) * data.draw(st.sampled_from([0, 0, 1, 2, 4])) // 4
        order_id = model.state.invoices[0].payment_order_id
        command = commands.RecordRefund(order_id=order_id, amount_refunded=back, at=model.now)
        model.take(decide_refund(model.state, command))
        model.now += (end - model.now) * data.draw(st.sampled_from([0, 1, 5])) // 7
        proration = data.draw(st.sampled_from(list(commands.Proration)))
        model.take(
            decide_change(model.state, commands.ChangeSubscription(at=model.now, plan=chosen, proration=proration))
        )
        if model.state.charge is not None:
            model.settle(commands.ChargePaid())
        held = sum(invoice.amount - invoice.amount_refunded for invoice in model.state.invoices)
        assert held + sum(line.amount for line in model.state.carried) >= -len(others)


@pytest.mark.parametrize("examples", [80, pytest.param(400, marks=pytest.mark.long)])
def test_a_subscription_moves_along_the_contract_whatever_happens(examples):
    @settings(PROFILE, max_examples=examples)
    @given(plans(), st.sampled_from(ZONES), st.data())
    def holds(plan, zone, data):
        model = Model(plan, zone)
        for _ in range(data.draw(st.integers(1, 12))):
            model.run(data.draw)
            state = model.state
            assert state is not None
            if not state.is_live:
                break
            due = next_due(state)
            assert due is None or due.at > model.now
            cycles = [invoice for invoice in state.invoices if invoice.period is not None]
            if not state.is_expiring:
                assert state.current_period_end > model.now  # every period that has begun is billed
            assert len(cycles) - model.resets == state.periods_billed
            _act(model, data.draw)
            model.now += timedelta(
                seconds=data.draw(st.sampled_from([1, 3_600, 86_400, 1_000_000, 6_000_000, 30_000_000]))
            )
        if model.state is not None and model.state.charge is not None:
            model.settle(commands.ChargePaid())

    holds()


def _act(model: Model, draw) -> None:
    """Sends one drawn request of a merchant."""
    state, at = model.state, model.now
    assert state is not None
    choice = draw(
        st.sampled_from(
            ["none", "none", "cancel", "end", "resume", "retry", "all", "method", "plan", "erase", "late", "refund"]
        )
    )
    try:
        match choice:
            case "cancel":
                model.take(decide_cancel(state, commands.CancelSubscription(at=at, at_period_end=True)))
            case "end":
                model.take(decide_cancel(state, commands.CancelSubscription(at=at)))
            case "erase":
                command = commands.CancelSubscription(at=at, because=CanceledBecause.CUSTOMER_ERASED)
                model.take(decide_cancel(state, command))
            case "resume":
                model.take(decide_resume(state, commands.ResumeSubscription(at=at)))
            case "retry" | "all":
                model.take(decide_retry(state, commands.RetryCharge(at=at, drafts=choice == "all")))
            case "late" | "refund":
                model.report(draw(st.sampled_from(sorted(model.orders) or [uuid.UUID(int=0)])), choice == "refund")
            case "method":
                method = uuid.UUID(int=draw(st.integers(9, 12)))
                model.take(decide_change(state, commands.ChangeSubscription(at=at, payment_method_id=method)))
            case "plan":
                command = commands.ChangeSubscription(
                    at=at, plan=draw(plans()), proration=draw(st.sampled_from(list(commands.Proration)))
                )
                model.take(decide_change(state, command))
    except Rejected:
        assert not state.is_live
