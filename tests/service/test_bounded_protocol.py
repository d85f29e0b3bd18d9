"""What one connection makes the process hold, at its bounds, with a transport that the test controls."""

import asyncio
import gc
import weakref

import pytest
import uvicorn

from api.http.middleware import _HEADERS_MAX
from ledger.asgi import RESPOND
from ledger.service.http import connection_guard
from ledger.service.http.bounded_protocol import HEAD_FIELDS_MAX, WAITING_BODIES_MAX, WAITING_MAX
from ledger.service.http.buffered_transport import WRITE_BUFFER_MAX
from ledger.service.http.connection_guard import ConnectionGuard
from ledger.service.http.http_messages import HEAD_BYTES_MAX
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """A client that takes every byte at once, or none where it `reads` none. `paused` is whether its bytes are read."""

    reads, paused, closed, high = True, False, False, None

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

    def __init__(self):
        self.go = asyncio.Event()
        self.scopes = []

    async def __call__(self, scope, _receive, send):
        self.scopes.append(scope)
        await self.go.wait()
        size = b"%d" % len(self.answer)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        await send({"type": "http.response.body", "body": self.answer})


class WholeApp(App):
    """Answers in one call where the connection takes it; `whole` has what each request's call returned."""

    headers = ()

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


@pytest.fixture
async def connect(app, guard):
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", proxy_headers=False))

    def connect():
        connection = guard.connection(config=server.config, server_state=server.server_state, app_state={})
        wire = Wire()
        wire.protocol = connection
        connection.connection_made(wire)
        return connection, wire

    return connect


async def turns(n=200):
    for _ in range(n):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("requests", "whole"),
    [
        (GET, [True]),
        (GET * 3, [True] * 3),
        (CHUNKED + b"0\r\n\r\n" + GET, [True, True]),
        (b"HEAD / HTTP/1.1\r\n\r\n" + GET, [False, True]),
        (b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", [False]),
        (b"GET / HTTP/1.0\r\n\r\n", [False]),
        (b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", [True]),
    ],
    ids=["one", "three at once", "chunks", "HEAD", "close", "HTTP/1.0", "expects 100"],
)
async def test_a_whole_answer_is_what_two_messages_send(guard, requests, whole):
    seen = []
    for app in (App(), WholeApp()):
        app.go.set()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", proxy_headers=False))
        connection = guard.connection(config=server.config, server_state=server.server_state, app_state={})
        wire = Wire()
        wire.protocol = connection
        connection.connection_made(wire)
        connection.data_received(requests)
        await turns()
        seen.append((wire.seen, wire.closed, server.server_state.total_requests))
    assert app.whole == whole
    assert seen[0] == seen[1]
    assert seen[0][0].count(b"HTTP/1.1 200 OK") == len(whole)


async def test_a_header_with_a_line_end_and_a_client_that_does_not_read_take_the_two_messages(guard):
    app = WholeApp()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", proxy_headers=False))
    connection = guard.connection(config=server.config, server_state=server.server_state, app_state={})
    wire = Wire()
    wire.protocol = connection
    connection.connection_made(wire)
    app.headers = [(b"x", b"a\r\ny: b")]
    app.go.set()
    connection.data_received(GET)
    await turns()
    assert app.whole == [False]
    app.headers = ()
    connection.pause_writing()
    connection.data_received(GET)
    await turns()
    assert app.whole == [False, False]
    connection.resume_writing()
    connection.data_received(GET)
    await turns()
    assert app.whole == [False, False, True]


@pytest.mark.parametrize("at_once", [True, False], ids=["with the request", "later"])
async def test_trailers_never_reach_the_request(connect, app, at_once):
    connection, _ = connect()
    parts = CHUNKED, b"2\r\n{}\r\n0\r\n", b"x-api-key: secret\r\nexpect: 100-continue\r\n\r\n"
    for part in [b"".join(parts)] if at_once else parts:
        connection.data_received(part)
        await turns()
    (scope,) = app.scopes
    assert scope["headers"] == [(b"transfer-encoding", b"chunked")]
    assert not connection.expect_100_continue
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
    while not connection._stopped_reading:
        connection.data_received(field * 100)
        sent += 100 * len(field)
        assert sent < 2 * HEAD_BYTES_MAX
    await turns()
    assert sent > HEAD_BYTES_MAX
    assert guard.closed == {"head_too_large": 1}
    assert connection.parser is None, "it would hold the field"
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
async def test_sixteen_requests_wait_then_nothing_is_read_and_all_are_answered(connect, app, piece):
    connection, wire = connect()
    asked = GET * 5000 if piece > 18 else GET * 50
    sent = 0
    while sent < len(asked) and not connection.flow.is_full:  # uvicorn reads on wherever a request receives its body
        connection.data_received(asked[sent : sent + piece])
        assert len(connection.pipeline) <= WAITING_MAX
        sent += piece
    await turns()
    assert len(connection.pipeline) == WAITING_MAX
    assert wire.paused
    connection._current.flow.resume_reading()  # as that request does
    assert wire.paused
    app.go.set()
    most = 0
    while len(app.scopes) < len(asked) // len(GET):
        await asyncio.sleep(0)
        most = max(most, len(connection.pipeline))
        if not wire.paused and sent < len(asked):
            connection.data_received(asked[sent : sent + piece])
            sent += piece
    await turns()
    assert most <= WAITING_MAX
    assert wire.seen.count(b"HTTP/1.1 200 ") == len(asked) // len(GET)
    assert not wire.paused


LONG = b"GET / HTTP/1.1\r\nx: " + b"a" * (16 << 10)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
async def test_a_head_whose_end_arrives_in_two_parts_is_one_of_the_sixteen(connect, cut):
    connection, _ = connect()
    connection.data_received(GET * 16)
    connection.data_received(GET[:-cut])
    connection.data_received(GET[-cut:] + GET)
    assert len(connection.pipeline) == WAITING_MAX
    assert connection._unparsed == GET


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_head_whose_end_lies_in_two_pieces_is_one_of_the_sixteen(connect, cut):
    connection, _ = connect()
    connection.data_received(GET * 16)
    connection.data_received(LONG[: (16 << 10) - cut] + b"\r\n\r\n" + GET)
    assert len(connection.pipeline) == WAITING_MAX
    assert connection._unparsed == GET


async def test_a_mebibyte_of_bodies_waits_then_nothing_is_read_and_all_are_answered(connect, app):
    connection, wire = connect()
    size = 300_000
    one = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (size, b" " * size)
    asked = one * 10

    def bodies():
        return sum(len(cycle.body) for cycle, _ in connection.pipeline)

    connection.data_received(asked)  # in one piece, which no system sends
    assert WAITING_BODIES_MAX - (32 << 10) < bodies() <= WAITING_BODIES_MAX
    assert len(connection._unparsed) > size
    assert wire.paused
    app.go.set()
    while len(app.scopes) < 10:
        await asyncio.sleep(0)
        assert bodies() <= WAITING_BODIES_MAX
    await turns()
    assert wire.seen.count(b"HTTP/1.1 200 ") == 10
    assert connection._unparsed == b""
    assert not wire.paused


async def test_a_large_body_that_waited_is_received_once_its_request_is_answered(connect, app):
    """It filled the connection while it waited, and the rest of it must not be waited for without reading."""
    connection, wire = connect()
    received = []

    async def receive_all(_scope, receive, send):
        await app.go.wait()
        more, size = True, 0
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        received.append(size)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    connection.app = receive_all
    size, sent = 3 << 20, 0
    asked = GET + b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size + b" " * size
    while len(received) < 2:
        while not wire.paused and sent < len(asked):
            connection.data_received(asked[sent : sent + 100_000])
            sent += 100_000
        assert app.go.is_set() or sent < len(asked)
        app.go.set()
        await turns(5)
    assert received == [0, size]


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

    connection.app = in_pieces
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
    assert guard.closed == {"memory": 3}
    assert not small[1].closed
    assert sum(wire.closed for _, wire in large) == 3
    assert sum(each.held for each in guard.connections) < 1 << 20


async def test_what_a_client_holds_is_counted(connect, app):
    connection, wire = connect()
    assert connection.held == 0
    connection.data_received(GET[:10])
    assert connection.held == 10
    connection.data_received(GET[10:])
    assert connection.held == len(GET)
    for _ in range(30):
        connection.data_received(GET)
    assert connection.held > WAITING_MAX * 2048 + 14 * len(GET)
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
async def test_what_waited_is_freed_with_its_connection_without_the_garbage_collector(connect, app, guard, end):
    connection, wire = connect()
    connection.data_received(GET * 10)
    await turns()
    waiting = [weakref.ref(cycle) for cycle, _ in connection.pipeline]
    assert waiting
    gc.disable()
    try:
        if end == "abort":
            connection.abort("memory")
        connection.connection_lost(ConnectionResetError())
        app.go.set()
        await turns()
        gone, wire.protocol = [weakref.ref(connection), *waiting], None
        del connection
        assert [each() for each in gone] == [None] * len(gone)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("head", "takes"),
    [
        (b"GET / HTTP/1.1\r\n" + b"x-a: " + b"a" * 50_000 + b"\r\n\r\n", 50_000),
        (b"GET /" + b"a" * 50_000 + b" HTTP/1.1\r\n\r\n", 150_000),
        (b"GET /%F0%9F%98%80" + b"a" * 50_000 + b" HTTP/1.1\r\n\r\n", 300_000),
    ],
    ids=["fields", "an address", "an address that takes four bytes a character"],
)
async def test_the_head_of_a_request_is_counted_while_it_waits_and_while_it_is_answered(connect, app, head, takes):
    connection, _ = connect()
    app.answer = b""
    connection.data_received(GET)
    for _ in range(3):
        connection.data_received(head)
    assert 3 * takes < connection.held < 4.5 * takes
    await turns()
    connection._current.on_response()
    connection.data_received(GET)
    assert 3 * takes < connection.held < 4.5 * takes, "the first of them is being answered"
    app.go.set()
    await turns()
    assert connection.held == 0


async def test_a_count_of_what_is_held_looks_at_no_waiting_request(connect, app):
    """The guard counts all connections after every mebibyte: 35,000 waiting requests would hold up the process."""
    connection, _ = connect()
    connection.data_received(GET * 10)
    held = connection.held
    connection.pipeline = connection._waiting_heads = None
    assert connection.held == held > 9 * 2048


async def test_a_connection_that_is_closed_frees_its_waiting_requests_at_once(connect, app):
    """The loop reads from a thousand connections before it calls `connection_lost`."""
    connection, _ = connect()
    connection.data_received(GET * 10)
    await turns()
    waiting = [weakref.ref(cycle) for cycle, _ in connection.pipeline]
    gc.disable()
    try:
        connection.abort("memory")
        assert [each() for each in waiting] == [None] * 9
    finally:
        gc.enable()
    assert not connection.scope
    assert not connection.url
