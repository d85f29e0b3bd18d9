"""What scenarios can do with existing orders, and what falls due on them between the lines."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.seeding.conftest import APPROVED, charge, line, opening, order
from tests.seeding.test_runner import orders

from ledger.seeding import seed as seed_module
from ledger.seeding.runner import RunReport
from ledger.seeding.scenario_file import InvalidScenario
from ledger.seeding.seed import seed

pytestmark = pytest.mark.anyio

CHALLENGE, DEVICE, LATER = "4000000000003220", "4000000000003063", "4000000000005126"
SPEI, CASH = {"type": "spei"}, {"type": "paycash"}


def by(method, **changes):
    return {"paymentMethod": method, "billingAddress": {"country": "MX"}, **changes}


def at(day, hour=10):
    return f"2026-03-{day:02}T{hour:02}:00:00-06:00"


# An order for each action of a line, and for each end that time alone brings.
SCENARIO = (
    opening(),
    line("create", at(1), order("parts", allowPartials=True)),
    line("payment", at(1, 11), charge(APPROVED, amount=4000), order="parts"),
    line("payment", at(2), by(SPEI, amount=6000), order="parts"),
    line("deposit", at(2, 11), {}, order="parts"),
    line("create", at(2, 12), order("refunded", APPROVED)),
    line("refund", at(3), {"amount": 2500, "reason": "merma"}, order="refunded"),
    line("refund", at(4), {"amount": 7500}, order="refunded"),
    line("create", at(4, 11), order("refunded-later", LATER)),
    line("refund", at(5), {"amount": 10000}, order="refunded-later"),
    line("create", at(5, 11), order("spei-refunded")),
    line("charge", at(5, 12), by(SPEI), order="spei-refunded"),
    line("deposit", at(5, 13), {}, order="spei-refunded"),
    line("refund", at(5, 14), {"amount": 10000}, order="spei-refunded"),
    line("create", at(6), order("cancelled")),
    line("cancel", at(6, 11), {"reason": "cliente"}, order="cancelled"),
    line("create", at(7), order("captured", APPROVED, captureMethod="MANUAL")),
    line("capture", at(8), {}, order="captured"),
    line("create", at(8, 11), order("lapsed", APPROVED, captureMethod="MANUAL")),
    line("create", at(9), order("challenged", DEVICE)),
    line("device-data", at(9, 11).replace("11:00", "10:02"), {}, order="challenged"),
    line("validate", at(9, 11).replace("11:00", "10:05"), {}, order="challenged"),
    line("create", at(10), order("refused", CHALLENGE)),
    line("validate", at(10).replace("10:00", "10:04"), {"accepted": False}, order="refused"),
    line("create", at(10, 11), order("left", CHALLENGE)),
    line("create", at(11), order("expired")),
    line("charge", at(11, 11), by(CASH), order="expired"),
    line("create", at(11, 12), order("late")),
    line("charge", at(11, 13), by(SPEI), order="late"),
    line("create", at(12), order("contested", APPROVED)),
    line("dispute", at(13), {"outcome": "OPENED"}, order="contested"),
    line("dispute", at(20), {"outcome": "LOST"}, order="contested"),
    line("deposit", at(25), {}, order="late"),
)


async def test_positions_follow_the_times_of_the_events(settings, write, log):
    """As in every log: otherwise a time of the past would mean no place in it."""
    await seed(settings, write(*SCENARIO))
    times = [recorded_at for _, recorded_at in sorted((row[3], row[5]) for row in log()["event"])]
    assert times == sorted(times)


async def test_every_action_runs(settings, write, log):
    report = await seed(settings, write(*SCENARIO))
    assert (report.new, report.declined) == (len(SCENARIO), 1)
    assert {name: found["status"] for name, found in orders(log).items()} == {
        "parts": "COMPLETED",
        "refunded": "REFUNDED",
        "refunded-later": "REFUNDED",
        "spei-refunded": "REFUNDED",
        "cancelled": "CANCELLED",
        "captured": "COMPLETED",
        "lapsed": "FAILED",
        "challenged": "COMPLETED",
        "refused": "FAILED",
        "left": "FAILED",
        "expired": "PENDING",
        "late": "COMPLETED",
        "contested": "REFUNDED",
    }


async def test_a_second_run_changes_nothing(settings, write, log):
    scenario = write(*SCENARIO)
    await seed(settings, scenario)
    before = log()
    assert (await seed(settings, scenario)).new == 0
    assert log() == before


async def test_two_halves_come_to_the_same_as_the_whole(settings, write, log):
    await seed(settings, write(*SCENARIO[:18]))
    assert (await seed(settings, write(*SCENARIO))).new == len(SCENARIO) - 18
    assert orders(log)["refused"]["status"] == "FAILED"


async def test_what_falls_due_between_the_lines_has_its_own_time(settings, write, log):
    await seed(settings, write(*SCENARIO))
    expired = {row[5].astimezone(UTC) for row in log()["event"] if row[6] == "payment-expired.v1"}
    opened = datetime(2026, 3, 10, 17, tzinfo=UTC)
    assert opened + timedelta(minutes=15) in expired
    assert datetime(2026, 3, 8, 17, tzinfo=UTC) + timedelta(days=7) in expired
    assert all(moment < datetime(2026, 3, 26, tzinfo=UTC) for moment in expired)
    assert len(expired) == 4


async def test_the_times_of_a_stream_never_run_backwards(settings, write, log):
    await seed(settings, write(*SCENARIO))
    times = {}
    for _, stream_id, version, _, _, recorded_at, *_ in log()["event"]:
        times.setdefault(stream_id, []).append((version, recorded_at))
    for known in times.values():
        assert [at for _, at in sorted(known)] == sorted(at for _, at in known)


async def test_a_merchant_whose_scenario_lies_in_the_past_has_no_clock_of_its_own(settings, write, database_url):
    await seed(settings, write(*SCENARIO))
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from merchant_clock").fetchone() == (0,)


async def test_a_scenario_of_the_future_moves_the_clock_to_its_last_line(settings, write, log, database_url):
    soon = datetime.now(UTC) + timedelta(days=30)
    later = soon + timedelta(days=10)
    await seed(
        settings,
        write(
            opening(),
            line("create", soon.isoformat(), order("lapsed", APPROVED, captureMethod="MANUAL")),
            line("create", later.isoformat(), order("pending")),
        ),
    )
    assert orders(log)["lapsed"]["status"] == "FAILED"
    with psycopg.connect(database_url) as connection:
        ahead, held = connection.execute(
            "select now() + ahead_us * interval '1 microsecond', moving_until from merchant_clock"
        ).fetchone()
    assert timedelta(0) <= ahead - later < timedelta(minutes=1)
    assert held is None


async def test_the_clock_is_leased_while_the_scenario_runs(settings, write, database_url, monkeypatch):
    held = []

    async def look(*_):
        with psycopg.connect(database_url) as connection:
            held.append(connection.execute("select moving_until > now() from merchant_clock").fetchall())
        return RunReport(Counter(), {})

    monkeypatch.setattr(seed_module, "run_scenario", look)
    await seed(settings, write(opening()))
    assert held == [[(True,)]]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (line("deposit", at(2), {}, order="o"), "order must have a reference"),
        (line("validate", at(2), {}, order="o"), "order must have a payer who was sent"),
        (line("dispute", at(2), {"outcome": "OPENED"}, order="o"), "order must hold a payment"),
        (
            line("dispute", at(2), {"outcome": "PERHAPS"}, order="o"),
            "body cannot be read: Invalid enum value 'PERHAPS'",
        ),
        (line("refund", at(2), {"amount": 1}, order="o"), "ORDER_NOT_REFUNDABLE"),
        (line("refund", at(2), {"amount": 1}), "order is required: a refund names its order"),
    ],
)
async def test_a_line_that_its_order_cannot_take_is_named(settings, write, wrong, reason):
    with pytest.raises(InvalidScenario) as caught:
        await seed(settings, write(opening(), line("create", at(1), order("o")), wrong))
    assert "scenario.jsonl:3: " in str(caught.value)
    assert reason in str(caught.value)
