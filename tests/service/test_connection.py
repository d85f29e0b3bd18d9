"""What one connection makes the process hold, at its bounds, with a transport that the test controls."""

import asyncio
import gc
import weakref

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from api.http.middleware import _HEADERS_MAX
from ledger.asgi import HAS_LEFT, IS_ENDING, RESPOND
from ledger.service.http import connection_guard
from ledger.service.http.connection import HEAD_FIELDS_MAX, Connection, Phase
from ledger.service.http.connection_guard import ConnectionGuard
from ledger.service.http.flow import WRITE_BUFFER_MAX
from ledger.service.http.http_messages import HEAD_BYTES_MAX
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """A client that takes every byte at once, or none where it `reads` none. `paused` is whether its bytes are read."""

    reads, paused, closed, high = True, False, False, WRITE_BUFFER_MAX

    def __init__(self):
        super().__init__()
        self.seen = b""
        self.waiting = 0

    def write(self, data):
        self.seen += data
        self.waiting += 0 if self.reads else len(data)
        if self.waiting > self.high:
            self.get_extra_info("protocol").pause_writing()

    def set_write_buffer_limits(self, high=None):
        self.high = high

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, name, default=None):
        return self.protocol if name == "protocol" else default

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def is_closing(self):
        return self.closed

    def write_eof(self):
        pass

    def close(self):
        self.closed = True

    abort = close


class App:
    """Answers a request once `go` is set; `scopes` has the requests that it has begun with."""

    answer = b"ok"
    headers = ()

    def __init__(self):
        self.go = asyncio.Event()
        self.scopes = []

    async def __call__(self, scope, _receive, send):
        self.scopes.append(scope)
        await self.go.wait()
        headers = [(b"content-length", b"%d" % len(self.answer)), *self.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.answer})


class WholeApp(App):
    """Answers in one call where the connection takes it; `whole` has what each request's call returned."""

    def __init__(self):
        super().__init__()
        self.whole = []

    async def __call__(self, scope, receive, send):
        headers = [(b"content-length", b"%d" % len(self.answer)), *self.headers]
        self.whole.append(scope[RESPOND](200, headers, self.answer))
        if not self.whole[-1]:
            await super().__call__(scope, receive, send)


@pytest.fixture
async def app():
    return App()


@pytest.fixture
async def guard():
    return ConnectionGuard(Settings(), connections_max=10)


def connected(app, guard):
    connection, wire = Connection(app, guard, ServerState()), Wire()
    wire.protocol = connection
    connection.connection_made(wire)
    return connection, wire


@pytest.fixture
async def connect(app, guard):
    return lambda: connected(app, guard)


async def turns(n=200):
    for _ in range(n):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("requests", "whole"),
    [
        (GET, [True]),
        (GET * 3, [True] * 3),
        (CHUNKED + b"0\r\n\r\n" + GET, [True, True]),
        (b"HEAD / HTTP/1.1\r\n\r\n" + GET, [True, True]),
        (b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", [True]),
        (b"GET / HTTP/1.0\r\n\r\n", [True]),
        (b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", [True]),
    ],
    ids=["one", "three at once", "chunks", "HEAD", "close", "HTTP/1.0", "expects 100"],
)
async def test_a_whole_answer_is_what_two_messages_send(guard, requests, whole):
    seen = []
    for app in (App(), WholeApp()):
        app.go.set()
        connection, wire = connected(app, guard)
        connection.data_received(requests)
        await turns()
        seen.append((wire.seen, wire.closed))
    assert app.whole == whole
    assert seen[0] == seen[1]
    assert seen[0][0].count(b"HTTP/1.1 200 OK") == len(whole)


async def test_an_answer_while_the_client_does_not_read_takes_the_two_messages(guard):
    app = WholeApp()
    connection, _ = connected(app, guard)
    app.go.set()
    connection.pause_writing()
    connection.data_received(GET)
    await turns()
    assert app.whole == [False]
    connection.resume_writing()
    connection.data_received(GET)
    await turns()
    assert app.whole == [False, True]


@pytest.mark.parametrize("kind", [App, WholeApp])
@pytest.mark.parametrize("value", [b"a\r\ny: b", b"a\ny: b", b"a\ry: b"])
async def test_a_header_with_a_line_end_is_not_sent(guard, kind, value):
    app = kind()
    app.headers = [(b"x", value)]
    app.go.set()
    connection, wire = connected(app, guard)
    connection.data_received(GET)
    await turns()
    assert wire.seen.startswith(b"HTTP/1.1 500 ")
    assert b"y: b" not in wire.seen
    assert wire.closed


@pytest.mark.parametrize("at_once", [True, False], ids=["with the request", "later"])
async def test_trailers_never_reach_the_request(connect, app, at_once):
    connection, _ = connect()
    parts = CHUNKED, b"2\r\n{}\r\n0\r\n", b"x-api-key: secret\r\nexpect: 100-continue\r\n\r\n"
    for part in [b"".join(parts)] if at_once else parts:
        connection.data_received(part)
        await turns()
    (scope,) = app.scopes
    assert scope["headers"] == [(b"transfer-encoding", b"chunked")]
    assert not connection.exchange.awaits_continue
    app.go.set()
    connection.data_received(GET)
    await turns()
    assert [scope["method"] for scope in app.scopes] == ["POST", "GET"], "the connection goes on behind them"


@pytest.mark.parametrize("field", [b"x-a: b\r\n", b"x" * 100], ids=["many", "one without an end"])
@pytest.mark.parametrize("answered", [False, True])
async def test_trailers_are_bounded_like_heads(connect, app, guard, field, answered):
    connection, wire = connect()
    if answered:
        app.go.set()
    connection.data_received(CHUNKED + b"0\r\n")
    await turns()
    sent = 0
    while connection.phase is not Phase.END:
        connection.data_received(field * 100)
        sent += 100 * len(field)
        assert sent < 2 * HEAD_BYTES_MAX
    await turns()
    assert sent > HEAD_BYTES_MAX
    assert guard.closed == {"head_too_large": 1}
    assert connection._parser is None, "it would hold the field"
    assert wire.seen.count(b"HTTP/1.1 ") == 1, "one request gets one answer"
    assert wire.seen.startswith(b"HTTP/1.1 200 " if answered else b"HTTP/1.1 431 ")


async def test_a_long_body_in_small_chunks_is_no_head(connect, app):
    connection, wire = connect()
    connection.data_received(CHUNKED)
    for _ in range(2 * HEAD_BYTES_MAX // 100):
        connection.data_received(b"1;a=%s\r\nx\r\n" % (b"b" * 100))
    connection.data_received(b"0\r\n\r\n")
    app.go.set()
    await turns()
    assert wire.seen.startswith(b"HTTP/1.1 200 ")


async def test_a_head_keeps_so_many_fields_and_more_than_the_application_accepts(connect, app):
    connection, _ = connect()
    connection.data_received(b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 5000 + b"\r\n")
    await turns()
    (scope,) = app.scopes
    assert len(scope["headers"]) == HEAD_FIELDS_MAX > _HEADERS_MAX


@pytest.mark.parametrize("piece", [18 * 5000, 1000, 18, 17, 1])
async def test_one_request_after_the_other_is_parsed_and_what_was_sent_ahead_waits_unread(connect, app, piece):
    connection, wire = connect()
    asked = GET * (5000 if piece > 18 else 50)
    sent = 0
    while sent < len(asked) and not wire.paused:
        connection.data_received(asked[sent : sent + piece])
        sent += piece
    await turns()
    assert len(app.scopes) == 1
    assert len(connection._unparsed) <= piece
    app.go.set()
    while len(app.scopes) < len(asked) // len(GET):
        await asyncio.sleep(0)
        assert len(connection._unparsed) <= piece + len(GET)
        if not wire.paused and sent < len(asked):
            connection.data_received(asked[sent : sent + piece])
            sent += piece
    await turns()
    assert wire.seen.count(b"HTTP/1.1 200 ") == len(asked) // len(GET)
    assert not wire.paused
    assert connection._unparsed == b""


@pytest.mark.parametrize("ahead", [GET, b"x"], ids=["a request", "a byte"])
@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\n\r\n\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"content-length: 2\r\n\r\n{}",
        CHUNKED + b"6\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
        CHUNKED + b"2;x=y\r\n{}\r\n0\r\nx-trailer: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 20_000 + b"\r\n\r\n",
        b"\r\n\r\n" + GET,
        GET,
    ],
    ids=["length", "no length", "a late length", "chunks", "trailers", "a long head", "line ends before it", "no body"],
)
async def test_nothing_is_parsed_beyond_the_end_of_a_request_wherever_its_pieces_end(connect, app, request_, ahead):
    """A position of the parser that is one byte too far would take the beginning of the next request for its own."""
    cuts = [*range(1, min(len(request_), 60)), *range(max(60, len(request_) - 40), len(request_) + 1)]
    for cut in cuts:
        connection, wire = connect()
        connection.data_received(request_[:cut])
        connection.data_received(request_[cut:] + ahead if cut < len(request_) else ahead)
        assert connection.phase is Phase.ANSWER
        assert bytes(connection._unparsed[connection._at :]) == ahead
        assert wire.paused
        connection.connection_lost(None)


@pytest.mark.parametrize("size", [300_000, 3 << 20])
async def test_bodies_that_were_sent_ahead_wait_unread_and_are_all_answered(connect, app, size):
    connection, wire = connect()
    received = []

    async def receive_all(_scope, receive, send):
        await app.go.wait()
        more, length = True, 0
        while more:
            message = await receive()
            length, more = length + len(message["body"]), message["more_body"]
        received.append(length)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    connection._app = receive_all
    asked, sent = (GET + b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size + b" " * size) * 3, 0
    while len(received) < 6:
        while not wire.paused and sent < len(asked):
            connection.data_received(asked[sent : sent + 100_000])
            sent += 100_000
            assert connection.held < 300_000 + size
        app.go.set()
        await turns(5)
    assert received == [0, size] * 3
    assert connection._unparsed == b""
    await turns()
    assert not wire.paused


async def test_a_body_is_not_read_faster_than_the_application_receives_it(connect, app):
    connection, wire = connect()
    connection.data_received(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
    sent = 0
    while not wire.paused:
        connection.data_received(bytes(1000))
        sent += 1000
    assert sent == 66_000
    connection.sweep(connection.since + 1000)
    assert connection.phase is Phase.BODY, "the client is not slow"


async def test_an_answer_waits_for_the_client_before_its_next_piece(connect, app):
    connection, wire = connect()
    wire.reads = False
    pieces = 0

    async def in_pieces(_scope, _receive, send):
        nonlocal pieces
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(1000), "more_body": True})
            pieces += 1

    connection._app = in_pieces
    connection.data_received(GET)
    await turns()
    assert 16 <= pieces <= 18, "how many it was given"
    assert wire.waiting < WRITE_BUFFER_MAX + 2000
    connection.connection_lost(None)


async def test_those_that_hold_the_most_are_closed_where_all_hold_too_much(connect, guard, monkeypatch):
    monkeypatch.setattr(connection_guard, "HELD_BYTES_MAX", 1 << 20)
    small = connect()
    small[0].data_received(GET)
    large = [connect() for _ in range(4)]
    for connection, _ in large:
        connection.data_received(GET + b"POST / HTTP/1.1\r\ncontent-length: 400000\r\n\r\n" + b" " * 399_999)
    assert guard.closed == {"memory": 2}
    assert not small[1].closed
    assert sum(wire.closed for _, wire in large) == 2
    assert sum(each.held for each in guard.connections) < 1 << 20


async def test_what_a_client_holds_is_counted(connect, app):
    connection, wire = connect()
    assert connection.held == 0
    connection.data_received(GET[:10])
    assert connection.held == 10
    connection.data_received(GET[10:])
    assert len(GET) <= connection.held < 200
    connection.data_received(GET * 1000)
    assert connection.held > 1000 * len(GET)
    connection._unparsed = b""
    wire.reads = False
    app.go.set()
    await turns()
    assert connection.held == wire.waiting > 0


async def test_a_body_that_is_discarded_is_not_held(connect, app):
    connection, _ = connect()
    app.go.set()
    connection.data_received(b"POST / HTTP/1.1\r\ncontent-length: 10000000\r\n\r\n")
    await turns()
    connection.data_received(bytes(100_000))
    assert connection.held == 0


@pytest.mark.parametrize("end", ["connection_lost", "abort"])
async def test_a_connection_is_freed_with_its_request_without_the_garbage_collector(connect, app, end):
    connection, wire = connect()
    connection.data_received(GET * 10)
    await turns()
    gone = [weakref.ref(connection), weakref.ref(connection.exchange)]
    gc.disable()
    try:
        if end == "abort":
            connection.abort("memory")
        connection.connection_lost(ConnectionResetError())
        app.go.set()
        wire.protocol = connection = None
        await turns()
        app.scopes.clear()
        assert [each() for each in gone] == [None] * len(gone)
    finally:
        gc.enable()


@pytest.mark.parametrize("end", ["sent ahead", "a body", "a head"])
async def test_a_connection_that_is_closed_frees_what_it_holds_at_once(connect, app, end):
    """The loop reads from a thousand connections before it calls `connection_lost`."""
    connection, _ = connect()
    sent = {
        "sent ahead": GET * 1000,
        "a body": b"POST / HTTP/1.1\r\ncontent-length: 50000\r\n\r\n" + bytes(40_000),
        "a head": b"GET /" + b"a" * 40_000,
    }[end]
    connection.data_received(sent)
    await turns()
    exchange = connection.exchange
    assert connection.held > 17_000
    connection.abort("memory")
    assert connection.held == 0
    assert not connection._unparsed
    assert connection._parser is None
    assert exchange is None or not exchange.body


@pytest.mark.parametrize(
    ("head", "takes"),
    [
        (b"GET / HTTP/1.1\r\n" + b"x-a: " + b"a" * 50_000 + b"\r\n\r\n", 50_000),
        (b"GET /" + b"a" * 50_000 + b" HTTP/1.1\r\n\r\n", 150_000),
        (b"GET /%F0%9F%98%80" + b"a" * 50_000 + b" HTTP/1.1\r\n\r\n", 300_000),
    ],
    ids=["fields", "an address", "an address that takes four bytes a character"],
)
async def test_the_head_of_a_request_is_counted_while_it_is_answered(connect, app, head, takes):
    connection, _ = connect()
    app.answer = b""
    connection.data_received(head)
    assert takes <= connection.held < 1.5 * takes
    app.go.set()
    await turns()
    assert connection.held == 0


async def test_an_answer_without_a_length_is_sent_in_chunks_or_until_the_end(connect):
    async def in_pieces(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"ab", b"", b"c"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    for request, body, closes in (
        (GET, b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", b"abc", True),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"", False),
    ):
        connection, wire = connect()
        connection._app = in_pieces
        connection.data_received(request)
        await turns()
        head, _, sent = wire.seen.partition(b"\r\n\r\n")
        assert sent == body
        assert (b"chunked" in head) is (body.startswith(b"2"))
        assert wire.closed is closes


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], 500),
        ([{"type": "http.response.body", "body": b"x"}], 500),
        ([{"type": "http.response.start", "status": 200}], 500),
        ([{"type": "http.response.start", "status": 200}] * 2, 500),
        (
            [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
                {"type": "http.response.body", "body": b"x"},
            ],
            500,
        ),
        (
            [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
                {"type": "http.response.body", "body": b"xyz"},
            ],
            500,
        ),
    ],
    ids=["nothing", "a body first", "no body", "two heads", "too short", "too long"],
)
async def test_an_application_that_answers_wrongly_ends_its_connection_with_500_if_nothing_was_sent(
    connect, messages, status
):
    async def wrong(_scope, _receive, send):
        for message in messages:
            await send(message)

    connection, wire = connect()
    connection._app = wrong
    connection.data_received(GET)
    await turns()
    assert wire.seen.startswith(b"HTTP/1.1 %d " % status)
    assert wire.closed


async def test_an_application_that_fails_within_its_answer_ends_its_connection(connect):
    async def fails(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError

    connection, wire = connect()
    connection._app = fails
    connection.data_received(GET)
    await turns()
    assert wire.seen.count(b"HTTP/1.1 ") == 1
    assert wire.seen.endswith(b"half")
    assert wire.closed


async def test_a_client_is_asked_for_the_body_that_it_offers_once_the_application_wants_it(connect):
    received = []

    async def reads(_scope, receive, send):
        received.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        received.append(await receive())

    connection, wire = connect()
    connection._app = reads
    connection.data_received(b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\ncontent-length: 2\r\n\r\n")
    await turns()
    assert wire.seen == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"{}")
    await turns()
    assert wire.seen.count(b"HTTP/1.1 200 OK") == 1
    assert received == [{"type": "http.request", "body": b"{}", "more_body": False}, {"type": "http.disconnect"}]
    assert connection.phase is Phase.IDLE


@pytest.mark.parametrize(
    "address",
    [
        *("/", "/a/b?c=d&e", "/a%2Fb?c%20d", "/?", "/a?b?c", "//a/b?c", "/a#b", "/a?b#c?d", "/a:b@c//d;e?/f:g@h"),
        *("http://x/a/b?c", "http://x:80?c", "http://user@x/a", "*", "x", "/%e1%88%b4", "/~'()[]{}|^`\\\""),
    ],
)
async def test_a_request_has_the_scope_that_uvicorn_makes(connect, app, address):
    """Where uvicorn gives the application no request, there is none, and the client gets 400."""
    seen = []

    async def record(scope, _receive, _send):
        seen.append(scope)

    peer = HttpToolsProtocol(uvicorn.Config(record, log_config=None, proxy_headers=False), ServerState(), {})
    connection, own = connect()
    for wire, protocol in ((Wire(), peer), (own, connection)):
        wire.protocol = protocol
        if protocol is peer:
            protocol.connection_made(wire)
        protocol.data_received(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % address.encode())
        await turns()
    theirs, ours = [*seen, None][0], [*app.scopes, None][0]
    if theirs is None:
        assert ours is None
        assert own.seen.startswith(b"HTTP/1.1 400 ")
    else:
        del theirs["state"]
        assert callable(ours.pop(RESPOND))
        assert callable(ours.pop(HAS_LEFT))
        assert callable(ours.pop(IS_ENDING))
        assert ours == theirs
