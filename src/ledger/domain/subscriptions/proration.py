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

from ledger.domain.money import AMOUNT_MAX, ZERO, shortest
from ledger.domain.plans.terms import PlanTerms
from ledger.domain.subscriptions.calendar import Period, period
from ledger.domain.subscriptions.events import InvoiceLine
from ledger.domain.subscriptions.state import BilledPlan, PricedPlan, Subscription

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


def proration_lines(before: PricedPlan, after: PricedPlan, rest: Period, whole_s: int) -> tuple[InvoiceLine, ...]:
    """Returns the credit for the rest of the current period on the old plan, and the charge for it on the new one.

    The rest is counted to the second. The credit is computed from the price and the seconds by which the rest was
    charged, `whole_s` being the seconds of the whole period. What was refunded gives no credit.
    """
    seconds = (rest.end - rest.start) // _SECOND
    if seconds <= 0:
        return ()
    credit, charge = (_part(plan.terms.amount, seconds, plan.seconds) for plan in (before, after))
    credit = max(ZERO, credit - _part(before.refunded, seconds, whole_s))
    return (
        _part_line(f"Unused time on {before.plan_name}", -credit, rest),
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


def credit_taken_back(state: Subscription, waiting: Sequence[InvoiceLine], at: datetime) -> tuple[InvoiceLine, ...]:
    """Returns the line that takes back as much of the waiting credits for the current period as exceeds what the period
    has paid and not got back. Returns no line if they do not, or if nothing of the period was refunded.

    What an earlier credit paid of the period's invoices counts as paid.
    """
    invoices = state.period_invoices
    refunded = sum((invoice.amount_refunded for invoice in invoices), ZERO)
    lines = [line for invoice in invoices for line in invoice.lines]
    paid = total(lines) - total([line for line in lines if line.proration and line.period_start is None])
    excess = -total([line for line in waiting if line.period_start is not None]) - (paid - refunded)
    if not refunded or excess <= 0:
        return ()
    return (_part_line("Credit for a refunded payment", shortest(excess), Period(at, state.current_period_end)),)


def _carried(description: str, amount: Decimal) -> InvoiceLine:
    return InvoiceLine(description=description, unit_amount=shortest(amount), amount=shortest(amount), proration=True)


def _part_line(description: str, amount: Decimal, rest: Period) -> InvoiceLine:
    return InvoiceLine(
        description=description,
        unit_amount=amount,
        amount=amount,
        proration=True,
        period_start=rest.start,
        period_end=rest.end,
    )


def _part(amount: Decimal, seconds: int, of: int) -> Decimal:
    """Returns the part of an amount for so many seconds of a period, in whole minor units, rounded half to even."""
    return Decimal(round(Fraction(amount) * seconds / of))
