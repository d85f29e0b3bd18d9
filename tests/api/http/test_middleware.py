"""What the middleware does with every request: ids, types, sizes, deadlines, addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import msgspec
import pytest
from tests.api.bodies import APPROVED, encoded, order
from tests.api.http.malformed import malformed
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront

from api.http.middleware import Middleware
from api.orders import create
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

LIMIT = 256 << 10


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """Short time-outs, so that the tests are quick."""
    return msgspec.structs.replace(settings, request_timeout_s=2.0)


def padded(size: int) -> bytes:
    """Returns an order of exactly this many bytes."""
    body = encoded(order())
    return body + b" " * (size - len(body))


async def in_pieces(body: bytes, size: int = 10_000) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_every_answer_carries_a_request_id(store: Storefront, merchant: Merchant):
    ids = set()
    for answer in (
        await store.client.get("/nowhere"),
        await store.client.get("/health/live"),
        await store.client.get(ORDERS),
        await merchant.get(ORDERS),
        await merchant.create({}),
    ):
        ids.add(answer.headers["x-request-id"])
        if answer.status_code >= 400:
            assert answer.json()["requestId"] == answer.headers["x-request-id"]
    assert len(ids) == 5


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("checkout-17.a:b_c", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ("a\tb", False),
        ("ñ", False),
        (APPROVED, False),
        ("4000-0000-0000-0002", False),
    ],
)
async def test_a_well_formed_request_id_is_kept(merchant: Merchant, sent: str, kept: bool):
    answer = await merchant.get(ORDERS, **{"x-request-id": sent.encode()})  # type: ignore[arg-type]
    assert (answer.headers["x-request-id"] == sent) == kept


async def test_an_unknown_address_is_a_404_even_without_a_key(store: Storefront):
    for path in (
        "/index.html",
        "/api",
        "/api/v2",
        f"{ORDERS}/",
        f"{ORDERS}/x/charge/",
        f"{ORDERS}/x/y",
        "/api/v2/payment%2Dorders",
    ):
        answer = await store.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        only_a_slash = path in (f"{ORDERS}/", f"{ORDERS}/x/charge/")
        assert ("leave out the slash at its end" in answer.json()["message"]) is only_a_slash


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/events", "/api/v1/events"),
        ("/v2/payment-orders/PO-1/refunds", "/api/v2/payment-orders/{id}/refunds"),
        ("/api/products", "/lps/products"),
        ("/api/v2/payment-order", "/api/v2/payment-orders"),
        ("/api/v2/PaymentOrders/x", "/api/v2/payment-orders/{id}"),
        ("/api/v2/payment-orders/x/refnud", "/api/v2/payment-orders/{id}/refund"),
        ("/api/V1/summary/", "/api/v1/summary"),
        ("/api/v3/summary", "/api/v1/summary"),
        ("/api/v1", None),
        ("/api/v1/nothing", None),
        (f"/v1/events/{'x' * 300}", None),
    ],
)
async def test_an_unknown_address_is_answered_with_the_one_that_is_meant(
    store: Storefront, path: str, meant: str | None
):
    message = (await store.client.get(path)).json()["message"]
    end = "check the path. /docs shows them all." if meant is None else f"did you mean {meant}?"
    assert message == f"There is no operation at this address: {end}"


async def test_a_method_that_a_path_does_not_have_is_a_405(store: Storefront, merchant: Merchant):
    for method, path, allow in (
        ("DELETE", ORDERS, "GET, HEAD, POST"),
        ("PUT", f"{ORDERS}/x", "GET, HEAD, PATCH"),
        ("GET", f"{ORDERS}/x/charge", "POST"),
        ("POST", "/health/live", "GET, HEAD"),
        ("OPTIONS", ORDERS, "GET, HEAD, POST"),
    ):
        answer = await store.client.request(method, path, headers=merchant.key)
        assert (answer.status_code, answer.headers["allow"]) == (405, allow)
        assert answer.json()["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ('APPLICATION/JSON;charset="UTF-8"', 201),
        ("application/json; charset=latin-1", 415),
        ("application/json-patch+json", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
        (None, 415),
    ],
)
async def test_a_body_has_to_be_json_by_its_type(merchant: Merchant, content_type: str | None, status: int):
    headers = merchant.key if content_type is None else merchant.key | {"content-type": content_type}
    answer = await merchant.client.post(ORDERS, content=encoded(order()), headers=headers)
    assert answer.status_code == status
    if status == 415:
        assert answer.json()["code"] == "UNSUPPORTED_MEDIA_TYPE"


async def test_a_compressed_body_is_refused_unopened(merchant: Merchant):
    answer = await merchant.post(ORDERS, b"\x1f\x8b" + b"0" * 100, **{"content-encoding": "gzip"})
    assert answer.status_code == 415


async def test_a_body_may_be_as_long_as_the_limit_and_no_longer(merchant: Merchant):
    assert (await merchant.post(ORDERS, padded(LIMIT))).status_code == 201
    answer = await merchant.post(ORDERS, padded(LIMIT + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


async def test_the_limit_holds_without_a_declared_length(merchant: Merchant):
    headers = merchant.key | JSON
    fits = await merchant.client.post(ORDERS, content=in_pieces(padded(LIMIT)), headers=headers)
    assert fits.status_code == 201
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100 * LIMIT:
            read += 50_000
            yield b" " * 50_000

    answer = await merchant.client.post(ORDERS, content=endless(), headers=headers)
    assert answer.status_code == 413
    assert read <= LIMIT + 50_000


async def test_a_declared_length_beyond_the_limit_is_refused_before_reading(merchant: Merchant):
    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(10)
        yield b""

    headers = merchant.key | JSON | {"content-length": str(LIMIT + 1)}
    async with asyncio.timeout(8):
        answer = await spoken(merchant, headers, lambda: asyncio.sleep(10))
    assert answer == 413


async def spoken(merchant: Merchant, headers: dict[str, str], receive: Callable[[], Awaitable[Any]]) -> int:
    """Returns the status of a POST through ASGI whose body comes by `receive`."""
    transport: Any = merchant.client._transport
    statuses = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": ORDERS,
        "raw_path": ORDERS.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    await transport.app(scope, receive, send)
    return statuses[0] if statuses else 0


async def test_a_body_that_does_not_come_is_a_408(merchant: Merchant):
    assert await spoken(merchant, merchant.key | JSON, lambda: asyncio.sleep(10)) == 408


async def test_a_client_that_has_hung_up_gets_no_answer(merchant: Merchant):
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert await spoken(merchant, merchant.key | JSON, gone) == 0


async def test_an_operation_that_takes_too_long_is_a_503(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    async def slow(*_: Any) -> None:
        await asyncio.sleep(10)

    monkeypatch.setattr(create, "create_order", slow)
    answer = await merchant.create(order())
    assert (answer.status_code, answer.json()["code"]) == (503, "REQUEST_TIMEOUT")
    assert answer.headers["retry-after"]


async def test_a_failure_of_ours_is_a_500_without_a_word_about_it(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    async def broken(*_: Any) -> None:
        raise RuntimeError(APPROVED)

    monkeypatch.setattr(create, "create_order", broken)
    answer = await merchant.create(order())
    assert answer.status_code == 500
    assert set(answer.json()) == {"message", "code", "requestId", "docUrl"}
    assert APPROVED not in answer.text


async def test_a_long_address_and_long_headers_are_refused(merchant: Merchant):
    assert (await merchant.get(f"{ORDERS}?a={'x' * 8200}")).status_code == 414
    assert (await merchant.get(f"{ORDERS}/{'x' * 8200}")).status_code == 414
    assert (await merchant.get(ORDERS, **{"x-long": "x" * (33 << 10)})).status_code == 431
    assert (await merchant.get(ORDERS, **{f"x-{n}": "1" for n in range(100)})).status_code == 431
    assert (await merchant.get(f"{ORDERS}?status={'+' * 8000}")).status_code == 200


async def test_head_is_get(merchant: Merchant):
    assert (await merchant.client.head(ORDERS, headers=merchant.key)).status_code == 200


async def test_the_service_reports_that_it_is_alive_and_ready(store: Storefront, reacted):
    assert (await store.client.get("/health/live")).json() == {"status": "live"}
    ready = await store.client.get("/health/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert ready.json()["checks"] == {
        "database": True, "writer": True, "commits": True, "disk": True, "processor": True, "orderNumbers": True, "clock": True,
        "reactions": True, "processes": True,
    }  # fmt: skip


async def test_before_it_has_started_it_is_alive_but_not_ready(store: Storefront):
    from api.app import create_app

    transport = httpx.ASGITransport(create_app(store.settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 503
        answer = await client.get(ORDERS)
        assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_UNAVAILABLE")


async def test_the_corpus_of_malformed_bodies_never_makes_the_service_fail(merchant: Merchant):
    for name, body in malformed():
        answer = await merchant.post(ORDERS, body)
        assert answer.status_code in (400, 413), name
        assert {"message", "code", "requestId"} <= set(answer.json()), name
        assert ("errors" in answer.json()) == (answer.status_code == 400), name
        assert "4242" not in answer.text
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0


async def test_prefixes_are_settings(store: Storefront):
    from api.app import create_app

    app = create_app(msgspec.structs.replace(store.settings, base_path="/pay/api"))
    assert isinstance(app, Middleware)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        assert (await client.get("/pay/api/v2/payment-orders")).status_code == 503
        assert (await client.get(ORDERS)).status_code == 404
