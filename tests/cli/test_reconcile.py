"""`ledger reconcile`: differences are listed, and the exit status tells a script whether one is left."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg

CHARGE = (
    "insert into sandbox_charge (merchant_id, idempotency_key, booked_at, amount, currency, capture, card_bin, card_last4,"
    " authorized, captured, reference) values (gen_random_uuid(), 'unknown-1', now() - interval '1 hour', 50000000, 'MXN',"
    " true, '424242', '4242', 50000000, 50000000, 'sbx_1')"
)


def test_both_sides_agree(ledger):
    assert "the processors and the log agree" in ledger("reconcile").out
    since = (datetime.now(UTC) - timedelta(days=300)).isoformat()
    assert ledger("reconcile", "--since", since, "--json").json == []


def test_a_charge_that_no_order_knows_is_listed_and_left(ledger, database_url):
    with psycopg.connect(database_url) as connection:
        connection.execute(CHARGE)
    listed = ledger("reconcile")
    assert listed.code == 1
    assert "unknown-1" in listed.out
    earlier = ("--until", "2026-01-02T00:00:00Z", "--since", "2026-01-01T00:00:00Z", "--json")
    assert ledger("reconcile", *earlier).json == []
    [one] = json.loads(ledger("reconcile", "--no-repair", "--json").out)
    assert (one["idempotencyKey"], one["missingIn"], one["captured"], one["repaired"]) == (
        "unknown-1",
        "ledger",
        "5000",
        False,
    )


def test_a_time_without_an_offset_is_refused_and_so_is_no_time_at_all(ledger):
    refused = ledger("reconcile", "--since", "yesterday")
    assert refused.code == 1
    assert "'yesterday' is not a time with an offset" in refused.err
    refused = ledger("reconcile", "--since", "2026-01-02T00:00:00Z", "--until", "2026-01-02T00:00:00Z")
    assert refused.code == 1
    assert "nothing to compare" in refused.err
    assert "nothing to compare" in ledger("reconcile", "--until", "0001-01-01T00:00:00Z").err
    refused = ledger("reconcile", "--since", "0001-01-01T00:00:00Z")
    assert (refused.code, "at most 366 days" in refused.err) == (1, True), (
        "each hour of a millennium would be asked for"
    )
