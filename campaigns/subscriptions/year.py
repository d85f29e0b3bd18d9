"""`python -m campaigns subscriptions-year [--subscriptions N] [--months N]`: a merchant's year of billing by the sandbox's clock.

It exits 1 unless the periods billed are those that were due, and the paid invoices are what their orders captured.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import structlog
from tests import postgres_server
from tests.operations.conftest import APPROVED, register
from tests.sealing import MASTER_KEY
from tests.subscriptions.shop import SAVED_DECLINED, SAVED_STOLEN, Shop

from campaigns.chaos.installation import installed
from campaigns.races.command import template_of
from ledger.domain.plans.state import Plan
from ledger.domain.plans.terms import Interval, OnRetriesExhausted
from ledger.domain.subscriptions.calendar import period
from ledger.domain.subscriptions.commands import Proration
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription
from ledger.operations.subscriptions.cancel import cancel_subscription
from ledger.operations.subscriptions.change import change_subscription
from ledger.operations.subscriptions.requests import SubscriptionUpdate
from ledger.settings import Settings
from ledger.wiring import open_ledger

DAYS, AT_ONCE, STEP = 7, 16, timedelta(days=31)
"""On how many days subscriptions begin, how many requests run at once, and how far the clock moves at once."""


async def year(url: str, subscriptions: int, months: int) -> list[str]:
    """Bills so many subscriptions for so many months, and returns what is wrong."""
    async with open_ledger(Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY)) as ledger:
        shop = Shop(ledger, await register(ledger), url)
        made = await _subscribe(shop, subscriptions)
        began = time.monotonic()
        for month in range(months):
            await shop.move(STEP)
            if month == 0:
                await _change(shop, made)
        seconds = time.monotonic() - began
        wrong, periods = await wrong_in(shop, made)
        report(
            f"{len(made)} subscriptions, {months} months: {periods} periods billed in {seconds:.0f} s, "
            f"{periods / seconds:.1f} a second, {len(wrong)} wrong"
        )
        return wrong


async def _plans(shop: Shop) -> list[Plan]:
    """Returns the mixed plans: most are monthly."""
    monthly = [await shop.plan(f"Monthly {n}", amount=Decimal(9_900 + 5_000 * n)) for n in range(3)]
    return [
        *monthly,
        await shop.plan("Weekly", interval=Interval.WEEK, amount=Decimal(2_500)),
        await shop.plan("Half-monthly", interval=Interval.HALF_MONTH, amount=Decimal(5_050)),
        await shop.plan("Quarterly", interval_count=3, on_retries_exhausted=OnRetriesExhausted.CANCEL),
        await shop.plan("Yearly", interval=Interval.YEAR, amount=Decimal(99_999)),
        await shop.plan("Six times", expiry_count=6, trial_period_days=7),
    ]


async def _subscribe(shop: Shop, count: int) -> list[UUID]:
    """Returns new subscriptions, which begin on the same hour of some days; some will be declined."""
    plans = await _plans(shop)
    now = await shop.ledger.clock.refresh(shop.merchant_id)
    first = now + timedelta(days=1)

    async def one(n: int) -> UUID:
        number = {7: SAVED_DECLINED, 19: SAVED_STOLEN}.get(n % 40, APPROVED)
        start = first + timedelta(days=n % DAYS)
        state = await shop.subscribe(plans[n % len(plans)], number, f"customer-{n}", start=start)
        return state.subscription_id

    made: list[UUID] = []
    for n in range(0, count, AT_ONCE):
        made += await asyncio.gather(*[one(each) for each in range(n, min(count, n + AT_ONCE))])
    return made


async def _change(shop: Shop, made: Sequence[UUID]) -> None:
    """Cancels some subscriptions, gives some another plan and others another card."""
    dearer = await shop.plan("Dearer", amount=Decimal(50_000))
    for n, subscription_id in enumerate(made):
        state, name = await shop.at(subscription_id), str(subscription_id)
        if not state.is_live:
            continue
        if n % 25 == 1:
            await cancel_subscription(shop.ledger, shop.actor, name, at_period_end=bool(n % 2))
        elif n % 8 == 2 and state.terms.interval is Interval.MONTH:
            proration = list(Proration)[n % 3]
            update = SubscriptionUpdate(plan=str(dearer.plan_id), proration=proration)
            await change_subscription(shop.ledger, shop.actor, name, update)
        elif n % 40 == 7:
            update = SubscriptionUpdate(payment_method=str(await shop.card(APPROVED, f"customer-{n}")))
            await change_subscription(shop.ledger, shop.actor, name, update)


async def wrong_in(shop: Shop, made: Sequence[UUID]) -> tuple[list[str], int]:
    """Returns what is wrong in the log, and how many periods were billed."""
    now = await shop.ledger.clock.refresh(shop.merchant_id)
    captured = {order.terms.order_id: order.net for order in await shop.charges() if order.net}
    wrong, periods, paid = [], 0, Decimal(0)
    for subscription_id in made:
        state = await shop.at(subscription_id)
        billed = [(one.period_start, one.period_end) for one in state.invoices if one.period is not None]
        due = due_periods(state, now)
        periods += len(billed)
        if billed != due:
            wrong.append(f"{subscription_id}: {len(billed)} periods billed, {len(due)} due")
        for invoice in state.invoices:
            if invoice.status is InvoiceStatus.PAID and invoice.amount:
                paid += invoice.amount
                if captured.pop(invoice.payment_order_id, None) != invoice.amount:  # type: ignore[arg-type]
                    wrong.append(f"{subscription_id}: invoice {invoice.number} differs from its order")
    wrong += [f"order {order_id} captured {amount} without an invoice" for order_id, amount in captured.items()]
    report(f"{paid} centavos of paid invoices")
    return wrong, periods


def due_periods(state: Subscription, now: datetime) -> list[tuple[datetime, datetime]]:
    """Returns the periods that began before the subscription ended or the clock's time. No change of their length."""
    due: list[tuple[datetime, datetime]] = []
    until = state.ended_at or now
    terms = state.terms
    while terms.expiry_count is None or len(due) < terms.expiry_count:
        next_one = period(state.anchor, state.time_zone, terms.interval, terms.interval_count, len(due))
        if next_one.start >= until and not (state.ended_at is None and next_one.start == until):
            break
        due.append((next_one.start, next_one.end))
    return due


def main(arguments: Sequence[str]) -> int:
    """Runs the year on a Postgres of its own, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns subscriptions-year", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--months", type=int, default=12)
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="ledger-year-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as server, installed(server, template_of(server), {}) as own:
            wrong = asyncio.run(year(own.url, options.subscriptions, options.months))
    for what in wrong[:50]:
        report(f"WRONG {what}")
    return 1 if wrong else 0


def report(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
