"""`ledger events follow`: a merchant's public events as lines."""

import json

import psycopg
from tests.seeding.conftest import APPROVED, line, opening, order

UNKNOWN = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"


def test_events_are_printed_a_line_each_from_any_number_on(ledger, write, database_url):
    scenario = write(opening(), line("create", "2026-03-02T12:00:00-06:00", order("A/1", APPROVED)))
    assert ledger("seed", scenario).code == 0
    with psycopg.connect(database_url) as connection:
        ((merchant,),) = connection.execute("select merchant_id from merchant").fetchall()
    lines = [json.loads(text) for text in ledger("events", "follow", str(merchant), "--once").done.splitlines()]
    assert [event["sequence"] for event in lines] == list(range(1, len(lines) + 1))
    kinds = ["customer.created", "payment_order.created"]
    assert [event["type"] for event in lines][:2] == kinds
    some = ledger(
        "events", "follow", str(merchant), "--once", "--after", "1", "--type", "payment_order.created,payment.settled"
    ).done
    assert [json.loads(text) for text in some.splitlines()] == [lines[1]]
    forwarded = ledger(
        "events", "follow", str(merchant), "--once", "--after", "1", "--forward-to", "http://127.0.0.1:9/"
    )
    secret, *ended = forwarded.done.splitlines()
    assert secret.startswith("signing secret whsec_")
    assert [line.split()[:4] for line in ended] == [
        [str(e["sequence"]), e["type"], "No", "connection"] for e in lines[1:]
    ]
    assert "no kind of event" in ledger("events", "follow", str(merchant), "--type", "order.*").one_line
    assert "no merchant" in ledger("events", "follow", UNKNOWN, "--once").one_line
