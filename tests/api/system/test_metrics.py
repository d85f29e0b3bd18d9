"""Figures for operators, and lines in the log: what happened, and nothing of whom."""

from __future__ import annotations

import asyncio
import json
import re
import time
from importlib.metadata import version
from uuid import UUID, uuid4

import httpx
import msgspec
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.bodies import DECLINED, by_card, card, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened

from api.system import metrics
from api.system.metrics import METRICS
from ledger.domain.orders.timers import TimerKind
from ledger.postgres.faults import DatabaseUnavailable
from ledger.settings import Settings
from ledger.telemetry.metrics import AllProcesses
from projections.queries import Queries

pytestmark = pytest.mark.anyio

ONE = f"{ORDERS}/{{id}}"


_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'="([^"\\]*)"')


def figures(text: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels. Prometheus's own parser takes longer by far."""
    return {(name, *_LABEL.findall(labels)): float(value) for name, labels, value in _SAMPLE.findall(text)}


def official_figures(text: str) -> dict[tuple[str, ...], float]:
    """The same, as Prometheus's own parser reads them."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def now(store: Storefront) -> dict[tuple[str, ...], float]:
    answer = await store.client.get(METRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return figures(answer.text)


async def test_requests_are_counted_by_route_and_outcome_and_never_by_address(store: Storefront, merchant: Merchant):
    before = await now(store)
    assert (await merchant.create(paid_order(externalId="very-secret"))).status_code == 201
    assert (await merchant.get(f"{ORDERS}/very-secret")).status_code == 200
    assert (await merchant.get(f"{ORDERS}/unknown-secret?search=ana@example.com")).status_code == 400
    assert (await store.client.get("/nowhere/very-secret")).status_code == 404
    text = (await store.client.get(METRICS)).text
    after = figures(text)
    assert after == official_figures(text)

    def more(*name: str) -> float:
        return after[name] - before.get(name, 0)

    assert more("ledger_http_requests_total", "201", "POST", ORDERS, "2xx") == 1
    assert more("ledger_http_requests_total", "200", "GET", ONE, "2xx") == 1
    assert more("ledger_http_requests_total", "400", "GET", ONE, "4xx") == 1
    assert more("ledger_http_requests_total", "404", "GET", "(none)", "4xx") == 1
    assert more("ledger_http_request_seconds_bucket", "+Inf", "GET", ONE) == 2
    assert more("ledger_journal_batch_commands_sum") >= 2
    assert more("ledger_reader_batch_keys_count", "ledger-reads") >= 1
    for never in ("very-secret", "unknown-secret", "ana@example.com", str(merchant.merchant_id), merchant.secret):
        assert never not in text


async def test_orders_by_status_and_the_version_show(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    before = await now(store)
    assert (await merchant.create(paid_order(externalId="counted-1"))).status_code == 201
    assert (await merchant.create(order(externalId="counted-2"))).status_code == 201
    after = await now(store)
    changed = {name[1] for name in after if name[0] == "ledger_orders" and after[name] == before.get(name, 0) + 1}
    assert changed == {"COMPLETED", "PENDING"}
    assert after["ledger_build_info", version("payment-ledger")] == 1


async def test_payments_that_wait_show_by_status(
    store: Storefront, merchant: Merchant, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """By their timers, which the worker stores: no worker runs here."""
    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    kinds = [TimerKind.EXPIRY, TimerKind.LAPSE, TimerKind.LAPSE, TimerKind.VOID]
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        for kind in kinds:
            row = (merchant.merchant_id, kind, uuid4(), uuid4())
            connection.execute("insert into due_time values (%s, %s, %s, %s, now() + interval '1 day')", row)
        found = await now(store)
        connection.execute("delete from due_time where merchant_id = %s", (merchant.merchant_id,))
    waiting = {name[1]: number for name, number in found.items() if name[0] == "ledger_payments_open"}
    assert waiting == {"REQUIRES_ACTION": 1, "AUTHORIZED": 2, "PENDING_CAPTURE": 0}


async def test_a_ledger_is_counted_again_after_a_while_and_not_for_each_scrape(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    """A count reads more the larger the ledger is."""
    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    before = await now(store)
    monkeypatch.setattr(metrics, "COUNT_S", 3600.0)
    assert (await merchant.create(order(externalId="counted-3"))).status_code == 201
    kept = await now(store)
    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    counted = await now(store)
    name = ("ledger_orders", "PENDING")
    assert [each.get(name, 0) - before.get(name, 0) for each in (kept, counted)] == [0, 1]


async def test_a_count_that_takes_too_long_leaves_out_its_numbers_alone(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    async def too_long(_: Queries) -> dict[str, int]:
        raise DatabaseUnavailable("a test")

    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    monkeypatch.setattr(Queries, "orders_by_status", too_long)
    found = await now(store)
    assert not [name for name in found if name[0] in ("ledger_orders", "ledger_payments_open")]
    assert found[("ledger_recovery_open",)] == 0


async def test_methods_without_an_operation_share_a_label(store: Storefront):
    before = await now(store)
    for method in ("MKCALENDAR", "PURGE", "BIND"):
        assert (await store.client.request(method, ORDERS)).status_code == 405
    after = await now(store)
    new = {name for name in after if name[0] == "ledger_http_requests_total" and after[name] != before.get(name, 0)}
    assert new == {
        ("ledger_http_requests_total", "405", "(other)", ORDERS, "4xx"),
        ("ledger_http_requests_total", "200", "GET", METRICS, "2xx"),
    }
    assert not [name for name in after if not {"MKCALENDAR", "PURGE", "BIND"}.isdisjoint(name)]


async def test_every_family_is_explained_even_before_it_has_a_figure(store: Storefront):
    text = (await store.client.get(METRICS)).text
    for family in AllProcesses().collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"# HELP {name} {family.documentation}" in text
        assert f"# TYPE {name} {family.type}" in text


async def test_a_rate_that_is_used_up_shows(store: Storefront):
    before = await now(store)
    merchant = await store.register(requests_per_minute=1, requests_per_second=1)
    answers = [await merchant.get(ORDERS) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 429, 429]
    name = ("ledger_http_rate_limited_total",)
    assert (await now(store))[name] - before[name] == 2


async def test_a_call_that_is_due_for_a_look_up_shows(store: Storefront, merchant: Merchant, settings: Settings):
    made = (await merchant.create(order())).json()
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        open_call = "update payment_order set call_deadline_at = {} where order_id = %s"
        connection.execute(open_call.format("now() - interval '65 seconds'"), (made["id"],))
        found = await now(store)
        connection.execute(open_call.format("null"), (made["id"],))
    assert found[("ledger_recovery_open",)] == 1
    assert 59 < found[("ledger_recovery_overdue_seconds",)] < 62


async def test_the_age_of_the_oldest_open_call_counts_from_its_announcement(
    store: Storefront, merchant: Merchant, settings: Settings
):
    """A postponed call is due later; a merchant's clock that is ahead dates its events later. Neither is its age."""
    assert (await now(store))[("ledger_recovery_oldest_seconds",)] == 0
    ids = [(await merchant.create(paid_order(externalId=f"open-{n}"))).json()["id"] for n in range(2)]
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        change = "update event set command_id = %s where stream_id = %s"
        for order_id, age_s in zip(ids, (600, 7_200), strict=True):
            began_ms = int((time.time() - age_s) * 1000)
            connection.execute(change, (UUID(int=began_ms << 80 | 7 << 76 | uuid4().int >> 68), order_id))
        open_call = "update payment_order set call_deadline_at = {} where order_id = any(%s::uuid[])"
        connection.execute(open_call.format("now() + interval '1 hour'"), (ids[:1],))
        found = await now(store)
        connection.execute(open_call.format("null"), (ids,))
    assert 600 <= found[("ledger_recovery_oldest_seconds",)] < 1200, "the other order's call has its outcome"


async def test_only_this_machine_may_look_and_no_proxy_may_pass_it_on(store: Storefront):
    for header in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host"):
        refused = await store.client.get(METRICS, headers={header: "127.0.0.1"})
        assert (refused.status_code, refused.json()["code"]) == (404, "NOT_FOUND")
    app = store.client._transport.app  # type: ignore[attr-defined]
    elsewhere = httpx.ASGITransport(app, client=("203.0.113.9", 1234))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://ledger.example") as client:
        assert (await client.get(METRICS)).status_code == 404
        assert (await client.get("/health/live")).status_code == 200
    assert (await store.client.post(METRICS)).status_code == 405


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"host": "0.0.0.0"}, 404),
        ({"host": "::"}, 404),
        ({"host": "10.0.0.7"}, 404),
        ({"host": "ledger.example"}, 404),
        ({"public_url": "https://pay.example.com"}, 404),
        ({"host": "0.0.0.0", "public_url": "http://127.0.0.1:8000"}, 404),
        ({"host": "127.0.0.2"}, 200),
        ({"host": "::1", "public_url": "http://[::1]:8000"}, 200),
        ({"host": "localhost", "public_url": "http://localhost:8000"}, 200),
        ({"host": "0.0.0.0", "metrics_token": "let-me-see"}, 200),
    ],
)  # fmt: skip
async def test_this_machine_is_trusted_only_where_no_other_can_reach_the_service(
    settings: Settings, changes: dict[str, str], status: int
):
    async with opened(msgspec.structs.replace(settings, **changes)) as store:
        sent = {"authorization": "Bearer let-me-see"}
        assert (await store.client.get(METRICS, headers=sent)).status_code == status


async def test_with_a_token_it_is_the_token_that_counts(settings: Settings):
    async with opened(msgspec.structs.replace(settings, metrics_token="let-me-see")) as store:
        for sent in ({}, {"authorization": "Bearer let-me"}, {"authorization": "let-me-see"}):
            assert (await store.client.get(METRICS, headers=sent)).status_code == 404
        right = {"authorization": "Bearer let-me-see", "x-forwarded-for": "203.0.113.9"}
        assert (await store.client.get(METRICS, headers=right)).status_code == 200


async def test_each_request_has_a_line_that_names_nobody(settings: Settings, capfd: pytest.CaptureFixture[str]):
    await asyncio.sleep(0.3)
    capfd.readouterr()  # lines of the application that the other tests share
    async with opened(settings) as store:
        merchant = await store.register()
        made = await merchant.post(ORDERS, paid_order(externalId="very-secret"), **{"x-request-id": "mine-1"})
        await merchant.get(f"{ORDERS}/very-secret")
        await store.client.get(f"{ORDERS}/very-secret")
        await merchant.get(f"{ORDERS}/very-secret/payments")
        for reference in (made.json()["id"], "very-secret"):
            await merchant.post(f"{ORDERS}/{reference}/cancel", {})
        await merchant.get(f"{ORDERS}/nothing?search=ana@example.com")
        declined = by_card(cardDetails=card(number=DECLINED))
        refused = await merchant.post(ORDERS, paid_order(externalId="secret-2", paymentMethod=declined))
    stderr = capfd.readouterr().err
    lines = [json.loads(line) for line in stderr.splitlines() if '"event":"request"' in line]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", ORDERS, 201),
        ("GET", ONE, 200),
        ("GET", ONE, 401),
        ("GET", f"{ONE}/payments", 200),
        *[("POST", f"{ONE}/cancel", 409)] * 2,
        ("GET", ONE, 400),
        ("POST", ORDERS, 422),
    ]
    order_id = made.json()["id"]
    ids = [order_id, order_id, None, *[order_id] * 3, None, refused.json()["id"]]
    assert [line.get("order_id") for line in lines] == ids
    assert {tuple(line)[:4] for line in lines} == {("timestamp", "level", "event", "process")}
    assert {line["process"] for line in lines} == {"api-0"}
    assert lines[0]["request_id"] == "mine-1"
    assert [line.get("merchant_id") for line in lines] == [
        None if line["status"] == 401 else str(merchant.merchant_id) for line in lines
    ]
    assert lines[0]["key_id"] == lines[1]["key_id"]
    assert [line.get("error_code") for line in lines] == [
        *(None, None, "INVALID_API_KEY"),
        *(None, "ORDER_HAS_CAPTURED_FUNDS", "ORDER_HAS_CAPTURED_FUNDS", "UNKNOWN_PARAMETER", "PAYMENT_DECLINED"),
    ]
    assert "key_id" not in lines[2]
    assert all(line["ms"] > 0 and line["level"] == "info" and line["timestamp"] for line in lines)
    for never in ("secret", "ana", "42424242", merchant.secret):
        assert never not in stderr


async def test_the_lines_can_be_left_out(settings: Settings, capfd: pytest.CaptureFixture[str]):
    for quiet in ({"access_log": "off"}, {"log_level": "warning"}):
        async with opened(msgspec.structs.replace(settings, **quiet)) as store:
            assert (await store.client.get("/health/live")).status_code == 200
        assert '"request"' not in capfd.readouterr().err
