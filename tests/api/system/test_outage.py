"""The database goes away while requests wait: each is answered before it is back, and nothing is settled twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from campaigns.chaos.proxy import Proxy, Wire, never, proxied
from tests.api.bodies import order, paid_order
from tests.api.payer import opened_session, path_of
from tests.api.storefront import ORDERS, Merchant, Storefront, opened

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def proxy(settings: Settings) -> AsyncIterator[Proxy]:
    assert settings.database_url is not None
    async with proxied(settings.database_url) as proxy:
        yield proxy


@pytest.fixture
async def store(settings: Settings, proxy: Proxy) -> AsyncIterator[Storefront]:
    """An application that reaches its database through the proxy. Its time-outs are longer than any test's patience."""
    changes: dict[str, Any] = {"request_timeout_s": 600.0, "processor_timeout_s": 500.0, "not_found_final_s": 550.0}
    async with opened(msgspec.structs.replace(settings, database_url=proxy.url, **changes)) as storefront:
        try:
            yield storefront
        finally:
            proxy.is_away = False  # the operations that wait for it end


@pytest.fixture
async def merchant(store: Storefront) -> Merchant:
    return await store.register()


def assert_away(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert answer.headers["retry-after"] == "1"


async def answer_of(request: Awaitable[httpx.Response]) -> httpx.Response:
    """Returns the answer. The patience is far below the request's own time-out, which would answer too."""
    async with asyncio.timeout(60):
        return await request


async def back(proxy: Proxy, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ends the outage, and returns the first answer other than 503."""
    proxy.is_away = False
    async with asyncio.timeout(60):
        while True:
            answer = await ask()
            if answer.status_code not in {409, 503}:
                return answer
            await asyncio.sleep(0.05)


def away_at(proxy: Proxy, name: str, *, in_the_answer: bool) -> None:
    """Has the database go away at the next statement of these connections, or at the server's answer to it."""

    def decide(wire: Wire, _piece: bytes, from_client: bool) -> int | None:
        if wire.name != name or from_client is in_the_answer:
            return None
        proxy.decide = never
        proxy.go_away()
        return 0

    proxy.decide = decide


async def charges(settings: Settings) -> int:
    assert settings.database_url is not None
    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        row = await (await connection.execute("select count(*) from sandbox_charge where captured > 0")).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("in_the_answer", [True, False], ids=["committed", "never sent"])
async def test_a_request_whose_commit_is_unknown_is_answered_during_the_outage_and_settled_once_after_it(
    store: Storefront, merchant: Merchant, settings: Settings, proxy: Proxy, *, in_the_answer: bool
) -> None:
    assert (await merchant.create(paid_order(externalId="order-0"))).status_code == 201  # statements are prepared
    before = await charges(settings)
    body, key = paid_order(), {"idempotency-key": "k-1"}
    away_at(proxy, "ledger-writer", in_the_answer=in_the_answer)
    assert_away(await answer_of(merchant.post(ORDERS, body, **key)))
    assert proxy.is_away

    if in_the_answer:  # the intent is committed: the operation goes on, or leaves it to the recovery
        proxy.is_away = False
        async with asyncio.timeout(60):
            while (answer := await merchant.post(ORDERS, body, **key)).status_code == 503:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert answer.status_code in {201, 409}, answer.text
    else:
        paid = await back(proxy, lambda: merchant.post(ORDERS, body, **key))
        assert (paid.status_code, paid.json()["status"]) == (201, "COMPLETED")
        assert await charges(settings) == before + 1
    assert await charges(settings) <= before + 1


@pytest.mark.parametrize("in_the_answer", [True, False], ids=["committed", "never sent"])
async def test_a_request_whose_call_waits_for_the_sandbox_is_answered_during_the_outage_and_charged_once(
    store: Storefront, merchant: Merchant, settings: Settings, proxy: Proxy, *, in_the_answer: bool
) -> None:
    assert (await merchant.create(paid_order(externalId="order-0"))).status_code == 201
    before = await charges(settings)
    body, key = paid_order(), {"idempotency-key": "k-1"}
    away_at(proxy, "ledger-sandbox-calls", in_the_answer=in_the_answer)
    assert_away(await answer_of(merchant.post(ORDERS, body, **key)))
    assert proxy.is_away

    proxy.is_away = False
    async with asyncio.timeout(60):
        while await charges(settings) == before:  # noqa: ASYNC110 - the database has no event for it
            await asyncio.sleep(0.05)
        while (answer := await merchant.post(ORDERS, body, **key)).status_code == 503:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert answer.status_code in {201, 409}, "the operation has recorded the outcome, or left it to the recovery"
    assert await charges(settings) == before + 1


async def refused(merchant: Merchant, path: str) -> httpx.Response:
    """Returns the answer once what the process has cached, a clock for a moment, is no longer believed."""
    async with asyncio.timeout(60):
        while (answer := await answer_of(merchant.get(path))).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer


async def test_everything_that_needs_the_database_is_503_while_it_is_away_and_works_after_it(
    store: Storefront, merchant: Merchant, proxy: Proxy
) -> None:
    session = await opened_session(store, merchant)
    page = path_of(session.step_up_url)
    path = f"{ORDERS}/{(await merchant.create(order())).json()['id']}"
    deposit = {"reference": "646180111812345678", "amount": 1}
    helpers = [
        lambda: merchant.post("/api/sandbox/processor", {"mode": "OK"}),
        lambda: merchant.post("/api/sandbox/deposits", deposit),
        lambda: store.client.get(page),
        lambda: store.client.post(page, content="decision=accept", headers=FORM),
    ]
    proxy.go_away()
    for _ in range(2):  # what finds its connection lost, and what finds none
        for ask in helpers:
            answer = await answer_of(ask())
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["code"] in {"DATABASE_UNAVAILABLE", "PROCESSOR_UNAVAILABLE"}
        for read in (path, ORDERS, f"{path}/payments"):
            assert_away(await answer_of(merchant.get(read)))
        assert_away(await refused(merchant, "/api/sandbox/clock"))
        assert_away(await answer_of(merchant.create(order(externalId="order-2"))))
        assert_away(await answer_of(merchant.post(f"{path}/cancel", {})))
        ready = await answer_of(store.client.get("/health/ready"))
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert proxy.is_away

    assert (await back(proxy, lambda: merchant.get(path))).status_code == 200
    assert (await back(proxy, lambda: merchant.get(ORDERS))).status_code == 200
    assert (await back(proxy, lambda: store.client.get(page))).status_code == 200
    assert (await back(proxy, lambda: merchant.create(order(externalId="order-2")))).status_code == 201


async def test_a_connection_that_is_lost_alone_costs_no_request(
    store: Storefront, merchant: Merchant, proxy: Proxy
) -> None:
    for wire in proxy.wires:
        if wire.name == "ledger-streams":
            wire.cut()
    path = f"{ORDERS}/{(await merchant.create(order())).json()['id']}"
    assert (await merchant.get(path)).status_code == 200
