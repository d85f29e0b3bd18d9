"""The benchmark of lists asks its queries of a merchant that has the orders that they are about."""

from __future__ import annotations

import pytest
from benchmarks.scratch import scratch_database
from benchmarks.suites import search


def test_every_query_finds_what_was_filled(postgres_url):
    orders = 300
    with scratch_database(postgres_url) as url:
        samples, totals = search.first_pages(url, search.filled(url, orders), orders)
    assert samples.keys() == totals.keys()
    assert not any(one.others for one in samples.values())
    one = ("an order number", "an external id", "an invoice number")
    assert {totals[f"search: {name}"] for name in one} == {1}
    assert (totals["no filter"], totals["search: all orders have it"]) == (orders, orders)
    assert (totals["status"], totals["two statuses"], totals["customer"]) == (225, 75, 5)
    assert (totals["search: an e-mail"], totals["search: half the e-mails"]) == (5, 150)
    assert totals["search: nothing has it"] == 0
    assert 0 < totals["not overdue"] <= orders
    ratios = search.to_the_limit(samples)
    assert len(ratios) == len(samples) + 1
    searches = sorted(one.p50_ms for name, one in samples.items() if name.startswith("search"))
    assert ratios[-1].value * search.FIRST_PAGE_MS == pytest.approx(searches[len(searches) // 2])


@pytest.mark.long
def test_the_append_is_measured_with_and_without_what_searches_need(postgres_url):
    found = search.append_report(postgres_url, 0.3, 1)
    assert len(found.samples) == 2
    assert not any(one.others for one in found.samples.values())
    [kept] = found.ratios
    assert kept.target == search._KEPT
