"""Clients that are slow, large or wrong on the wire: each is refused alone, and other clients are not affected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.api.bodies import encoded, order
from tests.api.serving import Served, heard, served
from tests.api.storefront import ORDERS, Merchant

from ledger.service.http.http_messages import HEAD_BYTES_MAX
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

HEAD = f"POST {ORDERS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n".encode()


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Served]:
    """Short time-outs, so that the tests are quick."""
    patience = {"head_timeout_s": 1.5, "body_timeout_s": 7.0, "idle_timeout_s": 4.0, "request_timeout_s": 30.0}
    async with served(msgspec.structs.replace(settings, connections_max=600, **patience)) as storefront:
        yield storefront


def head_of(merchant: Merchant) -> bytes:
    return HEAD + f"x-api-key: {merchant.secret}\r\n".encode()


def status_and_code(answer: bytes) -> tuple[int, str]:
    """Returns the status and the code of an answer, whose body must have the shape of every error."""
    head, _, body = answer.partition(b"\r\n\r\n")
    content = msgspec.json.decode(body)
    assert content.keys() >= {"message", "code", "requestId"}
    assert f"x-request-id: {content['requestId']}".encode() in head.lower()
    assert b"content-type: application/json" in head
    return int(head.split()[1]), content["code"]


async def quiet(store: Served) -> None:
    """Waits until only the one client of the tests is connected."""
    async with asyncio.timeout(60):
        while len(store.server.guard.connections) > 1:  # noqa: ASYNC110 - the other side closes them
            await asyncio.sleep(0.05)


async def test_hundreds_of_half_sent_heads_are_given_up_while_a_client_works(store: Served, merchant: Merchant):
    before = store.server.guard.closed.copy()
    dialled: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    hearing: list[asyncio.Task[bytes]] = []
    meanwhile = 0

    async def work() -> None:
        nonlocal meanwhile
        assert (await merchant.create(order(externalId=f"{len(dialled)}-{meanwhile}"))).status_code == 201
        meanwhile += any(not each.done() for each in hearing)

    for n in range(500):  # each begins at once: a connection without a request is closed
        dialled.append(await store.dial())
        dialled[-1][1].write(head_of(merchant)[: 50 + n % 25])
        hearing.append(asyncio.create_task(heard(dialled[-1][0], 60)))
        if n % 25 == 24:
            await work()

    async def drip() -> None:
        while True:
            await asyncio.sleep(0.4)
            for (_, writer), answer in zip(dialled, hearing, strict=True):
                if not answer.done():
                    writer.write(b"a")

    dripping = asyncio.create_task(drip())
    while not all(each.done() for each in hearing):
        await work()
        await asyncio.sleep(0.02)
    dripping.cancel()
    answers = await asyncio.gather(*hearing)
    # A client that sends another byte just as the guard closes may lose its answer with the connection.
    assert {status_and_code(answer) for answer in answers if answer} == {(408, "REQUEST_TIMEOUT")}
    given_up = store.server.guard.closed - before
    assert given_up.total() == 500
    # Where the machine stalls between two steps of this loop, a first byte may come too late to have been a beginning.
    assert given_up.keys() <= {"head_timeout", "idle"}
    assert meanwhile > 10, "a client that works waits behind those that do not"
    for _, writer in dialled:
        writer.close()
    await quiet(store)


async def test_a_body_that_trickles_is_given_up_before_its_deadline(store: Served, merchant: Merchant):
    reader, writer = await store.dial()
    writer.write(head_of(merchant) + b"content-length: 5000\r\n\r\n{")
    began = time.monotonic()

    async def trickle() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(1)

    trickling = asyncio.create_task(trickle())
    answer = await heard(reader, 60)
    trickling.cancel()
    assert status_and_code(answer) == (408, "REQUEST_TIMEOUT")
    assert time.monotonic() - began > 4, "a slow line gets its five seconds"
    writer.close()


async def test_a_connection_without_a_request_is_closed_without_an_answer(store: Served):
    reader, writer = await store.dial()
    assert await heard(reader, 60) == b""
    assert reader.at_eof()
    writer.close()


async def test_a_connection_that_was_served_and_idles_is_closed(store: Served):
    reader, writer = await store.dial()
    writer.write(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
    began = time.monotonic()
    assert (await heard(reader, 60)).startswith(b"HTTP/1.1 200 ")
    assert reader.at_eof()
    assert time.monotonic() - began > 2
    writer.close()


async def test_a_header_of_ten_megabytes_is_refused_early_with_a_reason(store: Served):
    reader, writer = await store.dial()
    writer.write(b"GET /health/live HTTP/1.1\r\nhost: x\r\nx-big: ")
    sent = 0
    hearing = asyncio.create_task(heard(reader, 60))
    try:
        while sent < 10 << 20:
            writer.write(b"a" * (1 << 16))
            sent += 1 << 16
            await writer.drain()
    except ConnectionError:
        pass
    assert status_and_code(await hearing) == (431, "HEADERS_TOO_LARGE")
    connection = next(iter(store.server.guard.connections), None)
    assert connection is None or connection.size < HEAD_BYTES_MAX + (1 << 19)
    writer.close()


async def test_a_request_line_without_an_end_is_refused(store: Served):
    reader, writer = await store.dial()
    writer.write(b"GET /" + b"a" * (HEAD_BYTES_MAX + (1 << 19)))
    assert status_and_code(await heard(reader, 60))[0] == 431
    writer.close()


async def test_a_thousand_headers_are_refused(store: Served):
    reader, writer = await store.dial()
    writer.write(b"GET /health/live HTTP/1.1\r\nhost: x\r\n" + b"x-a: b\r\n" * 1000 + b"connection: close\r\n\r\n")
    assert status_and_code(await heard(reader, 60)) == (431, "HEADERS_TOO_LARGE")
    writer.close()


async def test_a_body_shorter_than_its_length_is_waited_for_and_given_up(store: Served, merchant: Merchant):
    reader, writer = await store.dial()
    body = encoded(order())
    writer.write(head_of(merchant) + b"content-length: %d\r\n\r\n" % (len(body) + 10) + body)
    assert status_and_code(await heard(reader, 60)) == (408, "REQUEST_TIMEOUT")
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0
    writer.close()


async def test_a_body_longer_than_its_length_spoils_only_what_follows(store: Served, merchant: Merchant):
    reader, writer = await store.dial()
    body = encoded(order())
    writer.write(head_of(merchant) + b"content-length: %d\r\n\r\n" % len(body) + body + b"{}{}\r\n\r\n")
    answer = await heard(reader, 60)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert reader.at_eof()
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 1
    writer.close()


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n{}",
        b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        b"content-length: -1\r\n\r\n",
        b"content-length: 2, 2\r\n\r\n{}",
        b"content-length: 0x2\r\n\r\n{}",
        b"content-length: 99999999999999999999999\r\n\r\n{}",
        b"transfer-encoding: chunked, identity\r\n\r\n{}",
        b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    ],
)
async def test_a_body_with_contradictory_lengths_is_refused(store: Served, merchant: Merchant, framing: bytes):
    reader, writer = await store.dial()
    writer.write(head_of(merchant) + framing)
    answer = await heard(reader, 60)
    assert status_and_code(answer) == (400, "BAD_REQUEST")
    assert reader.at_eof()
    writer.close()


@pytest.mark.parametrize("ahead", [0, 1], ids=["alone", "behind another request"])
async def test_a_key_in_a_trailer_authenticates_no_request(store: Served, merchant: Merchant, ahead: int):
    """Sent at once, the trailer has arrived before the request is looked at. A head with the key creates the order."""
    body = encoded(order(externalId="by trailer"))
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    trailer = b"x-api-key: %b\r\nx-merchant-id: %b\r\n" % (
        merchant.secret.encode(),
        str(merchant.merchant_id).encode(),
    )
    first = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n" * ahead
    for head, answered in ((HEAD, b"401"), (head_of(merchant), b"201")):
        reader, writer = await store.dial()
        framing = b"transfer-encoding: chunked\r\ntrailer: x-api-key\r\nconnection: close\r\n\r\n"
        writer.write(first + head + framing + chunks + trailer + b"\r\n")
        answers = (await heard(reader, 60)).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"200"] * ahead + [answered]
        if answered == b"401":
            assert status_and_code(b"HTTP/1.1 " + answers[-1]) == (401, "INVALID_API_KEY")
            assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0
        writer.close()
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 1


@pytest.mark.parametrize("earlier", [1, 3])
@pytest.mark.parametrize("before", [b"", b"2\r\n{}\r\n"], ids=["at once", "later on"])
async def test_a_request_before_a_broken_body_is_answered_first(
    store: Served, merchant: Merchant, before: bytes, earlier: int
):
    reader, writer = await store.dial()
    asked = b""
    for n in range(earlier):
        body = encoded(order(externalId=f"{n}"))
        asked += head_of(merchant) + b"x-request-id: asked-%d\r\ncontent-length: %d\r\n\r\n" % (n, len(body)) + body
    writer.write(asked + head_of(merchant) + b"transfer-encoding: chunked\r\n\r\n" + before + b"zz\r\n")
    *answers, last = (b"HTTP/1.1 " + each for each in (await heard(reader, 60)).split(b"HTTP/1.1 ")[1:])
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 201"] * earlier
    assert [f"asked-{n}".encode() in answer for n, answer in enumerate(answers)] == [True] * earlier
    assert status_and_code(last) == (400, "BAD_REQUEST")
    assert b"connection: close" in last
    assert reader.at_eof()
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == earlier
    writer.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["by length", "in chunks"])
async def test_a_hundred_megabytes_are_refused_and_never_held(store: Served, merchant: Merchant, *, chunked: bool):
    reader, writer = await store.dial()
    size, piece = 100 << 20, b" " * (1 << 18)
    framing = b"transfer-encoding: chunked\r\n\r\n" if chunked else b"content-length: %d\r\n\r\n" % size
    writer.write(head_of(merchant) + framing)
    hearing = asyncio.create_task(heard(reader, 60))
    held = 0
    for _ in range(size // len(piece)):
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await writer.drain()
        exchanges = [each.exchange for each in store.server.guard.connections if each.exchange is not None]
        held = max([held, *(len(exchange.body) for exchange in exchanges)])
    if chunked:
        writer.write(b"0\r\n\r\n")
    writer.write(b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answers = await hearing
    assert answers.startswith(b"HTTP/1.1 413 ")
    assert answers.count(b"HTTP/1.1 ") == 2, "the connection goes on behind the body"
    assert held < 1 << 20
    writer.close()


async def test_a_client_that_expects_100_continue_is_not_asked_for_a_body_beyond_the_limit(
    store: Served, merchant: Merchant
):
    reader, writer = await store.dial()
    writer.write(head_of(merchant) + b"content-length: 9000000\r\nexpect: 100-continue\r\n\r\n")
    answer = await heard(reader, 60)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert reader.at_eof(), "what comes next may be the body or another request"
    writer.close()


async def test_another_protocol_is_refused(store: Served):
    reader, writer = await store.dial()
    writer.write(
        b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    answer = await heard(reader, 60)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert reader.at_eof()
    writer.close()


async def test_at_the_connection_limit_connections_without_a_request_are_closed_first(
    store: Served, merchant: Merchant
):
    await quiet(store)
    assert (await merchant.get(ORDERS)).status_code == 200
    used = next(iter(store.server.guard.connections))
    guard = store.server.guard
    before, expected = guard.closed["crowded"], guard.accepted + 700
    idle = await asyncio.gather(*[store.dial() for _ in range(700)])  # before any of them is too slow
    async with asyncio.timeout(60):
        while guard.accepted < expected:  # noqa: ASYNC110 - a connected client may wait until the guard accepts it
            await asyncio.sleep(0.01)
    assert len(guard.connections) <= 600
    assert guard.closed["crowded"] > before
    assert used in guard.connections, "a client that has been served stays before those that never were"
    assert (await merchant.get(ORDERS)).status_code == 200
    for _, writer in idle:
        writer.close()
    await quiet(store)


async def test_answers_that_the_client_does_not_read_are_dropped(store: Served, merchant: Merchant):
    for n in range(40):
        await merchant.create(order(externalId=f"{n}", description="x" * 400))
    reader, writer = await store.dial()
    reader._limit = 1  # type: ignore[attr-defined]
    request = f"GET {ORDERS}?limit=100 HTTP/1.1\r\nhost: x\r\nx-api-key: {merchant.secret}\r\n\r\n".encode()
    before = store.server.guard.closed["unread"]

    async def ask() -> None:
        while True:
            writer.write(request * 20)
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask())
    async with asyncio.timeout(60):
        while store.server.guard.closed["unread"] == before:  # noqa: ASYNC110 - the guard has no event for it
            await asyncio.sleep(0.1)
    asking.cancel()
    writer.transport.abort()
