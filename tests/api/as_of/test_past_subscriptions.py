"""Lists of subscriptions of the past over HTTP: the pages and totals of then, under every filter."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

import pytest
from tests.api.as_of.test_past_lists import Lists, as_of_list
from tests.api.as_of.test_past_reads import CLOCK, CUSTOMERS, as_of, now_of, refused, without_place
from tests.api.as_of.test_summary import SUMMARY
from tests.api.storefront import Merchant, Storefront
from tests.api.subscriptions.billing import (
    DECLINED_WHEN_SAVED,
    PLANS,
    SUBSCRIPTIONS,
    made,
    planned,
    saved,
    shown,
    subscribed,
)

from projections.formats import moment

pytestmark = pytest.mark.anyio

FILTERS = (
    "",
    "status=ACTIVE",
    "status=TRIALING,CANCELED",
    "status=PAST_DUE",
    "customerId=ana",
    "customerId=eva&status=ACTIVE",
    "planId=first",
    "planId=second&status=ACTIVE",
    "planId=nothing",
    "page=2",
    "page=2&status=ACTIVE",
)
LISTS = tuple(f"{SUBSCRIPTIONS}?limit=2&{query}" for query in FILTERS)


async def changed_again_and_again(merchant: Merchant, lists: Lists) -> None:
    """Makes and changes subscriptions and their plans; the lists are kept in between."""
    await lists.keep()
    first = await planned(merchant, externalId="first")
    second = await planned(merchant, externalId="second", amount="50000", trialPeriodDays=7)
    of_ana = await subscribed(merchant, "ana", planId=first["id"], metadata={"source": "web"})
    await lists.keep()
    refused_card = await saved(merchant, "leo", DECLINED_WHEN_SAVED)
    body = {"customerId": "leo", "planId": first["id"], "paymentMethodId": refused_card}
    assert (await merchant.post(SUBSCRIPTIONS, body)).status_code == 422
    of_eva = await subscribed(merchant, "eva", planId=second["id"])
    of_bea = await subscribed(merchant, "bea", planId=first["id"])
    await lists.keep()
    assert (await merchant.put(f"{PLANS}/{first['id']}", {"name": "Otro"})).status_code == 200
    await lists.keep()
    await made(merchant, f"{SUBSCRIPTIONS}/{of_bea['id']}/cancel", {"atPeriodEnd": False})
    changed = await merchant.put(f"{SUBSCRIPTIONS}/{of_ana['id']}", {"planId": second["id"]})
    assert changed.status_code == 200, changed.text
    await lists.keep()
    moved = await merchant.post(CLOCK, {"advanceBy": "P9D"})
    assert moved.status_code == 200, moved.text
    await lists.keep()
    await made(merchant, f"{SUBSCRIPTIONS}/{of_eva['id']}/cancel", {"atPeriodEnd": True})
    await lists.keep()


async def test_every_list_of_subscriptions_is_that_of_then(merchant: Merchant):
    lists = Lists(merchant, LISTS)
    await changed_again_and_again(merchant, lists)
    await lists.assert_equal()


async def test_a_list_is_the_same_if_all_subscriptions_that_existed_are_folded(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    lists = Lists(merchant, LISTS)
    await changed_again_and_again(merchant, lists)
    monkeypatch.setattr("projections.as_of.snapshots._SCANNED_PER_FOLD", 0)
    await lists.assert_equal()


async def test_list_summary_and_subscriptions_of_one_time_agree(merchant: Merchant):
    plan = await planned(merchant)
    started = [await subscribed(merchant, name, planId=plan["id"]) for name in ("ana", "eva", "bea")]
    await asyncio.sleep(0.003)
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    await made(merchant, f"{SUBSCRIPTIONS}/{started[0]['id']}/cancel", {"atPeriodEnd": False})
    await merchant.put(f"{PLANS}/{plan['id']}", {"name": "Otro"})
    found, cursor = [], ""
    for _ in started:
        page = await as_of_list(merchant, f"{SUBSCRIPTIONS}?limit=1&status=ACTIVE{cursor}", at)
        assert page["pagination"]["total"] == len(started)
        found += page["data"]
        cursor = f"&cursor={page['pagination']['nextCursor']}"
    assert [each["id"] for each in found] == [each["id"] for each in reversed(started)]
    for each in found:
        alone = await as_of(merchant, f"{SUBSCRIPTIONS}/{each['id']}", at)
        assert alone.json()["plan"]["name"] == "Café del mes"
        assert without_place(alone).decode().count(each["id"]) >= 1
        assert {name: alone.json()[name] for name in each} == each
    summary = (await as_of(merchant, SUMMARY, at)).json()
    assert summary["subscriptions"] == [{"status": "ACTIVE", "subscriptions": 3}]
    assert summary["position"] == page["position"]


async def test_what_is_asked_for_is_checked(store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    for name in ("ana", "eva"):
        await subscribed(merchant, name)
    now = await now_of(merchant)
    at = moment(now.astimezone(UTC))
    for text in ("yesterday", "2026-01-31", now + timedelta(hours=1)):
        assert refused(await as_of(merchant, SUBSCRIPTIONS, text)) == (400, "VALIDATION_ERROR", ["asOf"])
    of_then = (await shown(merchant, f"{SUBSCRIPTIONS}?limit=1&asOf={at}"))["pagination"]["nextCursor"]
    for query in (f"cursor={of_then}", f"asOf=2026-01-01T00:00:00Z&cursor={of_then}"):
        assert refused(await merchant.get(f"{SUBSCRIPTIONS}?{query}")) == (400, "VALIDATION_ERROR", ["cursor"])
    for early in ("0001-01-01T00:00:00Z", "2020-01-01T00:00:00Z"):
        page = (await as_of(merchant, SUBSCRIPTIONS, early)).json()
        assert (page["data"], page["pagination"]["total"], page["position"]) == ([], 0, 0)
    stranger = await store.register()
    assert (await shown(stranger, f"{SUBSCRIPTIONS}?asOf={at}"))["pagination"]["total"] == 0
    assert (await shown(merchant, f"{SUBSCRIPTIONS}?asOf={at}&customerId=%00&planId=%00"))["data"] == []
    await asyncio.sleep(0.003)
    for each in (await shown(merchant, SUBSCRIPTIONS))["data"]:
        await made(merchant, f"{SUBSCRIPTIONS}/{each['id']}/cancel", {"atPeriodEnd": True})
    for module in ("subscriptions", "snapshots"):
        monkeypatch.setattr(f"projections.as_of.{module}.FOLDED_MAX", 1)
    too_large = await merchant.get(f"{SUBSCRIPTIONS}?status=ACTIVE&asOf={at}")
    assert (too_large.status_code, too_large.json()["code"]) == (422, "REPORT_TOO_LARGE")
    assert (await shown(merchant, f"{SUBSCRIPTIONS}?asOf={at}"))["pagination"]["total"] == 2


async def test_an_erased_customers_subscription_has_no_metadata_in_any_past(merchant: Merchant):
    started = await subscribed(merchant, metadata={"source": "web"})
    await asyncio.sleep(0.003)
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    await made(merchant, f"{SUBSCRIPTIONS}/{started['id']}/cancel", {"atPeriodEnd": False})
    assert (await merchant.client.delete(f"{CUSTOMERS}/ana", headers=merchant.key)).status_code == 200
    (row,) = (await as_of_list(merchant, SUBSCRIPTIONS, at))["data"]
    assert (row["status"], row["metadata"]) == ("ACTIVE", None)
