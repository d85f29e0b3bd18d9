"""What a subscription owes at its end, for periods that it missed, and after a refund."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.test_subscriptions import HARD, NEXT_INVOICE, PAID, SOFT, START, due, plan, requested, settled, then

from ledger.domain.plans.terms import Interval
from ledger.domain.rejections import NoNextInvoice, RequestInProgress
from ledger.domain.subscriptions import commands
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_change, decide_retry
from ledger.domain.subscriptions.decide.charges import decide_refund
from ledger.domain.subscriptions.decide.preview import preview_next
from ledger.domain.subscriptions.due import Step, next_due
from ledger.domain.subscriptions.events import InvoiceLine, InvoiceOpened
from ledger.domain.subscriptions.proration import plan_line, total
from ledger.domain.subscriptions.state import Subscription

INVOICE_NOW = commands.Proration.INVOICE_NOW
DAY = timedelta(days=1)


def changed(state: Subscription, at: datetime, amount: int = 20_000) -> Subscription:
    """Returns the subscription after a change to a plan of this price, whose lines wait for the next invoice."""
    other = plan(amount, amount=Decimal(amount), interval=state.terms.interval, expiry_count=state.terms.expiry_count)
    command = commands.ChangeSubscription(at=at, plan=other, proration=NEXT_INVOICE)
    return then(state, decide_change(state, command))


def cancelled(state: Subscription, at: datetime, **changes: Any) -> Subscription:
    return then(state, decide_cancel(state, commands.CancelSubscription(at=at, **changes)))


def work(state: Subscription, until: datetime, outcome: commands.ChargeOutcome = PAID) -> Subscription:
    """Returns the subscription after all that is due up to a time, with this outcome of every charge."""
    for _ in range(100):
        if state.charge is not None:
            state = settled(state, outcome, until)
            continue
        step = next_due(state)
        if step is None or step.at > until:
            return state
        state = due(state, max(step.at, START))
    raise AssertionError("it never ends")


def unpaid(periods: int) -> tuple[Subscription, datetime]:
    """Returns an UNPAID subscription in its last of so many missed periods, and the time: three days into it."""
    state = settled(requested(plan(max_retries=0, interval=Interval.WEEK)), PAID)
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    assert state.status == "UNPAID"
    for _ in range(periods):
        state = due(state, state.current_period_end)
    return state, state.current_period_start + 3 * DAY


@pytest.mark.parametrize("ends", ["period end", "now", "expiry"])
def test_lines_that_wait_when_a_subscription_ends_are_charged_by_a_last_invoice(ends: str) -> None:
    state = settled(requested(plan(expiry_count=1 if ends == "expiry" else None)), PAID)
    at = START + 10 * DAY
    state = changed(state, at)
    owed = sum(line.amount for line in state.carried)
    if ends == "now":
        state = cancelled(state, at)
    elif ends == "period end":
        state = cancelled(state, at, at_period_end=True)
    if state.is_live:
        at = state.current_period_end
        assert preview_next(state).amount == owed
        state = due(state, at)
    last = state.invoices[-1]
    assert (state.status, state.carried, last.amount, last.status, last.period) == ("CANCELED", (), owed, "OPEN", None)
    state = due(state, at)
    assert state.charge is not None
    assert state.charge.invoice_id == last.invoice_id
    paid = settled(state, PAID, at)
    assert (paid.invoices[-1].status, paid.status, next_due(paid)) == ("PAID", "CANCELED", None)
    declined = settled(state, SOFT, at)
    assert (declined.invoices[-1].status, next_due(declined)) == ("UNCOLLECTIBLE", None), "it is charged once"
    unsent = settled(state, commands.ChargeNotSent(), at)
    assert due(unsent, at + timedelta(minutes=5)).charge is not None


def test_a_credit_that_waits_when_a_subscription_ends_makes_no_invoice() -> None:
    state = changed(settled(requested(), PAID), START + DAY, amount=1)
    assert len(cancelled(state, START + DAY).invoices) == 1


def test_a_last_invoice_is_not_charged_if_an_older_one_was_not_paid_or_the_customer_is_erased() -> None:
    state = settled(requested(), PAID)
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    at = state.current_period_start + DAY
    state = changed(state, at)
    ended = cancelled(state, at)
    assert [invoice.status for invoice in ended.invoices] == ["PAID", "VOID", "UNCOLLECTIBLE"]
    assert next_due(ended) is None
    erased = cancelled(state, at, because=commands.CanceledBecause.CUSTOMER_ERASED)
    assert [invoice.status for invoice in erased.invoices] == ["PAID", "VOID"]


@pytest.mark.parametrize("outcome", [SOFT, commands.ChargeNotSent()])
def test_a_last_invoice_ends_with_an_older_one_whose_charge_fails_after_the_end(
    outcome: commands.ChargeOutcome,
) -> None:
    state = settled(requested(), PAID)
    at = state.current_period_end
    state = cancelled(changed(due(state, at), at), at)
    assert next_due(state) is None
    state = settled(state, outcome, at)
    assert [invoice.status for invoice in state.invoices] == ["PAID", "VOID", "UNCOLLECTIBLE"]
    assert next_due(state) is None


def test_the_preview_shows_no_last_invoice_that_is_not_charged() -> None:
    state = settled(requested(plan(retry_delay_hours=1000)), PAID)
    at = state.current_period_end
    state = changed(settled(due(state, at), SOFT, at), at)
    with pytest.raises(NoNextInvoice):
        preview_next(cancelled(state, at, at_period_end=True))


def test_periods_missed_while_unpaid_stay_drafts_and_a_return_begins_a_new_period() -> None:
    state, at = unpaid(3)
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    state = settled(state, PAID, at)
    assert [invoice.status for invoice in state.invoices] == ["PAID", "PAID", "DRAFT", "DRAFT", "VOID", "OPEN"]
    assert (state.current_period_start, state.status, state.periods_billed) == (at, "ACTIVE", 5)
    later = state.current_period_end + DAY
    state = work(state, later)
    assert [invoice.status for invoice in state.invoices[2:]] == ["DRAFT", "DRAFT", "VOID", "PAID", "PAID"]
    assert state.current_period_start == later - DAY


def test_missed_periods_are_charged_on_request_one_after_the_other_and_the_calendar_stays() -> None:
    state, at = unpaid(3)
    end = state.current_period_end
    state = then(state, decide_retry(state, commands.RetryCharge(at=at, drafts=True)))
    declined = settled(state, SOFT, at)
    assert [invoice.status for invoice in declined.invoices[1:]] == ["OPEN", "DRAFT", "DRAFT", "DRAFT"]
    state = work(settled(state, PAID, at), at)
    assert {invoice.status for invoice in state.invoices} == {"PAID"}
    assert (state.current_period_end, len(state.invoices)) == (end, 5)


def test_missed_periods_can_be_charged_later_while_the_subscription_is_active() -> None:
    state, at = unpaid(2)
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    state = work(settled(state, PAID, at), at)
    assert [invoice.status for invoice in state.drafts] == ["DRAFT"]
    assert decide_retry(state, commands.RetryCharge(at=at)) == []
    state = then(state, decide_retry(state, commands.RetryCharge(at=at, drafts=True)))
    assert state.charge is not None
    assert settled(state, PAID, at).drafts == ()


def test_periods_that_no_worker_has_made_yet_are_missed_too() -> None:
    state, at = unpaid(0)
    at += 15 * DAY
    state = settled(then(state, decide_retry(state, commands.RetryCharge(at=at))), PAID, at)
    assert [invoice.status for invoice in work(state, at).invoices[1:]] == ["PAID", "DRAFT", "VOID", "PAID"]


def test_a_request_for_all_is_refused_while_another_charge_would_leave_the_drafts() -> None:
    state, at = unpaid(2)
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    with pytest.raises(RequestInProgress):
        decide_retry(state, commands.RetryCharge(at=at, drafts=True))


def test_a_missed_period_that_is_paid_leaves_a_declined_renewal_past_due() -> None:
    state, at = unpaid(2)
    state = then(state, decide_retry(state, commands.RetryCharge(at=at)))
    state = replace(settled(state, PAID, at), terms=replace(state.terms, max_retries=2))
    state = work(state, at)
    at = state.current_period_end
    state = settled(due(state, at), SOFT, at)
    state = settled(then(state, decide_retry(state, commands.RetryCharge(at=at, drafts=True))), PAID, at)
    assert (state.status, state.drafts) == ("PAST_DUE", ())
    step = next_due(state)
    assert step is not None
    assert (step.step, step.at) == (Step.RETRY, state.invoices[-1].next_attempt_at)


def old_draft(state: Subscription, lines: Sequence[InvoiceLine], start: datetime, period: int | None) -> InvoiceOpened:
    """Returns a draft as release 0.1.0 made it: with the lines that waited, and of changes in a missed period."""
    return InvoiceOpened(
        invoice_id=UUID(int=100 + state.last_ordinal),
        ordinal=state.last_ordinal + 1,
        number="7-0003",
        period_start=start,
        period_end=start + 7 * DAY,
        due_at=start,
        amount=total(lines),
        lines=tuple(lines),
        at=start,
        period=period,
        draft=True,
    )


def test_lines_that_a_draft_of_an_older_release_took_over_wait_again() -> None:
    state, at = unpaid(0)
    state = changed(state, at, amount=1_000)
    credit, start = owed(state), state.current_period_end
    lines = (plan_line("Plan", state.terms), *state.carried)
    state = then(state, [old_draft(state, lines, start, state.next_period)])
    state = then(state, decide_retry(state, commands.RetryCharge(at=start + DAY)))
    state = work(settled(state, PAID, start + DAY), start + DAY)
    assert state.invoices[-1].amount + owed(state) == 1_000 + credit


def test_a_change_in_a_missed_period_of_an_older_release_is_not_charged() -> None:
    state, at = unpaid(1)
    lines = (plan_line("Change", state.terms),)
    state = then(state, [old_draft(state, lines, state.current_period_start, None)])
    state = work(settled(then(state, decide_retry(state, commands.RetryCharge(at=at))), PAID, at), at)
    assert [invoice.status for invoice in state.invoices[2:]] == ["VOID", "VOID", "PAID"]


def test_a_return_within_the_period_that_was_not_paid_leaves_the_period() -> None:
    state, at = unpaid(0)
    end = state.current_period_end
    state = settled(then(state, decide_retry(state, commands.RetryCharge(at=at))), PAID, at)
    assert (state.current_period_end, len(state.invoices), state.drafts) == (end, 2, ())


def test_a_change_of_plan_while_unpaid_is_charged_after_the_return() -> None:
    state, at = unpaid(0)
    dearer = plan(2, amount=Decimal(20_000), interval=Interval.WEEK)
    command = commands.ChangeSubscription(at=at, plan=dearer, proration=INVOICE_NOW)
    state = then(state, decide_change(state, command))
    assert [invoice.status for invoice in state.invoices[1:]] == ["OPEN", "DRAFT"]
    state = settled(then(state, decide_retry(state, commands.RetryCharge(at=at))), PAID, at)
    assert {invoice.status for invoice in work(state, at).invoices} == {"PAID"}


def test_a_missed_period_gives_no_credit_and_takes_over_no_lines() -> None:
    state, at = unpaid(0)
    state = changed(state, at)
    waiting = state.carried
    state = due(state, state.current_period_end)
    assert ([line.amount for line in state.invoices[-1].lines], state.carried) == ([20_000], waiting)
    for proration in (NEXT_INVOICE, INVOICE_NOW):
        command = commands.ChangeSubscription(at=state.current_period_start, plan=plan(), proration=proration)
        assert len(decide_change(state, command)) == 1, "the change alone"


def test_missed_periods_end_with_the_subscription() -> None:
    state, at = unpaid(2)
    state = work(settled(then(state, decide_retry(state, commands.RetryCharge(at=at))), PAID, at), at)
    state = cancelled(state, at)
    assert [invoice.status for invoice in state.invoices[2:]] == ["VOID", "VOID", "PAID"]


def owed(state: Subscription) -> Decimal:
    """Returns the sum of the lines that wait."""
    return sum((line.amount for line in state.carried), Decimal(0))


def refunded(state: Subscription, amount: int, n: int = -1) -> Subscription:
    order_id = state.invoices[n].payment_order_id
    assert order_id is not None
    command = commands.RecordRefund(order_id=order_id, amount_refunded=Decimal(amount), at=START)
    after = then(state, decide_refund(state, command))
    assert decide_refund(after, command) == [], "it is recorded once"
    return after


@pytest.mark.parametrize(("amount", "credit"), [(0, -10_000), (4_000, -6_000), (10_000, 0)])
def test_what_was_refunded_of_a_period_gives_no_credit_for_unused_time(amount: int, credit: int) -> None:
    state = settled(requested(), PAID)
    state = state if amount == 0 else refunded(state, amount)
    assert state.invoices[0].amount_refunded == amount
    state = changed(state, START, amount=5_000)
    assert [line.amount for line in state.carried] == [credit, 5_000]
    state = changed(state, START, amount=10_000)
    assert sum(line.amount for line in state.carried) == credit + 10_000, "the refund counts once"


def test_a_credit_is_taken_back_if_the_period_is_refunded_after_it() -> None:
    state = changed(settled(requested(), PAID), START, amount=1_000)
    assert sum(line.amount for line in state.carried) == -9_000
    state = refunded(refunded(state, 500), 4_000)
    assert [line.description for line in state.carried[2:]] == ["Credit for a refunded payment"], "one line for both"
    assert owed(state) == -5_000
    assert owed(refunded(state, 10_000)) == 1_000, "the new plan is charged, and nothing is credited"


def test_a_credit_is_given_again_if_the_refund_comes_back() -> None:
    """The payer has not got the money; a further refund takes the credit back once more, and not twice."""
    state = refunded(changed(settled(requested(), PAID), START, amount=1_000), 4_000)
    assert owed(refunded(state, 1_500)) == -7_500
    back = refunded(state, 0)
    assert (owed(back), len(back.carried)) == (-9_000, 2)
    assert owed(refunded(back, 4_000)) == -5_000


def test_a_refund_that_comes_back_after_the_change_is_credited_and_a_further_one_takes_it_once() -> None:
    changed_after = changed(refunded(settled(requested(), PAID), 4_000), START, amount=1_000)
    assert owed(changed_after) == -5_000
    back = refunded(changed_after, 0)
    assert owed(back) == -9_000
    assert owed(refunded(back, 4_000)) == -5_000
    assert owed(refunded(refunded(back, 4_000), 0)) == -9_000


def test_a_refund_of_used_time_that_comes_back_gives_the_credit_of_the_rest_alone() -> None:
    """Half of the period is used, so that 5,000 of 10,000 is what the change would have credited."""
    paid = settled(requested(), PAID)
    at = START + (paid.current_period_end - START) / 2
    dearer = plan(2, amount=Decimal(20_000))
    command = commands.ChangeSubscription(at=at, plan=dearer, proration=INVOICE_NOW)
    state = refunded(paid, 10_000)
    state = settled(then(state, decide_change(state, command)), PAID, at)
    assert state.invoices[-1].amount == 10_000, "the rest on the new plan, without credit"
    assert [owed(refunded(state, left, n=0)) for left in (6_000, 5_000, 2_000, 0)] == [0, 0, -3_000, -5_000]
    step_by_step = refunded(refunded(refunded(state, 6_000, n=0), 2_000, n=0), 0, n=0)
    assert owed(step_by_step) == -5_000
    assert owed(changed(refunded(state, 0, n=0), at, amount=20_000)) == -5_000, "the next change gives nothing more"


@pytest.mark.parametrize("amount", [1, 4_000, 10_000])
def test_a_refund_before_and_after_a_change_of_plan_come_to_the_same(amount: int) -> None:
    paid = settled(requested(), PAID)
    before = changed(refunded(paid, amount), START, amount=1_000)
    assert owed(before) == owed(refunded(changed(paid, START, amount=1_000), amount))


def test_a_refund_of_the_unused_time_gives_no_credit_for_it() -> None:
    state = settled(requested(), PAID)
    at = START + (state.current_period_end - START) / 2
    half = changed(refunded(state, 5_000), at, amount=1_000)
    assert half.carried[0].amount == 0
    command = commands.ChangeSubscription(at=at, plan=plan(2, amount=Decimal(20_000)), proration=INVOICE_NOW)
    dearer = settled(then(state, decide_change(state, command)), PAID, at)
    assert owed(changed(refunded(dearer, 5_000), at, amount=10_000)) == 0


def test_a_refund_leaves_the_credit_of_another_period() -> None:
    """The second period is unpaid and changed at its start; two are missed, then all are paid: its credit waits."""
    state = settled(requested(plan(max_retries=0, interval=Interval.WEEK)), PAID)
    at = state.current_period_end
    state = changed(settled(due(state, at), SOFT, at), at, amount=1_000)
    for _ in range(2):
        state = due(state, state.current_period_end)
    at = state.current_period_start + DAY
    state = then(state, decide_retry(state, commands.RetryCharge(at=at, drafts=True)))
    state = work(settled(state, PAID, at), at)
    assert owed(refunded(state, 1)) == -9_000
    assert owed(refunded(state, 10_000, n=1)) == 1_000


def test_a_refund_takes_no_credit_of_the_period_before() -> None:
    state = changed(settled(requested(), PAID), START, amount=8_000)
    at = state.current_period_end
    state = refunded(settled(due(state, at), PAID, at), 1)
    assert owed(changed(state, at, amount=1_000)) == -6_999


def test_the_refund_of_an_older_period_is_shown_alone() -> None:
    state = settled(requested(), PAID)
    state = settled(due(state, state.current_period_end), PAID, state.current_period_end)
    state = refunded(state, 10_000, n=0)
    state = changed(state, state.current_period_start, amount=5_000)
    assert [line.amount for line in state.carried] == [-10_000, 5_000]


def test_a_refund_of_an_order_that_did_not_pay_is_not_recorded() -> None:
    state = settled(requested(), PAID)
    state = settled(due(state, state.current_period_end), HARD, state.current_period_end)
    order_id = state.invoices[-1].attempts[0].order_id
    assert decide_refund(state, commands.RecordRefund(order_id=order_id, amount_refunded=Decimal(5), at=START)) == []
