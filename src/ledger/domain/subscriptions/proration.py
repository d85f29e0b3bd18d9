"""The lines of invoices: of a period, of a change of plan in its middle, and of credit that is carried over.

Round once per line, half to even, to whole minor units. An invoice never has a negative sum: what remains of a credit
is a line of the next invoice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec.structs import replace

from ledger.domain.money import AMOUNT_MAX, ZERO, shortest
from ledger.domain.plans.terms import PlanTerms
from ledger.domain.subscriptions.calendar import Period, period
from ledger.domain.subscriptions.events import InvoiceLine
from ledger.domain.subscriptions.state import BilledPlan, PricedPlan

_SECOND: Final = timedelta(seconds=1)


class InvoiceSum(NamedTuple):
    """The lines of an invoice, their sum in minor units, and what the next invoice takes over."""

    lines: tuple[InvoiceLine, ...]
    amount: Decimal
    carried: tuple[InvoiceLine, ...]


def plan_line(plan_name: str, terms: PlanTerms) -> InvoiceLine:
    """Returns the line of a whole period."""
    return InvoiceLine(description=plan_name, unit_amount=terms.amount, amount=terms.amount)


def has_same_length(one: PlanTerms, other: PlanTerms) -> bool:
    """Returns whether the periods of two plans have the same length."""
    return (one.interval, one.interval_count) == (other.interval, other.interval_count)


def priced_as(plan_name: str, terms: PlanTerms, billed: BilledPlan, start: datetime, time_zone: str) -> PricedPlan:
    """Returns a plan that replaces another in the middle of the period that began at `start`.

    Its price is for a period of the new plan's length that begins with the current period; for the seconds of the
    current period if that has the same length. Counted from the 28th of February, a month would be shorter than the
    current one of an anchor on the 31st. The seconds depend on the length and the plan that billed the period alone,
    whatever plans came in between: a change that is changed back costs nothing.
    """
    if has_same_length(terms, billed.terms):
        return PricedPlan(plan_name, terms, billed.seconds)
    own = period(start, time_zone, terms.interval, terms.interval_count, 0)
    return PricedPlan(plan_name, terms, (own.end - own.start) // _SECOND)


def proration_lines(
    before: PricedPlan, after: PricedPlan, rest: Period, *, is_charged: bool = True
) -> tuple[InvoiceLine, ...]:
    """Returns the credit for the rest of the current period on the old plan, and the charge for it on the new one.

    The rest is counted to the second. The credit is computed from the price and the seconds by which the rest was
    charged, and what was refunded gives no credit. `is_charged` is False if the charge of the old plan waits itself.
    """
    seconds = (rest.end - rest.start) // _SECOND
    if seconds <= 0:
        return ()
    charge = _part(after.terms.amount, seconds, after.seconds)
    credit = max(ZERO, _credit(before, rest) - before.refunded)
    return (
        _part_line(f"Unused time on {before.plan_name}", -credit, rest, charged_before=is_charged),
        _part_line(f"Remaining time on {after.plan_name}", charge, rest),
    )


def total(lines: Sequence[InvoiceLine]) -> Decimal:
    """Returns the sum of lines in minor units."""
    return sum((line.amount for line in lines), ZERO)


def summed(lines: Sequence[InvoiceLine]) -> InvoiceSum:
    """Returns an invoice of these lines. A negative sum, or one above the largest order, goes to the next invoice."""
    amount = total(lines)
    bounded = min(max(ZERO, amount), AMOUNT_MAX)
    if bounded == amount:
        return InvoiceSum(tuple(lines), shortest(amount), ())
    rest = amount - bounded
    return InvoiceSum(
        (*lines, _carried("Carried to the next invoice", -rest)),
        shortest(bounded),
        (_carried("Carried from the invoice before", rest),),
    )


def after_change(before: PricedPlan, after: PricedPlan, rest: Period) -> PricedPlan:
    """Returns the new plan with what was refunded before the change: it lowered the credit, or is beyond it."""
    withheld = min(before.refunded, _credit(before, rest))
    beyond = before.beyond + before.refunded - withheld
    return replace(after, withheld=before.withheld + withheld, beyond=beyond)


def after_refund(
    priced: PricedPlan, waiting: Sequence[InvoiceLine], period_end: datetime, refunded: Decimal, *, changed: bool
) -> PricedPlan:
    """Returns the plan after a refund of the current period. `changed`: the lines of a change of plan wait."""
    withheld = min(refunded, credit_waiting(waiting, period_end))
    left = refunded - withheld
    priced = replace(priced, withheld=priced.withheld + withheld)
    if changed:
        return replace(priced, beyond=priced.beyond + left)
    return replace(priced, refunded=priced.refunded + left)


def after_return(priced: PricedPlan, came_back: Decimal) -> PricedPlan:
    """Returns the plan after a refund of the current period came back. What lowered no credit comes back first: the
    credits are those that there would have been without this part of the refund.
    """
    refunded = min(came_back, priced.refunded)
    beyond = min(came_back - refunded, priced.beyond)
    withheld = min(came_back - refunded - beyond, priced.withheld)
    return replace(
        priced,
        refunded=priced.refunded - refunded,
        beyond=priced.beyond - beyond,
        withheld=priced.withheld - withheld,
    )


def credit_waiting(waiting: Sequence[InvoiceLine], period_end: datetime) -> Decimal:
    """Returns how much of the waiting lines is credit for time that the invoices of a period have charged."""
    charged = [line for line in waiting if line.charged_before and line.period_end == period_end]
    return max(ZERO, -total(charged))


def credit_taken(waiting: Sequence[InvoiceLine], period_end: datetime) -> Decimal:
    """Returns how much credit for a period refunds have taken back, as the waiting lines show it."""
    charged = (line for line in waiting if line.charged_before and line.period_end == period_end)
    return total([line for line in charged if line.amount > 0])


def credit_taken_back(
    waiting: Sequence[InvoiceLine], period_end: datetime, refunded: Decimal, at: datetime
) -> tuple[InvoiceLine, ...] | None:
    """Returns the waiting lines after a refund of the period that ends at `period_end`: it takes back as much of the
    credit for time that the period's invoices have charged. Returns None if no such credit waits.
    """
    amount = min(refunded, credit_waiting(waiting, period_end))
    if amount <= 0:
        return None
    return _with_line(waiting, "Credit for a refunded payment", amount, Period(at, period_end))


def credit_given_back(
    waiting: Sequence[InvoiceLine], period_end: datetime, amount: Decimal, at: datetime
) -> tuple[InvoiceLine, ...] | None:
    """Returns the waiting lines after credit that a refund had taken is given again, because the refund came back.
    Returns None if the amount is zero.
    """
    if amount <= 0:
        return None
    taken = (line for line in waiting if line.charged_before and line.period_end == period_end and line.amount > 0)
    line = next(taken, None)
    if line is not None:
        left = shortest(max(ZERO, line.amount - amount))
        lower = replace(line, amount=left, unit_amount=left)
        amount -= line.amount - left
        waiting = [lower if each is line else each for each in waiting if each is not line or left]
    if amount <= 0:
        return tuple(waiting)
    return _with_line(waiting, "Credit for a refund that came back", -amount, Period(at, period_end))


def _with_line(
    waiting: Sequence[InvoiceLine], description: str, amount: Decimal, time: Period
) -> tuple[InvoiceLine, ...]:
    """Returns the waiting lines with a line of credit, or with the earlier one for the same, which has the sum."""
    line = _part_line(description, shortest(amount), time, charged_before=True)
    earlier = next((each for each in waiting if each.description == description and each.period_end == time.end), None)
    if earlier is None:
        return (*waiting, line)
    both = shortest(earlier.amount + amount)
    return tuple(replace(each, amount=both, unit_amount=both) if each is earlier else each for each in waiting)


def _carried(description: str, amount: Decimal) -> InvoiceLine:
    return InvoiceLine(description=description, unit_amount=shortest(amount), amount=shortest(amount), proration=True)


def _part_line(description: str, amount: Decimal, rest: Period, *, charged_before: bool = False) -> InvoiceLine:
    return InvoiceLine(
        description=description,
        unit_amount=amount,
        amount=amount,
        proration=True,
        period_start=rest.start,
        period_end=rest.end,
        charged_before=charged_before,
    )


def _credit(plan: PricedPlan, rest: Period) -> Decimal:
    """Returns what the rest of the current period was charged by a plan."""
    return _part(plan.terms.amount, (rest.end - rest.start) // _SECOND, plan.seconds)


def _part(amount: Decimal, seconds: int, of: int) -> Decimal:
    """Returns the part of an amount for so many seconds of a period, in whole minor units, rounded half to even."""
    return Decimal(round(Fraction(amount) * seconds / of))
