"""`ledger rebuild`: what an earlier release rendered shows what this release adds, and a check names what would change."""

from __future__ import annotations

import json
import re

import psycopg
from tests.seeding.conftest import APPROVED, NO_FUNDS, line, opening, order

NOON = "2026-03-02T12:00:00-06:00"
ADDED = re.compile(rb'"(late|payerMessage)":(null|true|false|"[^"]*"),')


def corrected(printed):
    return {each["table"]: each["differing"] for each in printed.json["tables"] if each["differing"]}


def test_orders_of_an_earlier_release_are_rendered_again(ledger, write, database_url):
    assert corrected(ledger("rebuild", "--json")) == {}
    scenario = write(
        opening(),
        line("create", NOON, order("A/1", NO_FUNDS)),
        line("create", NOON, order("A/2")),
        line("create", NOON, order("A/3", NO_FUNDS)),
    )
    assert ledger("seed", scenario).code == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        read = "select order_id, payments from payment_order order by external_id"
        rendered = connection.execute(read).fetchall()
        for order_id, payments in rendered:
            earlier = ADDED.sub(b"", payments)
            assert (earlier == payments) == (payments == b"[]")
            connection.execute("update payment_order set payments = %s where order_id = %s", (earlier, order_id))
        checked = ledger("rebuild", "--check")
        assert (checked.code, checked.err) == (1, "")
        assert re.search(r"^payment_order +3 +2$", checked.out, re.MULTILINE)
        assert connection.execute(read).fetchall() != rendered
        assert corrected(ledger("rebuild", "--json")) == {"payment_order": 2}
        assert connection.execute(read).fetchall() == rendered
        assert ledger("rebuild", "--check").code == 0
        assert re.search(r"^payment_order +3 +0$", ledger("rebuild", "payment_order").done, re.MULTILINE)


def test_a_check_names_the_orders_whose_status_or_money_differs(ledger, write, database_url):
    assert ledger("seed", write(opening(), line("create", NOON, order("A/1", APPROVED)))).code == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update payment_order set status = 'PENDING', head = convert_to(replace(replace(convert_from(head, 'UTF8'),"
            " '\"amountPaid\":10000', '\"amountPaid\":5000'), 'COMPLETED', 'PENDING'), 'UTF8')"
        )
        (order_id,) = connection.execute("select order_id from payment_order").fetchone()
    checked = ledger("rebuild", "--check", "--explain")
    assert checked.code == 1
    assert re.search(rf"^{order_id} +status +PENDING +COMPLETED$", checked.out, re.MULTILINE)
    assert re.search(rf"^{order_id} +amountPaid +5000 +10000$", checked.out, re.MULTILINE)
    assert "amountPaid" not in ledger("rebuild", "--check").out


def test_a_check_names_an_order_whose_status_is_wrong_where_lists_are_filtered_alone(ledger, write, database_url):
    assert ledger("seed", write(opening(), line("create", NOON, order("A/1", APPROVED)))).code == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update payment_order set status = 'CANCELLED'")
    checked = ledger("rebuild", "--check", "--explain", "--json")
    assert [(each["field"], each["stored"], each["computed"]) for each in json.loads(checked.out)["orders"]] == [
        ("status", "CANCELLED", "COMPLETED")
    ]


def test_a_check_that_cannot_run_differs_by_its_status_from_one_that_finds_something(ledger, write, database_url):
    assert ledger("seed", write(opening(), line("create", NOON, order("A/1", APPROVED)))).code == 0
    unknown = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"
    refused = [ledger("rebuild", "--check", *arguments) for arguments in (["event"], ["--merchant", unknown])]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table payment_order rename column payments to taken")
        refused.append(ledger("rebuild", "--check"))
        connection.execute("alter table payment_order rename column taken to payments")
    reasons = ("there is no read model 'event'", "there is no merchant", "the database cannot be read")
    for ended, reason in zip(refused, reasons, strict=True):
        assert (ended.code, ended.out) == (2, "")
        assert re.fullmatch(rf"ledger: {reason}.*\n", ended.err)
    assert ledger("rebuild", "event").code == 1


def test_what_cannot_be_rebuilt_is_refused(ledger):
    assert "there is no read model 'event'" in ledger("rebuild", "event").one_line
    assert "--explain needs --check" in ledger("rebuild", "--explain").one_line
    unknown = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"
    assert "there is no merchant" in ledger("rebuild", "--merchant", unknown).one_line
