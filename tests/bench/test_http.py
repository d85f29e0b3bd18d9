"""Actions on orders are measured on the real service, and what was counted has happened."""

from __future__ import annotations

import psycopg

from ledger.bench.measure.resources import Costs
from ledger.bench.suites import http
from ledger.settings import read_settings


def test_every_action_that_was_counted_is_on_an_order(database_url, tmp_path):
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    with http.service(database_url, settings, tmp_path) as service:
        runs = http.actions(service, database_url, Costs(service.process.pid), 0.5, in_flight=8)
        samples = {name: run() for name, run in runs.items()}
        assert not [(name, one.others) for name, one in samples.items() if one.others]
        with psycopg.connect(database_url) as connection:
            query = "select topic, count(*), count(distinct stream_id) from event group by topic"
            events = {topic.partition(".")[0]: (times, orders) for topic, times, orders in connection.execute(query)}
            statuses = dict(connection.execute("select status, count(*) from payment_order group by status").fetchall())
    ended = [samples[name].ended for name in ("part of a split order", "refund", "3-D Secure")]
    parts, refunds, authentications = ended
    assert min(ended) > 0
    assert events["payment-refunded"][0] == refunds
    assert events["payer-authenticated"][0] == authentications
    paid = events["payment-refunded"][1] + authentications
    assert events["payment-captured"][0] >= parts + paid
    assert statuses["PARTIALLY_PAID"] > 0
    assert statuses["PARTIALLY_REFUNDED"] == events["payment-refunded"][1]
    assert "AUTHORIZED" not in statuses
