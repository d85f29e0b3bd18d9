"""Actions on orders are measured on the real service, and what was counted has happened."""

from __future__ import annotations

import re
import time

import psycopg
import pytest
from benchmarks import scratch
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import Sample
from benchmarks.suites import documents, http, subscribers

from ledger.operations.context.clock import BELIEVED_S
from ledger.postgres.connection_count import connections_max
from ledger.settings import read_settings


def test_the_scratch_server_accepts_the_service_and_the_clients_of_the_limit_beside_it(tmp_path):
    settings = read_settings({"LEDGER_DATA_DIR": str(tmp_path), "LEDGER_WORKERS": "2"})
    assert connections_max(settings) + http.CLIENTS < scratch.CONNECTIONS


NOT_MOVED = "insert into merchant_clock (merchant_id, ahead_us) values (%s, 0)"
MOVED = "update merchant_clock set ahead_us = 172800000000 where merchant_id = %s"


def assert_costs(facts: dict[str, str], samples: dict[str, Sample]) -> None:
    """Asserts that each run used all parts of the service: `cost of refund` is `2 µs of the API process, 3 of …`."""
    assert facts.keys() == {f"cost of {name}" for name in samples}
    for cost in facts.values():
        numbers = [float(number) for number in re.findall(r"[\d.]+", cost)]
        assert len(numbers) == 5, cost
        assert all(number > 0 for number in numbers), cost


@pytest.mark.long
def test_every_action_that_was_counted_is_on_an_order(database_url, tmp_path):
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    with http.service(database_url, settings, tmp_path) as service:
        costs = Costs(service.process.pid, database_url)
        runs = http.actions(service, database_url, costs, 0.5, in_flight=8)
        samples = {name: run() for name, run in runs.items()}
        assert_costs(costs.facts(), samples)
        assert not [(name, one.others) for name, one in samples.items() if one.others]
        with psycopg.connect(database_url) as connection:
            query = "select topic, count(*), count(distinct stream_id) from event group by topic"
            events = {topic.partition(".")[0]: (times, orders) for topic, times, orders in connection.execute(query)}
            query = "select count(*) - count(distinct customer_id) from payment_order join payment_method using (merchant_id, customer_id)"
            (paid_again,) = connection.execute(query).fetchone()
            statuses = dict(connection.execute("select status, count(*) from payment_order group by status").fetchall())
    ended = [
        samples[name].ended for name in ("part of a split order", "refund", "3-D Secure", "create with saved card")
    ]
    parts, refunds, authentications, by_saved_card = ended
    assert min(ended) > 0
    assert events["payment-refunded"][0] == refunds
    assert events["payer-authenticated"][0] == authentications
    assert paid_again == by_saved_card
    paid = events["payment-refunded"][1] + authentications + by_saved_card
    assert events["payment-captured"][0] >= parts + paid
    assert statuses["PARTIALLY_PAID"] > 0
    assert statuses["PARTIALLY_REFUNDED"] == events["payment-refunded"][1]
    assert "AUTHORIZED" not in statuses


@pytest.mark.long
def test_every_renewal_and_document_that_was_counted_is_in_the_log(database_url, tmp_path):
    settings = read_settings({"LEDGER_DATABASE_URL": database_url, "LEDGER_DATA_DIR": str(tmp_path)})
    with http.service(database_url, settings, tmp_path) as service:
        due = subscribers.subscribe(database_url, service, tmp_path, 3, spare_s=86_400)
        assert due.unpaid() == 3
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(NOT_MOVED, [due.merchant_id])
            time.sleep(BELIEVED_S)  # no process assumes any longer that the clock was never moved
            connection.execute(MOVED, [due.merchant_id])
            assert due.bill().done == 3
            assert documents.stamp(database_url, service, tmp_path, 2).done == 2
            query = "select topic, count(distinct stream_id) from event where topic = any(%s) group by topic"
            topics = ["subscription-invoice-paid.v1", "document-stamped.v1"]
            assert dict(connection.execute(query, [topics]).fetchall()) == dict(zip(topics, (3, 2), strict=True))
