"""Lists that are answered whole, and by pages to a caller who asks for pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.bodies import paid_order
from tests.api.storefront import ORDERS, Merchant
from tests.api.webhooks.test_endpoints import PATH as ENDPOINTS

from api.decoding.query import Place
from projections.lists.paging import cut

pytestmark = pytest.mark.anyio

KEYS = "/api/v1/api-keys"


async def lists_of_three(merchant: Merchant) -> list[str]:
    """Returns the paths of the short lists, each with three entries."""
    order = (await merchant.create(paid_order())).json()["id"]
    split = await merchant.create(paid_order(externalId="split", allowPartials=True))
    parts = f"{ORDERS}/{split.json()['id']}"
    for n in range(3):
        assert (await merchant.post(f"{ORDERS}/{order}/refund", {"amount": n + 1})).status_code == 200
        assert (await merchant.post(ENDPOINTS, {"url": f"https://shop.example/{n}"})).status_code == 201
    for _ in range(2):
        assert (await merchant.post(KEYS, {})).status_code == 201
    return [KEYS, ENDPOINTS, f"{ORDERS}/{order}/refunds", f"{parts}/payments"]


async def test_a_short_list_is_whole_or_in_pages(merchant: Merchant):
    *whole, payments = await lists_of_three(merchant)

    async def listed(path: str, query: str = "") -> Any:
        answer = await merchant.get(f"{path}?{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert (await listed(payments, "limit=1"))["pagination"]["total"] == 1
    for path in whole:
        everything = await listed(path)
        ids = [each["id"] for each in everything["data"]]
        assert (len(ids), everything["pagination"]["hasMore"]) == (3, False)
        first = await listed(path, "limit=2")
        assert [each["id"] for each in first["data"]] == ids[:2]
        assert first["pagination"] == {
            "page": 1, "limit": 2, "offset": 0, "total": 3, "count": 2, "totalPages": 2, "hasMore": True,
            "nextCursor": ids[1],
        }  # fmt: skip
        rest = await listed(path, f"limit=2&cursor={ids[1]}")
        assert rest == await listed(path, "limit=2&offset=2") == await listed(path, "limit=2&page=2")
        assert [each["id"] for each in rest["data"]] == ids[2:]
        assert rest["pagination"] == {
            "page": 2, "limit": 2, "offset": 2, "total": 3, "count": 1, "totalPages": 2, "hasMore": False,
            "nextCursor": None,
        }  # fmt: skip
        assert (await listed(path, "page=1"))["pagination"]["limit"] == 20
        assert (await listed(path, "offset=9"))["data"] == []


async def test_every_wrong_parameter_of_a_short_list_is_named(merchant: Merchant):
    for path in await lists_of_three(merchant):
        for query, fields in (
            ("limit=0", ["limit"]),
            ("limit=101&page=0", ["limit", "page"]),
            ("cursor=x&offset=-1", ["cursor", "offset"]),
            ("page=1&offset=1", ["offset", "page"]),
            ("sort=x", ["sort"]),
        ):
            answer = await merchant.get(f"{path}?{query}")
            assert answer.status_code == 400
            assert {each["field"] for each in answer.json()["errors"]} >= set(fields), (path, query)


async def test_the_parts_of_a_past_state_have_pages_too(merchant: Merchant):
    _, _, refunds, _ = await lists_of_three(merchant)
    ids = [each["id"] for each in (await merchant.get(refunds)).json()["data"]]
    version = (await merchant.get(f"{refunds.removesuffix('/refunds')}/events?limit=1")).json()["pagination"]["total"]
    page = (await merchant.get(f"{refunds}?version={version}&limit=1&offset=1")).json()
    assert ([each["id"] for each in page["data"]], page["version"]) == ([ids[1]], version)


def test_a_page_begins_behind_an_entry_that_is_gone():
    ids = [UUID(int=n) for n in (1, 2, 4, 5)]
    part, pagination = cut(Place(2, 0, UUID(int=3)), ids)
    assert ([*ids[part]], pagination.offset, pagination.next_cursor) == ([UUID(int=4), UUID(int=5)], 2, None)
    shuffled = [UUID(int=n) for n in (9, 1, 5)]  # ids that a scenario chose are in no order: the entry itself counts
    assert shuffled[cut(Place(1, 0, UUID(int=9)), shuffled)[0]] == [UUID(int=1)]
