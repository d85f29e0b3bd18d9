"""Audits over HTTP: asked for, listed and shown. A worker's runner carries them out in its own process."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import msgspec
import psycopg
import pytest
from tests.api.bodies import by_card, order
from tests.api.storefront import Merchant, Storefront

from api.system import metrics
from api.system.metrics import METRICS
from ledger.audit.auditor import audit
from ledger.background.audits import process
from ledger.background.audits.runner import TRIES_MAX, AuditRunner
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

AUDITS = "/api/v1/audits"


def url_of(settings: Settings) -> str:
    assert settings.database_url is not None
    return settings.database_url


def execute(settings: Settings, statement: str, *values: Any) -> None:
    with psycopg.connect(url_of(settings), autocommit=True) as connection:
        assert connection.execute(statement, values).rowcount > 0  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a process have its share of a machine that runs other tests."""
    monkeypatch.setattr(process, "PRIORITY", 1)


async def carry_out(settings: Settings) -> None:
    async with AuditRunner(settings, url_of(settings)) as runner:
        await runner.round(asyncio.Event())


async def request(merchant: Merchant) -> dict[str, Any]:
    answer = await merchant.post(AUDITS, {})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def page_of(merchant: Merchant, path: str) -> str:
    answer = await merchant.get(path, accept="text/html")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (answer.headers["vary"], answer.headers["cache-control"]) == ("accept", "private, no-store")
    assert "<script" not in answer.text
    return answer.text


async def figures_of(store: Storefront) -> dict[str, float]:
    """The metrics of audits."""
    lines = (await store.client.get(METRICS)).text.splitlines()
    found = [line.split(" ") for line in lines if line.startswith("ledger_audit_")]
    return {name: float(value) for name, value in found}


async def end(settings: Settings, merchant: Merchant) -> None:
    """Ends the merchant's audit without a process, as one that too many processes have begun."""
    execute(settings, "update audit set tries = %s where merchant_id = %s", TRIES_MAX, merchant.merchant_id)
    await carry_out(settings)


async def test_an_audit_waits_and_another_one_is_refused(store: Storefront, merchant: Merchant):
    await merchant.create(order())
    asked = await request(merchant)
    one = f"{AUDITS}/{asked['id']}"
    assert asked == {
        "id": asked["id"],
        "status": "QUEUED",
        "progress": {"events": 0, "of": asked["progress"]["of"]},
        "createdAt": asked["createdAt"],
        "endedAt": None,
        "violationsTotal": None,
        "failureReason": None,
    }
    assert asked["progress"]["of"] > 1
    assert (await merchant.get(AUDITS)).json()["data"] == [asked]
    assert (await merchant.get(one)).json() == asked | {"report": None}
    refused = await merchant.post(AUDITS, {})
    assert (refused.status_code, refused.json()["code"]) == (409, "AUDIT_RUNNING")
    assert "QUEUED" in (text := await page_of(merchant, one))
    assert f"0 of {asked['progress']['of']} events" in text
    await end(store.settings, merchant)


async def test_a_clean_audit_reports_what_the_command_does(store: Storefront, merchant: Merchant):
    await merchant.create(order(paymentMethod=by_card(persist=True)))
    asked = await request(merchant)
    await carry_out(store.settings)
    ended = (await merchant.get(f"{AUDITS}/{asked['id']}")).json()
    report = ended.pop("report")
    command = audit(store.settings, url_of(store.settings), merchant.merchant_id)
    by_command = msgspec.json.decode(msgspec.json.encode(command))
    own = {"snapshotAt", "seconds"}
    assert {name: each for name, each in report.items() if name not in own} == {
        name: each for name, each in by_command.items() if name not in own
    }
    events = report["events"]
    assert ended == asked | {
        "status": "CLEAN",
        "progress": {"events": events, "of": events},
        "endedAt": ended["endedAt"],
        "violationsTotal": 0,
    }
    assert asked["createdAt"] < ended["endedAt"]
    assert "No violation." in await page_of(merchant, f"{AUDITS}/{asked['id']}")


async def test_violations_are_listed_with_links_to_the_histories_and_counted(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metrics, "COUNT_S", 0.0)
    created = (await merchant.create(order(paymentMethod=by_card()))).json()
    edit = "update payment_order set status = 'CANCELLED' where merchant_id = %s and order_id = %s"
    execute(store.settings, edit, merchant.merchant_id, UUID(created["id"]))
    asked = await request(merchant)
    await carry_out(store.settings)
    one = f"{AUDITS}/{asked['id']}"
    ended = (await merchant.get(one)).json()
    found = ended["report"]["violations"]
    assert (ended["status"], ended["violationsTotal"]) == ("VIOLATIONS", ended["report"]["violationsTotal"])
    assert {(each["orderId"], each["table"], each["column"]) for each in found} == {
        (created["id"], "payment_order", "status")
    }
    (link,) = {part.partition('"')[0] for part in (await page_of(merchant, one)).split('<a href="')[1:]}
    history = httpx.URL(f"http://ledger.example{one}").join(link).path
    assert history == f"/api/v2/payment-orders/{created['id']}/events"
    assert (await merchant.get(history)).status_code == 200
    figures = await figures_of(store)
    assert figures["ledger_audit_violations"] == ended["violationsTotal"] > 0
    assert 0 <= figures["ledger_audit_age_seconds"] < 3600
    await request(merchant)
    await end(store.settings, merchant)  # an audit that failed says nothing
    assert (await figures_of(store))["ledger_audit_violations"] == ended["violationsTotal"]
    execute(store.settings, edit.replace("CANCELLED", created["status"]), merchant.merchant_id, UUID(created["id"]))
    await request(merchant)
    await carry_out(store.settings)
    assert (await figures_of(store))["ledger_audit_violations"] == 0


async def test_a_failed_audit_says_why(store: Storefront, merchant: Merchant):
    asked = await request(merchant)
    await end(store.settings, merchant)
    ended = (await merchant.get(f"{AUDITS}/{asked['id']}")).json()
    assert (ended["status"], ended["report"], ended["violationsTotal"]) == ("FAILED", None, None)
    assert ended["failureReason"].startswith("5 times, its process was ended")
    assert ended["failureReason"] in await page_of(merchant, f"{AUDITS}/{asked['id']}")


async def test_the_list_is_paged_newest_first(store: Storefront, merchant: Merchant):
    asked = []
    for _ in range(3):
        asked.insert(0, (await request(merchant))["id"])
        await end(store.settings, merchant)
    first = (await merchant.get(f"{AUDITS}?limit=2")).json()
    assert [each["id"] for each in first["data"]] == asked[:2]
    assert (first["pagination"]["total"], first["pagination"]["hasMore"]) == (3, True)
    rest = (await merchant.get(f"{AUDITS}?limit=2&cursor={first['pagination']['nextCursor']}")).json()
    assert [each["id"] for each in rest["data"]] == asked[2:]
    assert (rest["pagination"]["page"], rest["pagination"]["nextCursor"]) == (2, None)
    assert [each["id"] for each in (await merchant.get(f"{AUDITS}?page=3&limit=1")).json()["data"]] == asked[2:]


async def test_a_merchant_without_audits_has_an_empty_list(merchant: Merchant):
    listed = (await merchant.get(AUDITS)).json()
    assert (listed["data"], listed["pagination"]["total"]) == ([], 0)


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("limit=0", "OUT_OF_RANGE", "limit"),
        ("cursor=x", "INVALID_VALUE", "cursor"),
        ("page=1&offset=0", "CONFLICTING_FIELDS", "page"),
        ("status=CLEAN", "UNKNOWN_PARAMETER", "status"),
    ],
)
async def test_wrong_parameters_are_named(merchant: Merchant, query: str, code: str, field: str):
    answer = await merchant.get(f"{AUDITS}?{query}")
    assert answer.status_code == 400
    assert (code, field) in {(each["code"], each["field"]) for each in answer.json()["errors"]}


async def test_another_merchants_audit_is_absent(store: Storefront, merchant: Merchant):
    asked = await request(merchant)
    other = await store.register()
    for reference in (asked["id"], "0" * 36, "x"):
        answer = await other.get(f"{AUDITS}/{reference}")
        assert (answer.status_code, answer.json()["code"]) == (404, "AUDIT_NOT_FOUND")
    assert (await other.get(AUDITS)).json()["data"] == []
    assert (await request(other))["status"] == "QUEUED"
    await end(store.settings, merchant)
    await end(store.settings, other)
