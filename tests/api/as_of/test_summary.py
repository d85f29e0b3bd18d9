"""The summary over HTTP: it agrees with the list, and is the same when it is asked for again later."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.api.as_of.test_past_reads import as_of, now_of
from tests.api.bodies import charge, order, paid_order
from tests.api.isolation.objects import objects_of
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import SUBSCRIPTIONS, made, shown

from projections.as_of.reports import ReportClient
from projections.as_of.summaries import SummaryReader
from projections.events.states import StateReader

pytestmark = pytest.mark.anyio

SUMMARY = "/api/v1/summary"


async def listed(merchant: Merchant) -> dict[tuple[str, str], list[int]]:
    """Returns the sums that the list of orders gives."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 5)
    page: dict[str, Any] = {"pagination": {"nextCursor": None}}
    while True:
        cursor = page["pagination"]["nextCursor"]
        page = await shown(merchant, f"{ORDERS}?limit=100" + (f"&cursor={cursor}" if cursor else ""))
        for each in page["data"]:
            added = (1, *(each[name] for name in ("amount", "amountPaid", "amountRefunded", "amountPending")))
            line = sums[each["currency"], each["status"]]
            line[:] = map(sum, zip(line, added, strict=True))
        if not page["pagination"]["hasMore"]:
            return dict(sums)


def summed(summary: dict[str, Any]) -> dict[tuple[str, str], list[int]]:
    names = ("orders", "amount", "amountPaid", "amountRefunded", "amountPending")
    return {(line["currency"], line["status"]): [line[name] for name in names] for line in summary["orders"]}


async def test_the_summary_is_that_of_the_list_at_every_time(merchant: Merchant):
    kept: list[tuple[datetime, bytes]] = []

    async def keep() -> None:
        await asyncio.sleep(0.003)
        answer = await merchant.get(SUMMARY)
        assert answer.status_code == 200, answer.text
        assert summed(answer.json()) == await listed(merchant)
        subscriptions = (await shown(merchant, f"{SUBSCRIPTIONS}?limit=100"))["data"]
        counted = {line["status"]: line["subscriptions"] for line in answer.json()["subscriptions"]}
        statuses = [each["status"] for each in subscriptions]
        assert counted == {status: statuses.count(status) for status in statuses}
        kept.append((datetime.fromisoformat(answer.json()["asOf"]), answer.content))
        await asyncio.sleep(0.003)

    await keep()
    split = await made(merchant, ORDERS, order(allowPartials=True))
    await keep()
    await objects_of(merchant, "any")
    await keep()
    await made(merchant, f"{ORDERS}/{split['id']}/payments", charge(amount=50_000))
    await made(merchant, ORDERS, paid_order(externalId="dollars", currency="USD"))
    await keep()
    await made(merchant, f"{ORDERS}/{split['id']}/refund", {"amount": 1_001})
    moved = await merchant.post("/api/sandbox/clock", {"advanceBy": "P31D"})
    assert moved.status_code == 200, moved.text
    await keep()
    for at, content in kept:
        again = await as_of(merchant, SUMMARY, at.astimezone(UTC))
        assert again.content == content


async def test_a_summary_that_would_take_too_long_is_refused(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    started = await now_of(merchant)
    await asyncio.sleep(0.003)
    for n in range(3):
        await merchant.create(order(externalId=f"order-{n}"))
    before = await now_of(merchant)
    await asyncio.sleep(0.003)
    for n in range(3):
        await made(merchant, f"{ORDERS}/order-{n}/cancel", {})
    monkeypatch.setattr("projections.as_of.summaries.FOLDED_MAX", 2)
    refused = await as_of(merchant, SUMMARY, before)
    assert (refused.status_code, refused.json()["code"], refused.json()["orders"]) == (422, "REPORT_TOO_LARGE", 3)
    empty = (await as_of(merchant, SUMMARY, started)).json()
    assert (empty["orders"], empty["subscriptions"]) == ([], [])
    assert summed((await merchant.get(SUMMARY)).json())["MXN", "CANCELLED"][0] == 3
    monkeypatch.setattr("projections.as_of.summaries._SUMMED_MAX", 2)
    assert (await merchant.get(SUMMARY)).json()["code"] == "REPORT_TOO_LARGE"
    assert (await as_of(merchant, SUMMARY, started)).json() == empty  # orders that came later need no sum


async def test_many_summaries_of_one_merchant_delay_another_by_one_alone(store: Storefront, merchant: Merchant):
    other, ledger, answered = await store.register(), store.ledger, []
    reports = ReportClient(store.settings.database_url or "")
    summaries = SummaryReader(reports, StateReader(ledger.journal.reader, ledger.slices))

    async def ask(one: Merchant) -> None:
        await summaries.summary(one.merchant_id, None, ledger.clock.now(one.merchant_id))
        answered.append(one)

    asking = [asyncio.create_task(ask(one)) for one in (merchant, merchant, merchant, other)]
    await asyncio.gather(*asking)
    await reports.stop()
    assert answered == [merchant, other, merchant, merchant]


async def test_what_is_asked_for_is_checked(store: Storefront, merchant: Merchant):
    await merchant.create(paid_order())
    for query, field in (
        ("asOf=x", "asOf"),
        ("asOf=", "asOf"),
        ("asOf", "asOf"),
        ("asOf=2999-01-01T00:00:00Z", "asOf"),
        ("version=1", "version"),
    ):
        answer = await merchant.get(f"{SUMMARY}?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    for early in ("0001-01-01T00:00:00Z", "2020-01-01T00:00:00Z"):
        assert (await as_of(merchant, SUMMARY, early)).json()["orders"] == []
    stranger = await store.register()
    assert (await stranger.get(SUMMARY)).json()["orders"] == []
    reader = await store.another_key(merchant, scopes=("orders:read",))
    assert (await reader.get(SUMMARY)).json()["code"] == "INSUFFICIENT_SCOPE"
