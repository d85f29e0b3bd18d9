"""`ledger serve` on a distributed database: requests over a socket, two API processes, a worker, two nodes of Citus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from campaigns.chaos.service import Service
from tests.api.bodies import order
from tests.api.test_real_service import (
    ENDPOINTS,
    ORDERS,
    Shop,
    authenticated,
    held_and_cancelled,
    invoiced,
    outside,
    own_account,
    own_customers,
    own_products,
    paid_out,
    proved,
    saved_cards,
    split_tender,
    subscribed,
    webhooks,
)
from tests.databases import DistributedDatabases

pytestmark = pytest.mark.long

STORY = (
    split_tender,
    held_and_cancelled,
    paid_out,
    authenticated,
    outside,
    webhooks,
    proved,
    own_account,
    own_customers,
    saved_cards,
    own_products,
    subscribed,
    invoiced,
)
"""What a merchant does, each as in the story of an ordinary database, in its order."""


@pytest.fixture(scope="module")
def shop(distributed: DistributedDatabases) -> Iterator[Shop]:
    with distributed.lent() as url, Service(workers=2, database_url=url) as service:
        yield Shop(service.start())


@pytest.mark.parametrize("does", STORY)
def test_a_merchant_is_served(shop: Shop, does: Callable[[Shop], None]) -> None:
    does(shop)


@pytest.mark.parametrize("path", ["/metrics", "/health/ready", f"{ORDERS}?asOf=2026-01-01T00:00:00Z"])
def test_what_looks_at_all_merchants_and_at_the_past_is_answered(shop: Shop, path: str) -> None:
    assert shop.ask("GET", path).status_code == 200


def test_a_list_of_the_past_has_what_was_there(shop: Shop) -> None:
    for n in range(3):
        shop.post(ORDERS, order(externalId=f"past-{n}"))
    now = shop.get(f"{ORDERS}?limit=100")["data"]
    assert len(now) >= 3
    at = shop.get("/api/v1/summary")["asOf"]  # by the merchant's clock, which the story has moved if it ran before
    assert shop.get(f"{ORDERS}?limit=100&asOf={at}")["data"] == now


def test_what_became_of_an_attempt_to_deliver_is_written(shop: Shop) -> None:
    made = shop.post(ENDPOINTS, {"url": "http://127.0.0.1:9/hooks"})
    deliveries, until = f"{ENDPOINTS}/{made['id']}/deliveries?limit=1", time.monotonic() + 60
    shop.post(ORDERS, order(externalId="announced"))
    while not shop.get(deliveries)["data"] and time.monotonic() < until:
        time.sleep(0.2)
    (delivery,) = shop.get(deliveries)["data"]
    assert delivery["attempts"][0]["error"]
