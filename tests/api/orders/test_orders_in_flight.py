"""An order in flight, whose row has no rendered bytes, is read over HTTP like any other."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.api.bodies import by_card, card, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

SILENT = by_card(cardDetails=card(number="4000000000000119"))
IN_FLIGHT = "select external_id from payment_order where merchant_id = %s and head = '' and payments = '' order by 1"


def in_flight(settings: Settings, merchant: Merchant) -> list[str]:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url) as connection:
        return [external_id for (external_id,) in connection.execute(IN_FLIGHT, (merchant.merchant_id,))]


async def test_an_order_of_unknown_outcome_is_the_same_in_every_read(merchant: Merchant, settings: Settings):
    await merchant.create(order(externalId="before"))
    await merchant.create(paid_order(externalId="paid"))
    answer = await merchant.create(paid_order(externalId="unknown", paymentMethod=SILENT))
    assert (answer.status_code, answer.json()["status"]) == (201, "PROCESSING")
    await merchant.create(order(externalId="after"))
    assert in_flight(settings, merchant) == ["unknown"]
    created = answer.json()
    payment = created.pop("payment")
    for reference in (created["id"], "unknown"):
        assert (await merchant.get(f"{ORDERS}/{reference}")).json() == created
        assert (await merchant.get(f"{ORDERS}/{reference}/payments")).json()["data"] == [payment]
        assert (await merchant.get(f"{ORDERS}/{reference}/payments/{payment['id']}")).json() == payment
    listed = created | {"payments": []}
    everything = (await merchant.get(ORDERS)).json()["data"]
    assert [each["externalId"] for each in everything] == ["after", "unknown", "paid", "before"]
    assert everything[1] == listed
    for query in ("status=PROCESSING", "search=unknown", "status=PROCESSING&search=unk", "offset=1&limit=1"):
        page = (await merchant.get(f"{ORDERS}?{query}")).json()
        assert page["data"] == [listed], query
        assert page["pagination"]["count"] == 1
    assert (await merchant.get(f"{ORDERS}?customerId={created['customer']['id']}")).json()["data"].count(listed) == 1
    cursor = (await merchant.get(f"{ORDERS}?limit=1")).json()["pagination"]["nextCursor"]
    assert (await merchant.get(f"{ORDERS}?limit=1&cursor={cursor}")).json()["data"] == [listed]
    async with opened(settings) as another:  # as after a restart: nothing of it is in memory
        again = await another.client.get(f"{ORDERS}/unknown", headers=merchant.key)
        assert again.json() == created


async def test_an_order_is_read_while_its_processor_call_is_under_way(merchant: Merchant, store: Storefront):
    paying = asyncio.create_task(merchant.create(paid_order(externalId="slow", paymentMethod=SILENT)))
    async with asyncio.timeout(60):
        while (shown := await merchant.get(f"{ORDERS}/slow")).status_code == 404:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    assert shown.status_code == 200
    assert [payment["status"] for payment in shown.json()["payments"]] == ["PENDING_AUTHORIZATION"]
    listed = (await merchant.get(f"{ORDERS}?status=PROCESSING")).json()["data"]
    assert [each["externalId"] for each in listed] == ["slow"]
    assert (await paying).json()["id"] == shown.json()["id"]
