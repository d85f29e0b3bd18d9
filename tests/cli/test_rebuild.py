"""`ledger rebuild`: orders that an earlier release rendered show what this release adds to an order."""

from __future__ import annotations

import re

import psycopg
from tests.seeding.conftest import NO_FUNDS, line, opening, order

NOON = "2026-03-02T12:00:00-06:00"
ADDED = re.compile(rb'"(late|payerMessage)":(null|true|false|"[^"]*"),')


def test_orders_of_an_earlier_release_are_rendered_again(ledger, write, database_url):
    nothing = "rendered 0 subscriptions: 0 stored documents have changed\n"
    assert ledger("rebuild").done == f"rendered 0 orders: 0 stored documents have changed\n{nothing}"
    scenario = write(
        opening(),
        line("create", NOON, order("A/1", NO_FUNDS)),
        line("create", NOON, order("A/2")),
        line("create", NOON, order("A/3", NO_FUNDS)),
    )
    assert ledger("seed", scenario).code == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        read = "select order_id, head, payments from payment_order order by external_id"
        rendered = connection.execute(read).fetchall()
        for order_id, head, payments in rendered:
            earlier = ADDED.sub(b"", payments)
            assert (earlier == payments) == (payments == b"[]")
            connection.execute(
                "update payment_order set head = %s, payments = %s where order_id = %s", (head, earlier, order_id)
            )
        old = connection.execute(read).fetchall()
        (newer, *_) = rendered[2]  # as if a commit of this order came while it is rendered
        connection.execute("update payment_order set version = version + 1 where order_id = %s", (newer,))
        done = {"orders": {"rendered": 3, "changed": 1}, "subscriptions": {"rendered": 0, "changed": 0}}
        assert ledger("rebuild", "--json").json == done
        assert connection.execute(read).fetchall() == [*rendered[:2], old[2]]
        assert ledger("rebuild").done == f"rendered 3 orders: 0 stored documents have changed\n{nothing}"
