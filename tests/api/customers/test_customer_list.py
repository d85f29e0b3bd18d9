"""GET /customers: filters, search, and both ways to go through the pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.customers.test_customer_routes import CUSTOMERS, created
from tests.api.openapi.description import assert_described
from tests.api.storefront import Merchant, Storefront

from api.customers.list import PARAMETERS, parse_customer_query
from api.decoding.field_errors import FieldErrors
from api.errors import ApiError
from projections.lists.customers import CUSTOMER_CURSORS, CustomerCursor

pytestmark = pytest.mark.anyio


@pytest.fixture
async def seven(merchant: Merchant) -> Merchant:
    """The merchant with the customers c-0 to c-6, of which c-2 is erased."""
    for n in range(7):
        await created(
            merchant, externalId=f"c-{n}", firstName="Ana", lastName=f"López {n}", email=f"Ana{n}@Example.com"
        )
    assert (await merchant.delete(f"{CUSTOMERS}/c-2")).status_code == 200
    return merchant


async def listed(merchant: Merchant, query: str) -> dict[str, Any]:
    answer = await merchant.get(f"{CUSTOMERS}?{query}")
    assert answer.status_code == 200, answer.text
    assert_described(answer, "get", CUSTOMERS)
    return dict(answer.json())


def names(page: dict[str, Any]) -> list[str]:
    return [customer["externalId"] for customer in page["data"]]


async def test_the_list_is_newest_first_without_the_erased(seven: Merchant):
    page = await listed(seven, "")
    assert names(page) == ["c-6", "c-5", "c-4", "c-3", "c-1", "c-0"]
    assert page["pagination"] == {
        "page": 1, "limit": 20, "offset": 0, "total": 6, "count": 6, "totalPages": 1, "hasMore": False,
        "nextCursor": None,
    }  # fmt: skip
    assert page["data"][0]["notificationPreferences"]["language"] == "es"


async def test_pages_by_offset_by_number_and_by_cursor_are_the_same(seven: Merchant):
    first = await listed(seven, "limit=4")
    assert (names(first), first["pagination"]["totalPages"]) == (["c-6", "c-5", "c-4", "c-3"], 2)
    by_offset, by_number = await listed(seven, "limit=4&offset=4"), await listed(seven, "limit=4&page=2")
    by_cursor = await listed(seven, f"limit=4&cursor={first['pagination']['nextCursor']}")
    assert names(by_offset) == ["c-1", "c-0"]
    assert by_offset == by_number == by_cursor
    assert by_offset["pagination"] == {
        "page": 2, "limit": 4, "offset": 4, "total": 6, "count": 2, "totalPages": 2, "hasMore": False,
        "nextCursor": None,
    }  # fmt: skip
    assert (await listed(seven, "limit=4&offset=40"))["pagination"]["total"] == 6


async def test_a_cursor_neither_repeats_nor_skips_where_customers_come_and_go(seven: Merchant):
    first = await listed(seven, "limit=2")
    await created(seven, externalId="new")
    await seven.delete(f"{CUSTOMERS}/c-6")
    after = await listed(seven, f"limit=9&cursor={first['pagination']['nextCursor']}")
    assert names(after) == ["c-4", "c-3", "c-1", "c-0"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("email=ana3@example.com", ["c-3"]),
        ("email=ana2@example.com", []),
        ("email=ana", []),
        ("externalId=c-4", ["c-4"]),
        ("externalId=C-4", []),
        ("externalId=c-2", []),
        ("externalId=c-4&email=ana4@example.com", ["c-4"]),
        ("externalId=c-4&email=ana3@example.com", []),
        ("search=C-5", ["c-5"]),
        ("search=ana%20L%C3%93PEZ%203", ["c-3"]),
        ("search=ana%20lopez%203", ["c-3"]),
        ("search=%C3%A1na%20lop%C3%A8z%203", ["c-3"]),
        ("search=ana%20lo%CC%81pez%203", ["c-3"]),
        ("search=ana.l%C3%B3pez", []),
        ("search=3%20L%C3%93PEZ%20ana%20%20C-3", ["c-3"]),
        ("search=lopez%20hernandez", []),
        ("search=6@EXAMPLE", ["c-6"]),
        ("search=%25", []),
        ("search=a%1Fb", []),
        ("search=L%C3%B3pez&limit=2&offset=2", ["c-4", "c-3"]),
        ("externalId=%00&email=%00", []),
    ],
)
async def test_filters_find_what_they_name(seven: Merchant, query: str, found: list[str]):
    page = await listed(seven, query)
    assert names(page) == found
    assert page["pagination"]["total"] == (6 if "offset" in query else len(found))


async def test_a_search_goes_on_behind_a_cursor_and_finds_phones(seven: Merchant):
    await seven.put(f"{CUSTOMERS}/c-0", {"phoneNumber": "+52 33 1234"})
    assert names(await listed(seven, "search=33%2012")) == ["c-0"]
    first = await listed(seven, "search=ana&limit=4")
    rest = await listed(seven, f"search=ana&limit=4&cursor={first['pagination']['nextCursor']}")
    assert (names(rest), rest["pagination"]["total"], rest["pagination"]["offset"]) == (["c-1", "c-0"], 6, 4)


async def test_a_changed_detail_is_found_at_once_and_the_old_one_is_not(seven: Merchant):
    await seven.put(f"{CUSTOMERS}/c-3", {"email": "eva@example.org", "firstName": None})
    assert names(await listed(seven, "email=EVA@example.org")) == ["c-3"]
    assert names(await listed(seven, "email=ana3@example.com")) == []
    assert names(await listed(seven, "search=ana%20l%C3%B3pez%203")) == []


async def test_an_email_finds_no_customer_of_another_merchant(store: Storefront, merchant: Merchant):
    await created(await store.register(), email="theirs@example.com")
    assert (await listed(merchant, "email=theirs@example.com"))["data"] == []


def test_every_wrong_parameter_is_named_at_once():
    with pytest.raises(ApiError) as refused:
        parse_customer_query(b"page=0&limit=101&cursor=x&email=" + b"a" * 256)
    assert [each.field for each in refused.value.errors] == ["page", "limit", "cursor", "email"]
    for query, fields in (
        (b"page=1&offset=0", ["page", "offset"]),
        (b"offset=-1&limit=0", ["offset", "limit"]),
        (b"email=a&email=b", ["email"]),
    ):
        with pytest.raises(ApiError) as refused:
            parse_customer_query(query)
        assert [each.field for each in refused.value.errors] == fields


def test_every_parameter_is_described(monkeypatch: pytest.MonkeyPatch):
    read = set()

    class Given(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return default

        def __contains__(self, name: object) -> bool:
            read.add(name)
            return False

    monkeypatch.setattr("api.customers.list.parse_parameters", lambda *_: (Given(), FieldErrors({})))
    parse_customer_query(b"")
    assert read == PARAMETERS.keys()


def test_a_cursor_of_another_list_or_of_a_forger_is_refused():
    good = CUSTOMER_CURSORS.encode(CustomerCursor(UUID(int=7), 3))
    assert parse_customer_query(f"cursor={good}".encode()).cursor == CustomerCursor(UUID(int=7), 3)
    for bad in ("", "!", good[:-4], "A" * 44, "_" * 32):
        if bad:
            with pytest.raises(ApiError):
                parse_customer_query(f"cursor={bad}".encode())
