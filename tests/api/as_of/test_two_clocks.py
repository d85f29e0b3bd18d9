"""Lists of the past where two processes record events by clocks that are 50 ms apart."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.as_of.conftest import LateClocks
from tests.api.as_of.test_past_lists import as_of_list
from tests.api.as_of.test_past_reads import CLOCK, as_of
from tests.api.as_of.test_summary import SUMMARY
from tests.api.bodies import order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import made

pytestmark = pytest.mark.anyio


async def test_everything_of_one_time_agrees_whichever_process_recorded_it(merchant: Merchant, late: Storefront):
    by_late = Merchant(merchant.merchant_id, merchant.secret, late.client)
    created: list[dict[str, Any]] = []
    for n in range(6):
        for process, name in ((merchant, "first"), (by_late, "late")):
            created.append((await process.create(order(externalId=f"{name}-{n}"))).json())
            if n:
                created.append(await made(process, f"{ORDERS}/{name}-{n - 1}/cancel", {}))
    await asyncio.sleep(0.1)
    times = sorted({datetime.fromisoformat(each["updatedAt"]).astimezone(UTC) for each in created})
    lacking, before = 0, -1
    for at in [times[0] - timedelta(seconds=1), *times]:
        page = await as_of_list(merchant, f"{ORDERS}?limit=100", at)
        assert page == await as_of_list(by_late, f"{ORDERS}?limit=100", at)
        assert page["position"] >= before
        before = page["position"]
        assert page["pagination"]["total"] == len(page["data"])
        for each in page["data"]:
            alone = (await as_of(merchant, f"{ORDERS}/{each['id']}", at)).json()
            assert alone["position"] == page["position"]
            assert {name: alone[name] for name in each} == each
        summary = (await as_of(merchant, SUMMARY, at)).json()
        assert summary["position"] == page["position"]
        statuses = [each["status"] for each in page["data"]]
        assert {line["status"]: line["orders"] for line in summary["orders"]} == {
            status: statuses.count(status) for status in statuses
        }
        for status in ("PENDING", "CANCELLED"):
            listed = await as_of_list(merchant, f"{ORDERS}?limit=100&status={status}", at)
            assert listed["data"] == [each for each in page["data"] if each["status"] == status]
            assert listed["pagination"]["total"] == statuses.count(status)
        shown = {each["id"] for each in page["data"]}
        lacking += sum(
            datetime.fromisoformat(each["createdAt"]) <= at and each["id"] not in shown
            for each in created
            if each["status"] == "PENDING"
        )
    assert lacking, "an order of the late process comes behind later events, and is not there before them"


async def test_an_order_recorded_by_a_clock_that_is_far_behind_fails_no_list(
    merchant: Merchant, late: Storefront, monkeypatch: pytest.MonkeyPatch
):
    """So far that it is not looked for: it was created before the time, and its event lies behind the place of it."""
    monkeypatch.setattr(LateClocks, "behind", timedelta(seconds=30))
    by_late = Merchant(merchant.merchant_id, merchant.secret, late.client)
    await merchant.create(order(externalId="first"))
    await asyncio.sleep(0.01)
    at = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await merchant.create(order(externalId="second"))
    created = (await by_late.create(order(externalId="late"))).json()
    assert datetime.fromisoformat(created["createdAt"]) < at
    for query in ("status=PENDING", "amountMin=1&sortOrder=asc"):
        page = await as_of_list(merchant, f"{ORDERS}?{query}", at)
        assert ([each["externalId"] for each in page["data"]], page["pagination"]["total"]) == (["first"], 1), query


async def test_an_order_that_a_move_of_the_clock_overtakes_is_in_no_earlier_list(
    merchant: Merchant, late: Storefront, monkeypatch: pytest.MonkeyPatch
):
    """Its request had read the clock before the move, and is recorded behind the first order after it."""
    await merchant.create(order(externalId="first"))
    await made(merchant, CLOCK, {"advanceBy": "P10D"})
    await merchant.create(order(externalId="second"))
    monkeypatch.setattr(LateClocks, "behind", timedelta(days=10))
    created = await Merchant(merchant.merchant_id, merchant.secret, late.client).create(order(externalId="overtaken"))
    await merchant.create(order(externalId="third"))
    at = datetime.now(UTC) + timedelta(days=5)
    assert datetime.fromisoformat(created.json()["createdAt"]) < at
    for query in ("limit=5", "status=PENDING", "sortOrder=asc&limit=1"):
        page = await as_of_list(merchant, f"{ORDERS}?{query}", at)
        assert ([each["externalId"] for each in page["data"]], page["pagination"]["total"]) == (["first"], 1), query
    assert [each["orders"] for each in (await as_of(merchant, SUMMARY, at)).json()["orders"]] == [1]
