"""The filters and the search of the order list over HTTP: names, errors, hostile values, and orders found right after their 201."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.api.bodies import NOW, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

from api.errors import ApiError
from api.orders.list import parse_order_query
from ledger.domain.orders.terms import MethodType
from projections.lists.pages import OrderQuery

HOSTILE = [
    "'", "''", '"', "`", "\\", "\\\\", "%", "_", "%%", "\\%", "--", "/*", "';--", "' or '1'='1", '" or ""="',
    "'; drop table payment_order; --", "1; select pg_sleep(9)", "$1", "%s", "%(merchant_id)s", "{0}", "{direction}",
    "\0", "a\0b", "\n", "\x1f", "\x7f", "\ud7ff", "\ufffe", "\U0010ffff", "🦄", "İ", "ß", "ﷺ", "e\u0301", "\u202e",
    "null", "None", "true", "TRUE", "1e400", "-1", "0x10", "9223372036854775808", "a" * 255, "a" * 256, "%" * 255,
    "_" * 255, "\\" * 255, "ß" * 255, " ", "\t", "..", "/", "?", "#", "&", "=", ";", ",", "[]", "()", "{}", "^.*$",
]  # fmt: skip
NAMES = [
    "customerId", "includeRelatedCustomers", "excludeOverdue", "status", "dateFrom", "dateTo", "startDate", "endDate", "search",
    "page", "limit", "offset", "cursor", "sortField", "sortOrder",
    "externalId", "email", "currency", "amountMin", "amountMax", "paymentMethodType", "last4",
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("includeRelatedCustomers=yes", "includeRelatedCustomers"),
        ("includeRelatedCustomers=True", "includeRelatedCustomers"),
        ("excludeOverdue=1", "excludeOverdue"),
        ("excludeOverdue=true&excludeOverdue=false", "excludeOverdue"),
        ("customerId=a&customerId=b", "customerId"),
        ("search=a&search=b", "search"),
        (f"search={'x' * 256}", "search"),
        (f"customerId={'x' * 256}", "customerId"),
        ("dateFrom=2026-02-02&dateTo=2026-02-01", "dateTo"),
        ("amountMin=2&amountMax=1", "amountMax"),
        ("amountMin=-1", "amountMin"),
        ("amountMax=1e3", "amountMax"),
        ("amountMax=1.00001", "amountMax"),
        ("amountMin=1&amountMin=2", "amountMin"),
        ("currency=EUR", "currency"),
        ("paymentMethodType=CARD,CHECK", "paymentMethodType"),
        ("last4=424", "last4"),
        ("last4=42424", "last4"),
        ("last4=%D9%A4%D9%A2%D9%A4%D9%A2", "last4"),
        (f"externalId={'x' * 256}", "externalId"),
        (f"email={'x' * 256}", "email"),
        ("startDate=2026-02-02T00:00:01Z&endDate=2026-02-02T00:00:00Z", "dateTo"),
    ],
)
def test_a_filter_that_is_not_understood_is_refused(query: str, field: str):
    with pytest.raises(ApiError) as caught:
        parse_order_query(query.encode(), NOW)
    assert caught.value.status == 400
    assert caught.value.errors[0].field == field


def test_filters_are_read_as_they_were_sent():
    query = parse_order_query(
        b"customerId=cliente%20%26%201&includeRelatedCustomers=true&excludeOverdue=true&search=%25_%5C+x", NOW
    )
    assert (query.customer, query.related, query.exclude_overdue, query.search) == ("cliente & 1", True, True, "%_\\ x")
    assert parse_order_query(b"search=&customerId=&excludeOverdue=", NOW) == parse_order_query(b"", NOW)


def test_filters_by_the_terms_of_an_order_are_read_in_any_case():
    query = parse_order_query(
        b"externalId=a%26b&email=Ana%40example.com&currency=usd&amountMin=150.75&amountMax=150.750"
        b"&paymentMethodType=card&paymentMethodType=spei,Paycash&last4=0007",
        NOW,
    )
    assert (query.external_id, query.email, query.currency, query.last4) == ("a&b", "Ana@example.com", "USD", "0007")
    assert query.amount_min == query.amount_max == Decimal("150.75")
    assert query.methods == (MethodType.CARD, MethodType.SPEI, MethodType.PAYCASH)
    assert parse_order_query(b"externalId=&email=&currency=&amountMin=&paymentMethodType=&last4=", NOW) == OrderQuery()


@pytest.mark.anyio
async def test_orders_are_listed_by_their_terms_and_payments(merchant: Merchant):
    ana = {"externalId": "ana", "email": "Ana@Example.com"}
    await merchant.create(paid_order(externalId="card", customer=ana, amount=284870))
    await merchant.create(
        paid_order(externalId="spei", paymentMethod={"type": "spei"}, amount=100, customer={"externalId": "eva"})
    )
    await merchant.create(order(externalId="dollars", currency="USD", amount=150.75, customer=ana))

    async def listed(query: str) -> list[str]:
        answer = await merchant.get(f"{ORDERS}?sortOrder=asc&{query}")
        page = answer.json()
        assert page["pagination"]["total"] == len(page["data"]), answer.text
        return [row["externalId"] for row in page["data"]]

    assert await listed("externalId=spei") == ["spei"]
    assert await listed("externalId=spei&currency=USD") == []
    assert await listed("email=ana@example.COM") == ["card", "dollars"]
    assert await listed("email=ana@example.com&customerId=ana&currency=MXN") == ["card"]
    assert await listed("currency=usd") == ["dollars"]
    assert await listed("amountMin=284870&amountMax=284870") == ["card"]
    assert await listed("amountMax=150.75") == ["spei", "dollars"]
    assert await listed("paymentMethodType=CARD,SPEI") == ["card", "spei"]
    assert await listed("last4=4242") == ["card"]
    assert await listed("last4=4242&status=FAILED") == []
    assert await listed("last4=4243") == []


@pytest.mark.anyio
async def test_an_order_is_found_by_each_of_the_four_fields_right_after_its_201(merchant: Merchant):
    person = {"externalId": "cliente-7", "email": "Zoë.Núñez@example.com"}
    made = (await merchant.create(order(externalId="Ref/100%_A", invoiceNumber="FÄC-9", customer=person))).json()
    for term in (made["orderNumber"][2:9].lower(), "fäC-9", "ref/100%_a", "NÚÑEZ@"):
        found = (await merchant.get(f"{ORDERS}?search={quote(term, safe='')}")).json()
        assert [row["id"] for row in found["data"]] == [made["id"]], term
        assert found["pagination"]["total"] == 1
    for term in ("100_", "ref/100%%", "cliente-7", "MXN"):
        assert (await merchant.get(f"{ORDERS}?search={quote(term, safe='')}")).json()["data"] == [], term


@pytest.mark.anyio
async def test_a_search_follows_the_customer_to_another_address(merchant: Merchant):
    person = {"externalId": "cliente-7", "email": "before@example.com"}
    await merchant.create(order(externalId="one", customer=person))
    await merchant.create(order(externalId="two", customer=person | {"email": "after@example.com"}))
    assert (await merchant.get(f"{ORDERS}?search=before@")).json()["pagination"]["total"] == 0
    assert (await merchant.get(f"{ORDERS}?search=AFTER@")).json()["pagination"]["total"] == 2


@pytest.mark.anyio
async def test_orders_are_listed_by_customer_and_by_due_date(merchant: Merchant):
    for n, due in enumerate([None, "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"]):
        terms: dict[str, Any] = {} if due is None else {"dueDate": due}
        await merchant.create(order(externalId=f"order-{n}", customer={"externalId": f"c-{n % 2}"}, **terms))

    async def listed(query: str) -> list[str]:
        page = (await merchant.get(f"{ORDERS}?sortOrder=asc&{query}")).json()
        assert page["pagination"]["total"] == len(page["data"])
        return [row["externalId"] for row in page["data"]]

    assert await listed("customerId=c-0") == ["order-0", "order-2"]
    customer_id = (await merchant.get(f"{ORDERS}/order-1")).json()["customer"]["id"]
    assert await listed(f"customerId={customer_id}&includeRelatedCustomers=true") == ["order-1"]
    assert await listed("excludeOverdue=true") == ["order-0", "order-2"]
    assert await listed("excludeOverdue=true&customerId=c-1") == []
    assert await listed("customerId=nobody&includeRelatedCustomers=true") == []
    assert await listed("excludeOverdue=false&includeRelatedCustomers=true") == ["order-0", "order-1", "order-2"]


@pytest.mark.anyio
async def test_another_merchants_customer_is_like_an_unknown_one(store: Storefront, merchant: Merchant):
    other = await store.register()
    theirs = (await other.create(order(externalId="theirs", customer={"externalId": "shared"}))).json()
    await merchant.create(order(externalId="mine", customer={"externalId": "mine"}))
    for query in (f"customerId={theirs['customer']['id']}", "customerId=shared", "search=theirs"):
        found = (await merchant.get(f"{ORDERS}?{query}")).json()
        unknown = (await merchant.get(f"{ORDERS}?customerId=01890a5d-ac96-774b-bcce-b302099a8057")).json()
        assert found == unknown


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_hostile_values_are_values(merchant: Merchant, name: str):
    await merchant.create(order(externalId="only"))
    for value in HOSTILE:
        for query in ({name: value}, {name: value, "search": "only", "excludeOverdue": "true"}):
            encoded = urlencode(query, errors="surrogatepass")
            answer = await merchant.get(f"{ORDERS}?{encoded}")
            assert answer.status_code in (200, 400), (query, answer.text)
            assert answer.elapsed.total_seconds() < 3
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "query", ["search=only", "customerId=c", "status=PENDING", "excludeOverdue=true", "amountMin=1", "externalId=only"]
)
async def test_pages_far_beyond_the_end_are_empty_and_still_count(merchant: Merchant, query: str):
    await merchant.create(order(externalId="only", customer={"externalId": "c"}))
    for place in ("offset=999999999", "page=999999999&limit=100", "offset=1", "page=2"):
        page = (await merchant.get(f"{ORDERS}?{query}&{place}")).json()
        assert (page["data"], page["pagination"]["total"], page["pagination"]["hasMore"]) == ([], 1, False)
