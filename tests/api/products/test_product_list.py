"""The list of products: order, both styles of pagination, the cursor, statuses and the search."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.api.products.catalogue import PRODUCTS, coffee, imported, listed
from tests.api.storefront import Merchant

pytestmark = pytest.mark.anyio


async def test_pages_by_number_offset_and_cursor_show_the_same(merchant: Merchant):
    await imported(merchant, *[coffee(id=f"p-{n}") for n in range(5)])
    await imported(merchant, *[coffee(id=f"q-{n}") for n in range(2)])
    await imported(merchant, coffee(id="p-0", price=1))  # an update does not move a product
    everything = await listed(merchant)
    ids = [each["id"] for each in everything["data"]]
    assert {*ids[:2]} == {"q-0", "q-1"}
    assert sorted(ids) == ["p-0", "p-1", "p-2", "p-3", "p-4", "q-0", "q-1"]
    assert everything["pagination"] == {
        "page": 1, "limit": 20, "offset": 0, "total": 7, "count": 7, "totalPages": 1, "hasMore": False,
        "nextCursor": None,
    }  # fmt: skip
    second = await listed(merchant, "?page=2&limit=3")
    assert second["pagination"] | {"nextCursor": ""} == {
        "page": 2, "limit": 3, "offset": 3, "total": 7, "count": 3, "totalPages": 3, "hasMore": True, "nextCursor": "",
    }  # fmt: skip
    assert second["data"] == (await listed(merchant, "?limit=3&offset=3"))["data"]
    cursor = (await listed(merchant, "?limit=3"))["pagination"]["nextCursor"]
    await imported(merchant, coffee(id="later"))
    after = await listed(merchant, f"?limit=3&cursor={cursor}")
    assert after["data"] == second["data"], "a product that arrives in between moves no page"
    assert (after["pagination"]["offset"], after["pagination"]["page"]) == (3, 2)
    last = await listed(merchant, f"?limit=3&cursor={after['pagination']['nextCursor']}")
    assert [each["id"] for each in last["data"]] == ids[6:]
    assert last["pagination"]["hasMore"] is False
    assert (await listed(merchant, "?offset=50"))["pagination"]["total"] == 8


async def test_statuses_filter_the_list_and_its_total(merchant: Merchant):
    await imported(merchant, coffee(id="a"), coffee(id="b", status="archived"), coffee(id="c", status="Agotado"))
    for query, ids in (
        ("status=active", ["a"]),
        ("status=archived,Agotado", ["b", "c"]),
        ("status=archived&status=active", ["a", "b"]),
        ("status=agotado", []),
        ("status=", ["a", "b", "c"]),
        ("status=archived&search=caf", ["b"]),
    ):
        page = await listed(merchant, f"?{query}")
        assert sorted(each["id"] for each in page["data"]) == ids
        assert page["pagination"]["total"] == len(ids)


async def test_a_search_finds_parts_of_four_fields_whatever_their_case(merchant: Merchant):
    await imported(
        merchant,
        coffee(id="Weißwurst", name="STRASSE 100%_", sku="Öl-1", externalId="erp-7", description="hidden"),
        coffee(id="other", name="Otro"),
    )
    for search in ("weissw", "strasse 100%25_", "%C3%96L", "OL-1", "ERP-7", "erp-7%20weiss"):
        assert [each["id"] for each in (await listed(merchant, f"?search={search}"))["data"]] == ["Weißwurst"]
    for search in ("hidden", "%25%25", "ot%0Aro", "ö_", "l-1erp"):
        assert (await listed(merchant, f"?search={search}"))["pagination"]["total"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("page=0", "page"),
        ("offset=-1", "offset"),
        ("page=1&offset=0", "page"),
        ("cursor=x", "cursor"),
        ("search=" + "x" * 256, "search"),
        ("search=a&search=b", "search"),
    ],
)
async def test_a_wrong_parameter_is_named(merchant: Merchant, query: str, field: str):
    answer = await merchant.get(f"{PRODUCTS}?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("product_id", ["a/b", "bulk-import", "ñ %", "01a2044d-eefe-716d-95ab-36e1f44611dc"])
async def test_a_product_is_read_by_any_id_of_the_merchants(merchant: Merchant, product_id: str):
    await imported(merchant, coffee(id=product_id))
    address = f"{PRODUCTS}/{quote(product_id, safe='')}"
    answer = await merchant.get(address)
    if product_id == "bulk-import":  # the address of another operation
        assert answer.status_code == 405
    else:
        assert answer.json()["id"] == product_id
    for wrong in ("nothing", "%ff", "x" * 256, "%00"):
        assert (await merchant.get(f"{PRODUCTS}/{wrong}")).json()["code"] == "PRODUCT_NOT_FOUND"
