"""Scenarios run on a real ledger: once, twice, with errors."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest
from tests.seeding.conftest import APPROVED, CAFE, DECLINED, NO_FUNDS, charge, line, opening, order

from ledger.seeding.context import merchant_id_of
from ledger.seeding.scenario_file import InvalidScenario
from ledger.seeding.seed import seed
from ledger.settings import CannotRun

pytestmark = pytest.mark.anyio

# Every way in which a line can leave an order: paid, declined, paid at the second try, charged later, paid in parts.
SCENARIO = (
    opening(requestsPerMinute=0, paymentMethods=["CARD"]),
    line("create", "2026-03-01T10:00:00-06:00", order("paid", APPROVED)),
    line("create", "2026-03-01T11:00:00-06:00", order("given-up", DECLINED)),
    line("create", "2026-03-02T10:00:00-06:00", order("retried", NO_FUNDS, "CLI-2")),
    line("create", "2026-03-02T10:05:00-06:00", order("retried", DECLINED, "CLI-2")),
    line("create", "2026-03-02T10:09:00-06:00", order("retried", APPROVED, "CLI-2")),
    line("create", "2026-03-03T10:00:00-06:00", order("charged", dueDate="2026-03-20T23:59:59-06:00")),
    line("create", "2026-03-03T11:00:00-06:00", order("in-parts", allowPartials=True)),
    line("charge", "2026-03-04T10:00:00-06:00", charge(APPROVED, amount=4000), order="in-parts"),
    line("charge", "2026-03-05T10:00:00-06:00", charge(NO_FUNDS, amount=6000), order="in-parts"),
    line("charge", "2026-03-06T10:00:00-06:00", charge(APPROVED), order="charged"),
    line("create", "2026-03-07T10:00:00-06:00", order("waiting")),
)


def orders(log):
    """Returns what is stored of each order, by its external id. An order in flight has no head."""
    return {
        row[5]: {"status": row[3], "created_at": row[9], "head": json.loads(row[12] or "{}")}
        for row in log()["payment_order"]
    }


async def test_a_scenario_leaves_the_orders_that_it_describes(settings, write, log):
    report = await seed(settings, write(*SCENARIO))
    assert (report.lines, report.new, report.declined) == (len(SCENARIO), len(SCENARIO), 4)
    assert {name: found["status"] for name, found in orders(log).items()} == {
        "paid": "COMPLETED",
        "given-up": "FAILED",
        "retried": "COMPLETED",
        "charged": "COMPLETED",
        "in-parts": "PARTIALLY_PAID",
        "waiting": "PENDING",
    }


async def test_a_second_run_changes_nothing(settings, write, log):
    scenario = write(*SCENARIO)
    first = await seed(settings, scenario)
    before = log()
    second = await seed(settings, scenario)
    assert (second.new, second.declined, second.keys) == (0, 0, {})
    assert log() == before
    assert list(first.keys) == [merchant_id_of(CAFE)]


async def test_a_run_after_an_early_end_continues_where_it_stopped(settings, write, log):
    await seed(settings, write(*SCENARIO[:5]))
    report = await seed(settings, write(*SCENARIO))
    assert (report.lines - report.new, report.new) == (5, len(SCENARIO) - 5)
    assert orders(log)["retried"]["status"] == "COMPLETED"


async def test_events_have_the_time_of_their_line(settings, write, log):
    await seed(settings, write(*SCENARIO))
    found = orders(log)
    assert found["paid"]["created_at"] == datetime(2026, 3, 1, 16, tzinfo=UTC)
    assert found["paid"]["head"]["createdAt"] == "2026-03-01T16:00:00.000Z"
    assert found["charged"]["head"]["updatedAt"] == "2026-03-06T16:00:00.000Z"
    assert {row[5].year for row in log()["event"]} == {2026}
    assert max(row[5] for row in log()["event"]) == datetime(2026, 3, 7, 16, tzinfo=UTC)


async def test_the_times_of_a_stream_never_run_backwards(settings, write, log):
    at = [f"2026-03-0{1 + n // 24}T{n % 24:02}:00:00-06:00" for n in range(8, 88)]
    lines = [
        line("create", moment, order(f"o-{n}", APPROVED, f"CLI-{n % 3}", f"Ana {n}")) for n, moment in enumerate(at)
    ]
    await seed(settings, write(opening(), *lines))
    times = {}
    for _, stream_id, version, _, _, recorded_at, *_ in log()["event"]:
        times.setdefault(stream_id, []).append((version, recorded_at))
    assert len(times) == 1 + 3 + len(lines)
    for known in times.values():
        assert [at for _, at in sorted(known)] == sorted(at for _, at in known)


async def test_deadlines_of_processor_calls_stay_in_real_time(settings, write, log):
    await seed(settings, write(opening(), line("create", "2026-03-01T10:00:00-06:00", order("o", APPROVED))))
    requested = next(msgspec.json.decode(row[7]) for row in log()["event"] if row[6] == "authorization-requested.v1")
    assert requested["at"] == "2026-03-01T16:00:00Z"
    assert abs(datetime.fromisoformat(requested["deadlineAt"]) - datetime.now(UTC)) < timedelta(minutes=2)


async def test_the_log_names_the_line_of_the_scenario(settings, write, log):
    await seed(settings, write(opening(), "", line("create", "2026-03-01T10:00:00-06:00", order("o", APPROVED))))
    asked = {json.loads(row[8]).get("request") for row in log()["event"] if row[6].startswith(("order", "payment"))}
    assert asked == {"scenario.jsonl:3"}


async def test_a_card_without_an_answer_leaves_its_order_to_the_recovery(settings, write, log):
    scenario = write(opening(), line("create", "2026-03-01T10:00:00-06:00", order("o", "4000000000000119")))
    for new in (2, 0):
        assert (await seed(settings, scenario)).new == new
        assert orders(log)["o"]["status"] == "PROCESSING"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (line("teleport", "2026-03-01T10:00:00-06:00", {}), "there is no action 'teleport'; there are: register,"),
        (line("create", "2026-02-01T10:00:00-06:00", {}), "is before the merchant's line above it"),
        ("{nonsense", "JSON is malformed"),
        (line("create", "2026-03-01T10:00:00", {}), "timezone"),
        (line("create", "2026-03-01T10:00:00-06:00", {}, ordre="o"), "unknown field `ordre`"),
    ],
)
async def test_a_scenario_with_an_error_in_its_form_does_not_begin(settings, write, log, wrong, reason):
    with pytest.raises(InvalidScenario) as caught:
        await seed(settings, write(opening(), wrong))
    assert "scenario.jsonl:2: " in str(caught.value)
    assert reason in str(caught.value)
    assert log()["event"] == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (line("create", "2026-03-01T10:00:00-06:00", order("o", amount=-1)), "amount"),
        (line("create", "2026-03-01T10:00:00-06:00", order("o", note="x", description="4242 4242 4242 4242")), "card number"),
        (line("charge", "2026-03-01T10:00:00-06:00", charge(APPROVED)), "order is required: a charge names its order"),
        (line("charge", "2026-03-01T10:00:00-06:00", charge(APPROVED), order="nobody"), "ORDER_NOT_FOUND"),
        (line("register", "2026-03-01T10:00:00-06:00", {"color": "red"}), "color is not a setting of a merchant"),
        ({**line("create", "2026-03-01T10:00:00-06:00", order("o")), "as": "Nadie"}, "'Nadie' has not been registered"),
    ],
)  # fmt: skip
async def test_a_line_that_the_ledger_refuses_is_named(settings, write, log, wrong, reason):
    with pytest.raises(InvalidScenario) as caught:
        await seed(settings, write(opening(), wrong))
    assert "scenario.jsonl:2: " in str(caught.value)
    assert reason in str(caught.value)
    assert "4242" not in str(caught.value)
    assert orders(log) == {}


async def test_a_line_with_another_amount_than_before_is_refused(settings, write):
    await seed(settings, write(opening(), line("create", "2026-03-01T10:00:00-06:00", order("o", APPROVED))))
    changed = write(opening(), line("create", "2026-03-01T10:00:00-06:00", order("o", APPROVED, amount=20000)))
    with pytest.raises(InvalidScenario, match=r"scenario\.jsonl:2: IDEMPOTENCY_MISMATCH"):
        await seed(settings, changed)


async def test_two_payments_of_an_order_at_the_same_time_are_refused(settings, write):
    twice = line("create", "2026-03-01T10:00:00-06:00", order("o", DECLINED))
    with pytest.raises(InvalidScenario, match=r"scenario\.jsonl:3: at must differ"):
        await seed(settings, write(opening(), twice, twice))


async def test_scenarios_do_not_run_in_production(settings, write, log):
    production = msgspec.structs.replace(settings, environment="production")
    with pytest.raises(CannotRun, match="in production time is real"):
        await seed(production, write(opening()))
    assert log()["event"] == []


async def test_a_missing_file_is_one_line(settings, tmp_path):
    with pytest.raises(CannotRun, match=r"none\.jsonl cannot be read: No such file"):
        await seed(settings, tmp_path / "none.jsonl")


async def test_a_merchant_of_a_scenario_is_registered_with_its_settings(settings, write, database_url):
    await seed(settings, write(opening(requestsPerMinute=0, surchargeRate=3.5, timeZone="America/Tijuana")))
    with psycopg.connect(database_url) as connection:
        name, text = connection.execute("select name, settings from merchant").fetchone()
    stored = json.loads(text)
    assert (name, stored["requestsPerMinute"], stored["surchargeRate"]) == (CAFE, 0, "3.5")
    assert stored["timeZone"] == "America/Tijuana"
