"""A merchant of the service under test whose subscriptions are all due at one moment.

Each subscription has a customer and a saved card of its own. They are due by real time, as in production: a sandbox
clock that was moved is read from the database at every step.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from msgspec import Struct

from benchmarks.load import order_body
from benchmarks.load.requests import ORDER, UNIQUE
from benchmarks.measure.samples import Sample, sample, show_progress
from benchmarks.suites.http import Service, new_merchant
from ledger.settings import CannotRun

_PLAN: Final = "cafe-del-mes"
_SLOWER: Final = 1.5
"""How much longer a subscription may take than the order that saves its card, before it would be due too early."""
_SPARE_S: Final = 5.0
_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 1_800.0

_CARDS: Final = "select customer_id, payment_method_id from payment_method where merchant_id = %s and doc is not null"
_UNPAID: Final = "select count(*) from subscription where merchant_id = %s and status <> 'ACTIVE'"
_PAID: Final = """
select extract(epoch from recorded_at - %s)::float8 from event
 where merchant_id = %s and topic = 'subscription-invoice-paid.v1'
"""


class Subscribers(Struct, frozen=True, kw_only=True):
    """A merchant's subscriptions, so many, which are due at one moment."""

    url: str
    merchant_id: UUID
    count: int
    due_at: datetime

    def wait_until_due(self) -> None:
        time.sleep(max(0.0, (self.due_at - datetime.now(UTC)).total_seconds()))

    def unpaid(self) -> int:
        """Returns how many subscriptions have not been billed yet."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(_UNPAID, [self.merchant_id]).fetchone()
        assert row is not None, "an aggregate always answers"
        return int(row[0])

    def bill(self) -> Sample:
        """Waits until the worker has billed all, and returns how long each was due until its invoice was paid.

        Raises CannotRun if that takes longer than half an hour, or an invoice is paid twice.
        """
        until = time.monotonic() + _PATIENCE_S
        while unpaid := self.unpaid():
            if time.monotonic() > until:
                raise CannotRun(f"{unpaid} of {self.count} subscriptions were not billed in {_PATIENCE_S:.0f} s")
            time.sleep(_LOOK_S)
        with psycopg.connect(self.url) as connection:
            waits = [wait for (wait,) in connection.execute(_PAID, [self.due_at, self.merchant_id])]
        if len(waits) != self.count:
            raise CannotRun(
                f"{len(waits)} invoices were paid for {self.count} subscriptions: one is missing, or was paid twice"
            )
        return sample(waits, max(waits))


def subscribe(url: str, under_test: Service, folder: Path, count: int, *, spare_s: float = 0.0) -> Subscribers:
    """Creates a merchant with so many subscriptions; they are due once all are created, and `spare_s` later.

    Raises CannotRun if a request is refused.
    """
    merchant = under_test.of_merchant(*new_merchant(url, folder))
    show_progress(f"{count:,} customers save their cards")
    began = time.monotonic()
    saving = order_body.body(f"pedido-{UNIQUE}", "saving")
    merchant.post_each("/v2/payment-orders", saving, [str(n) for n in range(count)])
    took = time.monotonic() - began
    merchant.post_each("/v1/plans", _plan(), ["the only one"], 1)
    due_at = datetime.now(UTC) + timedelta(seconds=_SLOWER * took + _SPARE_S + spare_s)
    with psycopg.connect(url) as connection:
        cards = connection.execute(_CARDS, [merchant.merchant_id]).fetchall()
    show_progress(f"{count:,} customers subscribe")
    values = [f'"customerId":"{customer}","paymentMethodId":"{card}"' for customer, card in cards]
    merchant.post_each("/v1/subscriptions", _subscription(due_at), values)
    return Subscribers(url=url, merchant_id=merchant.merchant_id, count=count, due_at=due_at)


def _plan() -> str:
    return json.dumps(
        {"externalId": _PLAN, "name": "Café del mes, 1 kg", "amount": 38_900, "currency": "MXN", "interval": "MONTH"}
    )


def _subscription(start: datetime) -> str:
    """Returns the request as JSON, without its last fields: `ORDER` becomes the customer and the saved card."""
    return f"{json.dumps({'planId': _PLAN, 'startDate': start.isoformat()})[:-1]},{ORDER}}}"
