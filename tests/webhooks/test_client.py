"""Attempts to deliver messages to receivers that behave well, badly, or are not permitted."""

import asyncio
import itertools
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network

import pytest
from standardwebhooks import Webhook
from tests.webhooks.conftest import certificate

from ledger.domain.rejections import InvalidField
from ledger.webhooks import client as client_module
from ledger.webhooks import connections
from ledger.webhooks.addresses import Destinations
from ledger.webhooks.attempts import Outcome, retry_after
from ledger.webhooks.client import WebhookClient
from ledger.webhooks.signing import new_secret

pytestmark = pytest.mark.anyio
SECRET = new_secret()
BODY = '{"id":"e-1","type":"payment_order.completed","data":{"name":"José"}}'.encode()

FORBIDDEN = """
127.0.0.1 127.255.255.254 0.0.0.0 10.0.0.1 100.64.0.1 100.100.100.200 169.254.169.254 169.254.170.2 172.16.0.1
172.31.255.254 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
[::] [::1] [::127.0.0.1] [::ffff:127.0.0.1] [::ffff:10.0.0.1] [::ffff:168.63.129.16] [::ffff:0:127.0.0.1]
[64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1] [64:ff9b:1::808:808] [100::1] [2001::7f00:1]
[2001:0:808:808::80ff:fffe] [2001:2::1] [2001:10::1] [2001:db8::1] [2002:7f00:1::] [2002:a00:1::1] [3fff::1] [5f00::1]
[fc00::1] [fd00:ec2::254] [fd20:ce::254] [fe80::1] [fec0::1] [ff02::1] [ff0e::1]
localhost localhost. name.test
2130706433 0x7f000001 017700000001 0177.0.0.1 127.1 127.0.1 127.0.0.1. ①②⑦.0.0.1 ⓛocalhost
""".split()  # noqa: SIM905 - a list of sixty hosts, to be read


def resolving(*addresses):
    """Returns a resolver that answers each question about a name with the next address; literals by themselves."""
    answers = itertools.chain(addresses[:-1], itertools.repeat(addresses[-1]))

    def look_up(host, port, family=0, kind=0):
        found = next(answers) if host.endswith(".test") else host.rstrip(".")
        return [each for one in found.split() for each in socket.getaddrinfo(one, port, family, kind)]

    return look_up


@pytest.fixture
def sockets(monkeypatch):
    """The sockets that the client makes."""
    made = []

    class Counted(socket.socket):
        def __init__(self, family=socket.AF_UNIX, *about, **options):
            if family in {socket.AF_INET, socket.AF_INET6}:
                made.append(family)
            super().__init__(family, *about, **options)

    monkeypatch.setattr(client_module.socket, "socket", Counted)
    return made


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_no_connection_is_made_to_an_address_inside(receive, sockets, scheme):
    assert len(FORBIDDEN) > 60
    receiver = await receive()
    client = WebhookClient(Destinations(), look_up=resolving("127.0.0.1"))
    for host in FORBIDDEN:
        url = f"{scheme}://{host}:{receiver.port}/"
        with pytest.raises(InvalidField, match=r"^url "):
            await client.require_permitted(url)
        attempt = await client.post(url, "e-1", BODY, [SECRET], timeout_s=5)
        assert (attempt.outcome, attempt.response_status) == (Outcome.NOT_ALLOWED, None), url
        assert attempt.error.startswith("url "), url
    await client.close()
    assert (receiver.connections, sockets) == (0, [])
    local = WebhookClient(Destinations(is_local=True))
    assert (await local.post(f"http://127.0.0.1:{receiver.port}/", "e-1", BODY, [SECRET])).is_delivered
    await local.close()
    assert (receiver.connections, sockets) == (1, [socket.AF_INET])  # they are counted


async def test_a_name_that_changes_its_address_after_the_check_reaches_nothing(receive, sockets):
    receiver = await receive()
    client = WebhookClient(Destinations(), look_up=resolving("93.184.216.34", "127.0.0.1", "10.0.0.1 [::1]"))
    url = f"https://rebound.test:{receiver.port}/"
    await client.require_permitted(url)
    attempt = await client.post(url, "e-1", BODY, [SECRET])
    assert (attempt.outcome, receiver.connections, sockets) == (Outcome.NOT_ALLOWED, 0, [])
    assert "leads to 127.0.0.1, an address to which no messages may be sent" in attempt.error
    await client.close()


async def test_each_address_of_a_name_is_checked():
    client = WebhookClient(Destinations(), look_up=resolving("93.184.216.34 10.0.0.1"))
    with pytest.raises(InvalidField, match=r"leads to 10\.0\.0\.1") as refusal:
        await client.require_permitted("https://mixed.test/")
    assert (refusal.value.field, refusal.value.kind) == ("url", "URL_NOT_ALLOWED")
    await client.close()


@pytest.mark.parametrize(
    ("destinations", "permitted", "refused"),
    [
        (
            Destinations(),
            ["https://8.8.8.8", "https://[2606:4700::1]", "https://[64:ff9b::808:808]"],
            ["http://8.8.8.8"],
        ),
        (Destinations(is_local=True), ["http://127.0.0.1", "http://[::1]", "http://8.8.8.8"], ["http://10.0.0.1"]),
        (
            Destinations(networks=tuple(map(ip_network, ("10.1.0.0/16", "169.254.0.0/16", "64:ff9b:1::/48")))),
            ["http://10.1.2.3", "https://[::ffff:10.1.2.3]", "https://[64:ff9b:1::a01:203]"],
            [
                "http://10.2.0.1",
                "http://127.0.0.1",
                "http://8.8.8.8",
                "http://169.254.169.254",
                "https://[64:ff9b:1::a9fe:a9fe]",
            ],
        ),
    ],
)
async def test_a_sandbox_of_this_machine_has_loopback_and_an_operator_names_networks(destinations, permitted, refused):
    client = WebhookClient(destinations)
    for url in permitted:
        await client.require_permitted(url)
    for url in refused:
        with pytest.raises(InvalidField, match=r"to which|https://"):
            await client.require_permitted(url)
    await client.close()


async def test_a_receiver_verifies_what_it_got(receive, local):
    receiver = await receive()
    url = f"http://127.0.0.1:{receiver.port}/hooks?x=%2F"
    for _ in range(2):
        attempt = await local.post(url, "e-1", BODY, [new_secret(), SECRET])
        assert (attempt.outcome, attempt.response_status, attempt.error) == (Outcome.DELIVERED, 204, None)
    headers, body = receiver.requests[1]
    assert body == BODY
    assert Webhook(SECRET).verify(body, headers)["type"] == "payment_order.completed"  # by the real time too
    assert headers.keys().isdisjoint({"Cookie", "Authorization"})
    assert receiver.connections == 1


async def test_a_receiver_that_read_the_message_keeps_its_connection(reach):
    async def serve(reader, writer):
        for _ in range(3):
            await receiver.read(reader)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver, post = await reach(serve)
    bodies = [BODY, b" " * (32 << 10), BODY]
    attempts = [await post(body) for body in bodies]
    assert [attempt.outcome for attempt in attempts] == [Outcome.DELIVERED] * 3
    assert [body for _, body in receiver.requests] == bodies
    assert receiver.connections == 1


async def test_a_body_that_comes_with_204_changes_nothing(receive, local):
    receiver = await receive(b"HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\nOK")
    url = f"http://127.0.0.1:{receiver.port}/"
    attempts = [await local.post(url, "e-1", BODY, [SECRET]) for _ in range(2)]
    assert [(each.outcome, each.response_status, each.response_body) for each in attempts] == [
        (Outcome.DELIVERED, 204, "")
    ] * 2
    assert receiver.connections == 2  # what came behind an answer is no answer to the next message


async def test_a_kept_connection_that_the_receiver_closed_is_replaced_at_once(receive, local):
    async def once(reader, writer):
        await receiver.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await reader.read(1)  # the next message, unread

    receiver = await receive(once)
    url = f"http://127.0.0.1:{receiver.port}/"
    outcomes = [(await local.post(url, "e-1", BODY, [SECRET])).outcome for _ in range(3)]
    assert outcomes == [Outcome.DELIVERED] * 3
    assert receiver.connections == 3


async def test_a_connection_whose_receiver_answered_before_it_read_the_message_is_not_kept(reach):
    forever = asyncio.Event()

    async def hasty(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await forever.wait()

    receiver, post = await reach(hasty)
    large = b" " * (32 << 20)  # more than the kernel takes
    attempts = [await post(body) for body in (large, BODY)]
    forever.set()
    assert [attempt.outcome for attempt in attempts] == [Outcome.DELIVERED] * 2
    assert receiver.connections == 2


async def test_an_answer_to_no_message_is_not_taken_for_that_to_the_next_one(receive, local):
    """The second answer comes while the connection rests, whole or not: what follows it is not read."""
    late = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale", b"HTTP/1.1 200 OK\r\nContent-Len"]

    async def twice(reader, writer):
        await receiver.read(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
        await released.wait()
        writer.write(late[receiver.connections - 1] if receiver.connections <= len(late) else b"")
        await reader.read()

    receiver = await receive(twice)
    found = []
    for n in range(3):
        released = asyncio.Event()
        attempt = await local.post(f"http://127.0.0.1:{receiver.port}/", f"e-{n}", BODY, [SECRET])
        found.append((attempt.response_status, attempt.response_body))
        released.set()
        await asyncio.sleep(0.05)  # what was sent arrives
    assert found == [(503, "busy")] * 3
    assert receiver.connections == len(receiver.requests) == 3


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 204 No Content\r\n\r\n"])
async def test_a_receiver_that_reads_nothing_keeps_no_connection_open(reach, monkeypatch, answer):
    monkeypatch.setattr(connections, "_CLOSING_MAX_S", 0.2)
    is_over, has_ended = asyncio.Event(), asyncio.Event()
    got = []

    async def late(reader, writer):
        writer.write(answer)
        await is_over.wait()
        with suppress(OSError):
            while piece := await reader.read(1 << 20):
                got.append(len(piece))
        has_ended.set()

    _, post = await reach(late)
    large = b" " * (32 << 20)  # more than the kernel takes
    attempt = await post(large, timeout_s=30 if answer else 2)
    assert attempt.outcome is (Outcome.DELIVERED if answer else Outcome.TIMED_OUT)
    await asyncio.sleep(0.4)
    is_over.set()
    async with asyncio.timeout(30):
        await has_ended.wait()
    assert sum(got) < len(large)


async def test_a_receiver_that_answered_early_still_gets_the_rest_of_the_message(reach):
    async def early(reader, writer):
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await answered.wait()
        await receiver.read(reader)
        is_read.set()

    answered, is_read = asyncio.Event(), asyncio.Event()
    receiver, post = await reach(early)
    large = b" " * (32 << 20)  # more than the kernel takes
    attempt = await post(large)
    assert attempt.is_delivered
    answered.set()
    async with asyncio.timeout(30):
        await is_read.wait()
    assert receiver.requests[0][1] == large


async def test_a_name_that_changes_its_address_beside_a_kept_connection_reaches_nothing(receive):
    async def once(reader, writer):
        await receiver.read(reader)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.read(1)  # the next message, unread

    receiver = await receive(once)
    client = WebhookClient(
        Destinations(networks=(ip_network("127.0.0.1"),)), look_up=resolving("127.0.0.1", "10.0.0.1")
    )
    url = f"http://shop.test:{receiver.port}/"
    first = await client.post(url, "e-1", BODY, [SECRET])
    client._connections._connector.clear_dns_cache()  # which lasts for seconds
    second = await client.post(url, "e-2", BODY, [SECRET])
    await client.close()
    assert (first.outcome, second.outcome) == (Outcome.DELIVERED, Outcome.NOT_ALLOWED)
    assert "leads to 10.0.0.1, an address to which no messages may be sent" in second.error


def status(line, *headers, body=b"", length=None):
    size = len(body) if length is None else length
    lines = (f"HTTP/1.1 {line}", f"Content-Length: {size}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        (status("500 Oops", body=b"<\x00b\xff>"), Outcome.STATUS, "answered 500 Internal Server Error: only"),
        (status("410 Gone"), Outcome.STATUS, "answered 410 Gone"),
        (status("299 Fine", body=b"a" * 16_384), Outcome.DELIVERED, None),
        (
            status("302 Found", "Location: http://169.254.169.254/"),
            Outcome.REDIRECT,
            "a redirect, which is not followed",
        ),
        (status("307 Go", "Location: /other"), Outcome.REDIRECT, "a redirect, which is not followed"),
        (status("200 OK", body=b"a" * 16_385), Outcome.TOO_LONG, "answered 200 with more than 16384 bytes"),
        (
            status("200 OK", "Connection: close", length=10, body=b"abc"),
            Outcome.UNREADABLE,
            "answered 200, and its answer broke off",
        ),
        (b"220 mail.example ESMTP\r\n\r\n", Outcome.UNREADABLE, "answer is not HTTP"),
        (b"\x16\x03\x01" * 10, Outcome.UNREADABLE, "answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX-A: close" + b"a" * 9_000 + b"\r\n\r\n", Outcome.UNREADABLE, "answer is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nX-A: close\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
            Outcome.UNREADABLE,
            "answer is not HTTP",
        ),
        (b"", Outcome.UNREADABLE, "closed the connection without an answer"),
        (status("200 OK", "Transfer-Encoding: chunked", "Connection: close") + b"zz\r\n", Outcome.UNREADABLE, "."),
    ],
)
async def test_each_answer_is_judged_and_a_failure_has_a_readable_reason(receive, local, answer, outcome, error):
    receiver = await receive(answer)
    attempt = await local.post(f"http://127.0.0.1:{receiver.port}/", "e-1", BODY, [SECRET], timeout_s=5)
    assert (attempt.outcome, attempt.is_delivered) == (outcome, error is None), attempt
    assert (attempt.error or "").endswith("." if error else "")
    assert error is None or error in attempt.error, attempt
    assert len(attempt.response_body) <= 1_024
    assert "\x00" not in attempt.response_body
    assert receiver.connections == 1


async def test_a_receiver_that_takes_its_time_gets_no_more_than_the_limit(receive, local):
    forever = asyncio.Event()

    async def silent(_reader, _writer):
        await forever.wait()

    async def stuck_in_its_head(_reader, writer):
        writer.write(b"HTTP/1.1 20")
        await forever.wait()

    async def stuck_in_its_body(_reader, writer):
        writer.write(status("200 OK", length=100, body=b"a"))
        await forever.wait()

    async def one(behave):
        receiver = await receive(behave)
        return await local.post(f"http://127.0.0.1:{receiver.port}/", "e-1", BODY, [SECRET], timeout_s=0.1)

    behaviours = (silent, stuck_in_its_head, stuck_in_its_body)
    attempts = [await one(behave) for behave in behaviours]
    forever.set()
    assert {attempt.outcome for attempt in attempts} == {Outcome.TIMED_OUT}
    late = {"No connection to 127.0.0.1 within 0.1 s.", "The receiver did not answer within 0.1 s."}
    assert {attempt.error for attempt in attempts[:2]} <= late
    broken_off = (200, "a", "The receiver answered 200, but did not end its answer within 0.1 s.")
    found = (attempts[2].response_status, attempts[2].response_body, attempts[2].error)
    assert found in {broken_off, *((None, "", error) for error in late)}  # a busy machine may take longer to connect


@pytest.mark.parametrize(
    ("first", "again", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 4_096, (Outcome.TOO_LONG, 200, "a" * 1_024)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\na\r\n" * 999,
            (Outcome.TOO_LONG, 200, "a" * 1_024),
        ),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, (Outcome.TOO_LONG, None, "")),
    ],
)
async def test_an_answer_without_end_is_read_to_its_limit(receive, local, first, again, expected):
    async def endless(reader, writer):
        await receiver.read(reader)
        writer.write(first)
        for _ in range(10_000):
            writer.write(again)
            await writer.drain()

    receiver = await receive(endless)
    attempt = await local.post(f"http://127.0.0.1:{receiver.port}/", "e-1", BODY, [SECRET])
    assert (attempt.outcome, attempt.response_status, attempt.response_body) == expected
    assert attempt.error.startswith(f"The receiver {'answered 200 with' if expected[1] else 'sent'} more than ")


async def test_a_receiver_that_cannot_be_reached_says_why(receive, tmp_path):
    refusing = socket.create_server(("127.0.0.1", 0))
    port = refusing.getsockname()[1]
    refusing.close()
    tls = await receive(ssl=certificate(tmp_path / "other.pem", "other.test"))

    async def no_tls(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    plain = await receive(no_tls)

    def look_up(host, *about):
        if host == "absent.test":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return socket.getaddrinfo("127.0.0.1", *about)

    client = WebhookClient(Destinations(is_local=True), look_up=look_up)
    for url, outcome, error in (
        (f"http://shop.test:{port}/", Outcome.UNREACHABLE, "No connection to shop.test: "),
        ("https://absent.test/", Outcome.UNRESOLVED, "The name absent.test has no address: check"),
        (f"https://shop.test:{tls.port}/", Outcome.TLS, "The certificate of shop.test is not valid: self-signed"),
        (f"https://shop.test:{plain.port}/", Outcome.TLS, "No TLS connection with shop.test: "),
        ("https://ana@shop.test/", Outcome.NOT_ALLOWED, "url must have no user or password"),
    ):
        attempt = await client.post(url, "e-1", BODY, [SECRET], timeout_s=5)
        assert (attempt.outcome, attempt.error[: len(error)]) == (outcome, error)
    assert tls.requests == []
    await client.require_permitted("https://absent.test/")  # it may get an address later
    await client.close()


async def test_names_whose_servers_hang_have_a_thread_each_and_delay_no_other_name(receive, monkeypatch):
    monkeypatch.setattr(client_module, "_LOOK_UP_S", 0.05)
    answered, asked = threading.Event(), []

    def look_up(host, *about):
        if host.startswith("hangs"):
            asked.append((host, threading.current_thread().daemon))
            answered.wait(30)
        return socket.getaddrinfo("127.0.0.1", *about)

    receiver = await receive()
    client = WebhookClient(Destinations(is_local=True), look_up=look_up)

    def post(host, timeout_s):
        url = f"http://{host}.test:{receiver.port}/"
        return client.post(url, "e-1", BODY, [SECRET], timeout_s=timeout_s)

    try:
        for _ in range(2):  # the second time, the threads of the first one are still there
            late = await asyncio.gather(*(post(f"hangs{n}", 0.05) for n in range(40)))
            assert {attempt.outcome for attempt in late} == {Outcome.TIMED_OUT}
        await client.require_permitted("http://hangs7.test/")  # nor has a request about an endpoint another thread
        await client.require_permitted("http://hangs7.test/")
        asked.remove(("hangs7.test", True))  # of the other port
        assert sorted(asked) == sorted((f"hangs{n}.test", True) for n in range(40)), "the end waits for no daemon"
        assert (await post("shop", 10)).is_delivered
        once_more = asyncio.create_task(post("hangs7", 10))
        await asyncio.sleep(0)
        answered.set()
        assert (await once_more).is_delivered
    finally:
        answered.set()
        await client.close()


async def test_a_receiver_may_ask_for_a_longer_pause(receive, local):
    receiver = await receive(status("503 Later", "Retry-After: 120"))
    attempt = await local.post(f"http://127.0.0.1:{receiver.port}/", "e-1", BODY, [SECRET])
    assert attempt.retry_after == timedelta(seconds=120)


def test_a_pause_is_in_seconds_or_until_a_date_and_at_most_a_day():
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    hour, day = timedelta(hours=1), timedelta(hours=24)
    for value, wait in (
        ("3600", hour), (" 3600 ", hour), ("99999999999999", day), (format_datetime(now + hour, usegmt=True), hour),
        (format_datetime(now + 9 * day, usegmt=True), day), (format_datetime(now - hour, usegmt=True), None),
        ("Sat, 31 Jan 2026 13:00:00 -0000", hour), ("0", None), ("-5", None), ("soon", None), ("", None), (None, None),
        ("Sat, 31 Jan 99999 13:00:00 GMT", None), ("١٢٠", None), ("1e3", None),
    ):  # fmt: skip
        assert retry_after(value, now) == wait, value
