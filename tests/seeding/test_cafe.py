"""The scenario that comes with the program: it can be run, and it is what its script writes."""

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.load.order_body import BODY, CARD
from tests.seeding.test_runner import orders

from api.orders.create import parse_create
from ledger.seeding.actions import ACTIONS
from ledger.seeding.demo import FIRST_ORDER, MERCHANT, SCENARIO
from ledger.seeding.scenario_file import read_lines
from ledger.seeding.seed import seed

SEEDS = Path(__file__).parents[2] / "seeds"


@pytest.mark.long
@pytest.mark.anyio
async def test_the_scenario_of_the_cafe_runs_and_changes_nothing_the_second_time(settings, log):
    first = await seed(settings, SEEDS / SCENARIO)
    assert first.new == first.lines
    before = log()
    assert (await seed(settings, SEEDS / SCENARIO)).new == 0
    assert log() == before
    statuses = Counter(order["status"] for order in orders(log).values())
    assert 300 <= statuses.total() <= 500
    # What the scenario leaves authorised expires a week after its last day: whether that has happened depends on
    # today's date.
    assert set(statuses) - {"AUTHORIZED"} == {
        "COMPLETED", "FAILED", "PENDING", "PARTIALLY_PAID", "PROCESSING", "CANCELLED", "REFUNDED", "PARTIALLY_REFUNDED",
    }  # fmt: skip
    assert statuses["COMPLETED"] > 0.85 * statuses.total()
    assert {order["head"]["currency"] for order in orders(log).values() if order["head"]} == {"MXN", "USD"}


def test_the_scenario_of_the_cafe_has_every_action():
    assert {line.action for _, line in read_lines(SEEDS / SCENARIO)} == set(ACTIONS)


def test_the_scenario_of_the_cafe_lies_between_june_and_november_2026():
    times = [line.at for _, line in read_lines(SEEDS / SCENARIO)]
    assert times == sorted(times)
    assert datetime(2026, 6, 1, tzinfo=UTC) < times[0]
    assert times[-1] < datetime(2026, 11, 16, tzinfo=UTC)
    assert {line.merchant for _, line in read_lines(SEEDS / SCENARIO)} == {MERCHANT}


def test_the_scenario_is_what_its_script_writes():
    subprocess.run([sys.executable, SEEDS / "make_cafe_bruma.py", "--check"], check=True, timeout=60)


def test_the_first_order_is_accepted_and_has_the_size_of_a_real_one():
    body = (SEEDS / FIRST_ORDER).read_bytes()
    parsed = parse_create(body, datetime.now(UTC))
    assert parsed.payment is not None
    assert parsed.terms.line_items
    assert parsed.terms.metadata
    assert len(json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode()) > 1500


def test_the_first_order_is_the_one_that_the_benchmarks_send():
    assert json.loads((SEEDS / FIRST_ORDER).read_bytes()) == BODY | {"paymentMethod": CARD}
