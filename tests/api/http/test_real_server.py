"""Requests over a socket, to the server of an installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import msgspec
import pytest
from tests.api.bodies import encoded, order, paid_order
from tests.api.serving import Served, served
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """Short time-outs, so that the tests are quick."""
    return msgspec.structs.replace(settings, request_timeout_s=2.0)


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as storefront:
        yield storefront


async def answer_to(store: Storefront, request: bytes, hold_s: float = 20.0) -> bytes:
    """Returns what the server answers to these very bytes."""
    port = store.client.base_url.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(hold_s):
            return await reader.read(65536)
    finally:
        writer.close()


async def test_an_order_is_created_and_shown_through_a_real_server(merchant: Merchant):
    created = await merchant.create(paid_order(externalId="2026/17"))
    assert created.status_code == 201
    shown = await merchant.get(f"{ORDERS}/{quote('2026/17', safe='')}")
    assert shown.json()["status"] == "COMPLETED"
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 1
    assert (await merchant.get(f"{ORDERS}/2026/17")).status_code == 404


async def test_one_connection_serves_refusals_and_orders_in_turn(merchant: Merchant):
    for _ in range(3):
        assert (await merchant.client.post(ORDERS, content=b"x" * 500_000)).status_code == 401
        assert (await merchant.post(ORDERS, b"x" * 500_000)).status_code == 413
        assert (await merchant.post(ORDERS, b"{")).status_code == 400
        assert (await merchant.create(order())).status_code in (200, 201)
        head = await merchant.client.head(ORDERS, headers=merchant.key)
        assert (head.status_code, head.content) == (200, b"")


async def test_a_body_in_chunks_is_read_and_limited(merchant: Merchant):
    async def pieces(body: bytes, times: int) -> AsyncIterator[bytes]:
        for _ in range(times):
            yield body

    headers = merchant.key | {"content-type": "application/json"}
    body = encoded(order())
    assert (await merchant.client.post(ORDERS, content=pieces(body, 1), headers=headers)).status_code == 201
    assert (await merchant.client.post(ORDERS, content=pieces(b" " * 60_000, 10), headers=headers)).status_code == 413


async def test_a_body_that_stops_halfway_is_given_up(store: Storefront, merchant: Merchant):
    request = (
        f"POST {ORDERS} HTTP/1.1\r\nhost: x\r\nx-api-key: {merchant.secret}\r\n"
        f"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    )
    answer = await answer_to(store, request.encode(), hold_s=store.settings.request_timeout_s + 2)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


async def test_a_client_that_hangs_up_halfway_leaves_nothing_behind(store: Storefront, merchant: Merchant):
    port = store.client.base_url.port
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST {ORDERS} HTTP/1.1\r\nhost: x\r\nx-api-key: {merchant.secret}\r\ncontent-type: application/json\r\n"
        )
        writer.write(head.encode() + b"content-length: 1000\r\n\r\n{")
        await writer.drain()
        writer.close()
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0


@pytest.mark.parametrize(
    "request_line",
    [b"GET / HTTP/9.9", b"NONSENSE", b"GET /\xff HTTP/1.1", b"GET http://[::1 HTTP/1.1"],
)
async def test_an_invalid_http_request_is_a_400(store: Storefront, request_line: bytes):
    answer = await answer_to(store, request_line + b"\r\nhost: x\r\n\r\n")
    assert answer[:12] in (b"HTTP/1.1 400", b"")
    assert b"Traceback" not in answer
