"""Databases that are filled for the benchmark hold what the service writes, and its figures are compared by size."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import nullcontext
from datetime import UTC, datetime
from unittest import mock
from xml.etree import ElementTree as ET

import psycopg
import pytest
from benchmarks.load import commits, growth, history
from benchmarks.load.commits import CommitPlan, throwaway_keys
from benchmarks.measure import curve
from benchmarks.measure.samples import Sample
from benchmarks.scratch import scratch_database
from benchmarks.suites import growth as suite
from uuid_utils.compat import uuid7

from ledger.domain.streams import TOPICS
from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader
from ledger.postgres.connection import connect
from ledger.settings import Settings
from projections.lists.pages import OrderQuery
from projections.queries import Queries
from projections.rebuild import replay, stored

_EVENTS = 2_000


def in_this_process(_module: str, plans: list[history.HistoryPlan]) -> None:
    for plan in plans:
        asyncio.run(history.run(plan, lambda: None))


@pytest.fixture(scope="module")
def filled(postgres_url):
    with pytest.MonkeyPatch.context() as patch, scratch_database(postgres_url) as url:
        patch.setattr(growth, "run_together", in_this_process)
        merchant_id = uuid7()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into merchant_head (merchant_id) values (%s)", [merchant_id])
        yield url, growth.fill(url, merchant_id, _EVENTS)


async def differing_tables(url: str, merchant_id) -> set[str]:
    reader = LogReader(url, CODEC, throwaway_keys(url))
    async with await connect(url, "test") as connection:
        events = await reader.range(connection, merchant_id, 0, 1_000_000, list(TOPICS))
        of_log = replay(merchant_id, [(one.stream_id, one.version, one.event) for one in events])
        of_tables = await stored(connection, merchant_id)
    assert of_log["payment_order"], "the log has orders"
    return {name for name in of_log if of_log[name] != of_tables.get(name)}


def test_a_filled_database_has_the_rows_of_its_log(filled):
    url, found = filled
    assert found.orders == _EVENTS // 10
    assert abs(found.events - _EVENTS) < 0.05 * _EVENTS
    for merchant_id in (found.merchant_id, *list(found.others)[:2]):
        assert asyncio.run(differing_tables(url, merchant_id)) == set()
    with psycopg.connect(url) as connection:
        [[gaps]] = connection.execute(
            "select count(*) from merchant_head h"
            " where position <> (select count(*) from event e where e.merchant_id = h.merchant_id)"
            " or position <> (select max(position) from event e where e.merchant_id = h.merchant_id)"
        ).fetchall()
        [[behind]] = connection.execute(
            "select count(*) from merchant_head h left join reaction_cursor c using (merchant_id)"
            " where c.position is distinct from h.position"
        ).fetchall()
        [[orders, claims]] = connection.execute(
            "select (select count(*) from payment_order), (select count(*) from claim where kind = 1)"
        ).fetchall()
    assert (gaps, behind) == (0, 0)
    assert orders == claims > found.orders


def test_a_filled_database_is_listed_and_searched(filled):
    url, found = filled

    async def totals() -> list[int]:
        queries = Queries(url)
        await queries.start()
        texts = (None, found.middle, "pedido-2026")
        now = datetime.now(UTC)
        pages = [await queries.orders(found.merchant_id, OrderQuery(search=text), now) for text in texts]
        await queries.stop()
        return [json.loads(page)["pagination"]["total"] for page in pages]

    assert asyncio.run(totals()) == [found.orders, 1, found.orders]


def test_appending_to_a_long_history_scans_nothing(filled):
    url, found = filled
    others = list(found.others)
    before = suite.scans(url, suite.JOURNAL)
    plan = CommitPlan(
        url=url,
        shape="order",
        merchants=others,
        customers=[found.others[other] for other in others],
        in_flight=8,
        seconds=0.2,
        warm_up_s=0,
    )
    one = asyncio.run(commits.run(plan, lambda: None))
    assert one.done
    assert not one.others
    assert suite.scans(url, suite.JOURNAL) == before


def test_a_picture_has_a_curve_for_each_measurement():
    picture = curve.draw(
        "Speed & size", {10_000: "10 thousand\na", 10_000_000: "10 million"}, {"append": [1, 0.9], "<b>": [1, 1.5]}
    )
    root = ET.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    assert [one.text for one in root.iter(f"{space}title")] == ["Speed & size"]
    assert len(list(root.iter(f"{space}polyline"))) == 2
    texts = [one.text for one in root.iter(f"{space}text")]
    assert {"append 0.90", "<b> 1.50", "10 million", "a", "1.6"} <= set(texts)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    places = [
        float(place) for line in root.iter(f"{space}polyline") for place in re.findall(r"[\d.]+", line.attrib["points"])
    ]
    assert all(0 < x < width for x in places[::2])
    assert all(0 < y < height for y in places[1::2])


def test_each_size_is_compared_with_the_smallest_and_drawn(database_url, tmp_path, monkeypatch):
    speeds = {10_000: 1_000, 20_000: 900}

    def opened(*arguments: object) -> suite._Size:
        events = arguments[-1]
        filled = growth.Filled(merchant_id=uuid7(), orders=1, others={}, events=events, size_gb=1)
        return suite._Size(events, database_url, filled, mock.MagicMock())

    def sample_of(per_second: float) -> Sample:
        return Sample(done=int(per_second), seconds=1, p50_ms=1, p99_ms=1)

    monkeypatch.setattr(suite, "_open", opened)
    monkeypatch.setattr(suite, "scratch_database", lambda _: nullcontext(database_url))
    monkeypatch.setattr(
        suite, "_runs", lambda size, *_: dict.fromkeys(suite._KEPT, lambda: sample_of(speeds[size.events]))
    )
    monkeypatch.setattr(suite, "_order_ids", lambda _: [])
    monkeypatch.setattr(suite.InsertLimit, "run", lambda *_: sample_of(2_000))
    monkeypatch.setattr(suite.EchoLimit, "run", lambda *_: sample_of(4_000))
    monkeypatch.setattr(suite, "echo_limit", mock.MagicMock)
    monkeypatch.setattr(suite, "child_of", lambda *_: os.getpid())
    monkeypatch.setattr(suite.Costs, "means", lambda *_: {"API": 30, "worker": 5, "Postgres": 60})
    picture = tmp_path / "growth.svg"
    found = suite.report("", Settings(), 1, 1, 20_000, picture)
    ratios = {one.of: one for one in found.ratios}
    assert {f"{what}, 20 thousand events" for what in suite._KEPT} < ratios.keys()
    assert ratios["append, 20 thousand events"].value == pytest.approx(0.9)
    assert ratios["append, 20 thousand events"].reached
    assert ratios["search, 20 thousand events, for the same processor time"].value == 1
    assert ratios["API process, resident, 10 thousand events"].value > 1
    assert found.shares["of its limit"]["append, 20 thousand"] == pytest.approx(0.45)
    assert found.shares["of its limit"]["read by id, 10 thousand"] == pytest.approx(0.25)
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
