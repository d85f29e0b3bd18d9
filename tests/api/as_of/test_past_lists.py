"""Lists of the past over HTTP: the pages and totals of then, under every filter."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from tests.api.as_of.test_past_reads import CLOCK, CUSTOMERS, as_of, now_of, refused
from tests.api.as_of.test_summary import SUMMARY, summed
from tests.api.bodies import by_card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import made, shown

from ledger.domain.orders.statuses import OrderStatus
from projections.as_of.orders import PastOrderReader
from projections.as_of.reports import ReportClient, SnapshotClient
from projections.events.states import StateReader
from projections.formats import moment
from projections.lists.pages import OrderQuery

pytestmark = pytest.mark.anyio

FILTERS = (
    "",
    "status=PENDING",
    "status=COMPLETED,PARTIALLY_REFUNDED,PENDING",
    "sortOrder=asc",
    "status=PENDING,CANCELLED&sortOrder=asc",
    "customerId=ana",
    "customerId=ana&includeRelatedCustomers=true",
    "customerId=eva&includeRelatedCustomers=true&status=PENDING",
    "email=ana@example.com",
    "email=ANNA@example.com&status=PENDING",
    "email=ana@example.com&customerId=eva",
    "externalId=order-1",
    "externalId=order-1&status=PENDING",
    "currency=USD",
    "currency=MXN&status=PENDING",
    "amountMin=100000&amountMax=150000",
    "paymentMethodType=card",
    "last4=4242",
    "last4=4242&status=COMPLETED",
    "excludeOverdue=true",
    "excludeOverdue=true&status=PENDING&sortOrder=asc",
    "excludeOverdue=true&customerId=ana",
    "dateTo=2100-01-01&dateFrom=2020-01-01&status=PENDING",
    "page=2",
    "offset=1&status=PENDING,COMPLETED",
)


def without_cursor(page: dict[str, Any]) -> dict[str, Any]:
    return {**page, "pagination": {**page["pagination"], "nextCursor": None}}


class Lists:
    """What a merchant's lists answered at several times, to be asked for again later."""

    def __init__(self, merchant: Merchant, paths: tuple[str, ...]) -> None:
        self._merchant, self._paths = merchant, paths
        self._kept: list[tuple[datetime, dict[str, dict[str, Any]]]] = []

    async def keep(self) -> None:
        """Reads each list now. Nothing else is recorded in the same millisecond."""
        await asyncio.sleep(0.003)
        pages = {path: await shown(self._merchant, path) for path in self._paths}
        self._kept.append((await now_of(self._merchant), pages))
        await asyncio.sleep(0.003)

    async def assert_equal(self) -> None:
        assert self._kept
        for at, pages in self._kept:
            for path, page in pages.items():
                answer = await as_of_list(self._merchant, path, at)
                assert answer.pop("asOf") == moment(at.astimezone(UTC))
                assert answer.pop("position") >= 0
                assert without_cursor(answer) == without_cursor(page), path


async def as_of_list(merchant: Merchant, path: str, at: datetime) -> dict[str, Any]:
    sign = "&" if "?" in path else "?"
    return await shown(merchant, f"{path}{sign}asOf={quote(moment(at.astimezone(UTC)))}")


def lists_of_orders() -> tuple[str, ...]:
    return tuple(f"{ORDERS}?limit=2&{query}" for query in FILTERS)


async def changed_again_and_again(merchant: Merchant, lists: Lists) -> None:
    """Makes and changes orders and their customers; the lists are kept in between."""
    await lists.keep()
    due = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    for n in range(3):
        await merchant.create(order(externalId=f"order-{n}", dueDate=due if n else None, allowPartials=True))
    await lists.keep()
    eva = {"externalId": "eva", "firstName": "Eva", "email": "eva@example.com", "sourceId": "ana"}
    await merchant.create(paid_order(externalId="dollars", currency="USD", customer=eva))
    await lists.keep()
    await made(merchant, f"{ORDERS}/order-1/payments", charge(amount=50_000))
    await merchant.put(f"{CUSTOMERS}/ana", {"firstName": "Anna", "email": "anna@example.com"})
    await lists.keep()
    await made(merchant, f"{ORDERS}/dollars/refund", {"amount": 1_001})
    await made(merchant, f"{ORDERS}/order-2/cancel", {})
    await merchant.put(f"{CUSTOMERS}/eva", {"sourceId": None})
    await lists.keep()
    moved = await merchant.post(CLOCK, {"advanceBy": "P3D"})
    assert moved.status_code == 200, moved.text
    await lists.keep()
    undated = await merchant.client.patch(f"{ORDERS}/order-1", json={"dueDate": None}, headers=merchant.key)
    assert undated.status_code == 200, undated.text
    mastercard = by_card(
        cardDetails={"number": "5555555555554444", "expiryMonth": "12", "expiryYear": "34", "cvc": "123"}
    )
    await made(merchant, f"{ORDERS}/order-1/payments", charge(amount=20_000, paymentMethod=mastercard))
    await lists.keep()


async def test_every_list_of_orders_is_that_of_then(merchant: Merchant):
    lists = Lists(merchant, lists_of_orders())
    await changed_again_and_again(merchant, lists)
    await lists.assert_equal()


async def test_a_list_is_the_same_if_all_orders_that_existed_are_folded(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    lists = Lists(merchant, tuple(path for path in lists_of_orders() if "email" not in path))
    await changed_again_and_again(merchant, lists)
    monkeypatch.setattr("projections.as_of.snapshots._SCANNED_PER_FOLD", 0)
    await lists.assert_equal()


async def test_list_total_summary_and_orders_of_one_time_agree(merchant: Merchant):
    await merchant.create(order(allowPartials=True))
    await merchant.create(paid_order(externalId="dollars", currency="USD"))
    await asyncio.sleep(0.003)
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    await made(merchant, f"{ORDERS}/order-1/payments", charge(amount=50_000))
    await made(merchant, f"{ORDERS}/dollars/refund", {"amount": 1_001})
    await merchant.put(f"{CUSTOMERS}/ana", {"firstName": "Anna"})
    page = await as_of_list(merchant, ORDERS, at)
    summary = (await as_of(merchant, SUMMARY, at)).json()
    lines = {(each["currency"], each["status"]): [1, each["amount"], *_paid(each)] for each in page["data"]}
    assert lines == summed(summary)
    assert (page["asOf"], page["position"]) == (summary["asOf"], summary["position"])
    for each in page["data"]:
        alone = (await as_of(merchant, f"{ORDERS}/{each['id']}", at)).json()
        assert alone.pop("version") > 0
        assert (alone.pop("asOf"), alone.pop("position")) == (page["asOf"], page["position"])
        assert alone | {"payments": []} == each
    for line in summary["orders"]:
        total = (await as_of_list(merchant, f"{ORDERS}?status={line['status']}", at))["pagination"]["total"]
        assert total == line["orders"]


def _paid(each: dict[str, Any]) -> list[int]:
    return [each[name] for name in ("amountPaid", "amountRefunded", "amountPending")]


@pytest.mark.parametrize("query", ["", "&status=PENDING", "&sortOrder=asc", "&status=PENDING&sortOrder=asc"])
async def test_the_pages_of_a_time_go_on_from_their_cursors(merchant: Merchant, query: str):
    for n in range(5):
        await merchant.create(order(externalId=f"order-{n}"))
    await asyncio.sleep(0.003)
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    for n in (0, 2, 4):
        await made(merchant, f"{ORDERS}/order-{n}/cancel", {})
    await merchant.create(order(externalId="later"))
    found, cursor = [], ""
    for number in range(3):
        page = await as_of_list(merchant, f"{ORDERS}?limit=2{query}{cursor}", at)
        pagination = page["pagination"]
        assert (pagination["total"], pagination["offset"], pagination["page"]) == (5, 2 * number, number + 1)
        found += [(each["externalId"], each["status"]) for each in page["data"]]
        cursor = f"&cursor={pagination['nextCursor']}"
    assert pagination["nextCursor"] is None
    newest_first = [(f"order-{n}", "PENDING") for n in (4, 3, 2, 1, 0)]
    assert found == (newest_first[::-1] if "asc" in query else newest_first)


async def test_a_cursor_belongs_to_its_time(merchant: Merchant):
    for n in range(3):
        await merchant.create(order(externalId=f"order-{n}"))
    at = moment((await now_of(merchant)).astimezone(UTC))
    await asyncio.sleep(0.003)
    other = moment((await now_of(merchant)).astimezone(UTC))
    of_then = (await shown(merchant, f"{ORDERS}?limit=1&asOf={at}"))["pagination"]["nextCursor"]
    of_now = (await shown(merchant, f"{ORDERS}?limit=1"))["pagination"]["nextCursor"]
    assert (await merchant.get(f"{ORDERS}?limit=1&asOf={at}&cursor={of_then}")).status_code == 200
    for query in (f"cursor={of_then}", f"asOf={other}&cursor={of_then}", f"asOf={at}&cursor={of_now}"):
        answer = await merchant.get(f"{ORDERS}?limit=1&{query}")
        assert refused(answer) == (400, "VALIDATION_ERROR", ["cursor"]), query
        assert "asOf" in answer.text
    for wrong in ("x", ""):
        refusal = refused(await merchant.get(f"{ORDERS}?asOf={wrong}&cursor={of_then}"))
        assert refusal == (400, "VALIDATION_ERROR", ["asOf"])


async def test_what_is_asked_for_is_checked(store: Storefront, merchant: Merchant):
    await merchant.create(order())
    now = await now_of(merchant)
    for text in ("yesterday", "2026-01-31", "2026-13-01T00:00:00Z", now + timedelta(hours=1)):
        assert refused(await as_of(merchant, ORDERS, text)) == (400, "VALIDATION_ERROR", ["asOf"])
    at = moment(now.astimezone(UTC))
    search = await merchant.get(f"{ORDERS}?search=ana&asOf={at}")
    assert refused(search) == (400, "CONFLICTING_FIELDS", ["search", "asOf"])
    assert refused(await merchant.get(f"{ORDERS}?version=1"))[:2] == (400, "UNKNOWN_PARAMETER")
    for early in ("0001-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"):
        page = (await as_of(merchant, f"{ORDERS}", early)).json()
        assert (page["data"], page["pagination"]["total"], page["position"]) == ([], 0, 0)
        assert (await as_of(merchant, f"{ORDERS}?status=PENDING", early)).json()["data"] == []
    stranger = await store.register()
    hidden = await shown(stranger, f"{ORDERS}?asOf={at}&customerId=ana")
    assert (hidden["data"], hidden["pagination"]["total"]) == ([], 0)
    for name in ("customerId", "externalId", "email"):
        assert (await shown(merchant, f"{ORDERS}?asOf={at}&{name}=%00"))["data"] == []


async def test_a_list_that_would_take_too_long_is_refused(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    for n in range(3):
        await merchant.create(order(externalId=f"order-{n}"))
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    for n in range(3):
        await made(merchant, f"{ORDERS}/order-{n}/cancel", {})
    for module in ("orders", "snapshots"):
        monkeypatch.setattr(f"projections.as_of.{module}.FOLDED_MAX", 2)
    answer = await merchant.get(f"{ORDERS}?status=PENDING&asOf={quote(moment(at.astimezone(UTC)))}")
    assert (answer.status_code, answer.json()["code"], answer.json()["orders"]) == (422, "REPORT_TOO_LARGE", 3)
    assert "ledger export" in answer.json()["message"]
    assert (await as_of_list(merchant, ORDERS, at))["pagination"]["total"] == 3, "it needs no fold of all"
    assert (await as_of_list(merchant, f"{ORDERS}?status=PENDING&customerId=nobody", at))["data"] == []


@pytest.mark.parametrize("statuses", [(), (OrderStatus.PENDING,)])
async def test_many_lists_of_one_merchant_delay_another_by_one_alone(
    store: Storefront, merchant: Merchant, statuses: tuple[OrderStatus, ...]
):
    url, ledger = store.settings.database_url or "", store.ledger
    past, reports = SnapshotClient(url, "ledger-past"), ReportClient(url)
    orders = PastOrderReader(past, reports, StateReader(ledger.journal.reader, ledger.slices))
    other, answered = await store.register(), list[Merchant]()

    async def ask(one: Merchant) -> None:
        await orders.page(one.merchant_id, OrderQuery(statuses=statuses, as_of=ledger.clock.now(one.merchant_id)))
        answered.append(one)

    await asyncio.gather(*[ask(one) for one in (merchant, merchant, merchant, other)])
    for client in (past, reports):
        await client.stop()
    assert answered == [merchant, other, merchant, merchant]


async def test_an_erased_customer_is_erased_on_every_page(merchant: Merchant):
    await merchant.create(order())
    at = await now_of(merchant)
    await asyncio.sleep(0.003)
    await made(merchant, f"{ORDERS}/order-1/cancel", {})
    assert (await merchant.client.delete(f"{CUSTOMERS}/ana", headers=merchant.key)).status_code == 200
    page = await as_of_list(merchant, ORDERS, at)
    (row,) = page["data"]
    assert (row["status"], row["customer"]["firstName"], row["customer"]["email"]) == ("PENDING", None, None)
    assert (await as_of_list(merchant, f"{ORDERS}?email=ana@example.com", at))["data"] == []
