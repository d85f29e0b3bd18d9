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
    credit, charge = (_part(plan.terms.amount, seconds, plan.seconds) for plan in (before, after))
    credit = max(ZERO, credit - before.refunded)
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


def credit_taken_back(
    waiting: Sequence[InvoiceLine], period_end: datetime, refunded: Decimal, at: datetime
) -> tuple[InvoiceLine, ...] | None:
    """Returns the waiting lines after a refund of the period that ends at `period_end`: it takes back as much of the
    credit for time that the period's invoices have charged. Returns None if no such credit waits.
    """
    charged = [line for line in waiting if line.charged_before and line.period_end == period_end]
    amount = min(refunded, -total(charged))
    if amount <= 0:
        return None
    line = _part_line("Credit for a refunded payment", shortest(amount), Period(at, period_end), charged_before=True)
    earlier = next((each for each in charged if each.amount > 0), None)
    if earlier is None:
        return (*waiting, line)
    both = shortest(earlier.amount + amount)
    return tuple(replace(each, amount=both, unit_amount=both) if each is earlier else each for each in waiting)


def credit_given_back(
    waiting: Sequence[InvoiceLine], period_end: datetime, came_back: Decimal
) -> tuple[InvoiceLine, ...] | None:
    """Returns the waiting lines after a refund of the period that ends at `period_end` came back: what it had taken of
    the credit is credited again. Returns None if it had taken nothing, or the next invoice has the lines already.
    """
    taken = (line for line in waiting if line.charged_before and line.period_end == period_end and line.amount > 0)
    line = next(taken, None)
    if line is None:
        return None
    left = shortest(max(ZERO, line.amount - came_back))
    lower = replace(line, amount=left, unit_amount=left)
    return tuple(lower if each is line else each for each in waiting if each is not line or left)


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


def _part(amount: Decimal, seconds: int, of: int) -> Decimal:
    """Returns the part of an amount for so many seconds of a period, in whole minor units, rounded half to even."""
    return Decimal(round(Fraction(amount) * seconds / of))
