"""What the guard decides about a connection at its sweeps, with a transport that the test controls."""

import asyncio

import pytest
from uvicorn.server import ServerState

from ledger.service.http.connection import Connection
from ledger.service.http.connection_guard import DRAIN_IDLE_S, ConnectionGuard
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

ANSWER = b"x" * 1000


class Wire(asyncio.Transport):
    """Takes what is written; `waiting` is how many bytes of it the client has not read."""

    waiting = 0
    aborted = False
    lost = False

    def write(self, data):
        if self.lost:
            raise RuntimeError("the handler is closed")  # as uvloop does
        self.waiting += len(data)

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, _name, default=None):
        return default

    def set_write_buffer_limits(self, high=None):
        pass

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def is_closing(self):
        return self.aborted

    def write_eof(self):
        pass

    def abort(self):
        self.aborted = True


@pytest.fixture
async def wire():
    return Wire()


class App:
    """Answers a request once `go` is set. `answered` has the result of that."""

    def __init__(self):
        self.go = asyncio.Event()
        self.answered = asyncio.get_running_loop().create_future()

    async def __call__(self, _scope, _receive, send):
        await self.go.wait()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
            await send({"type": "http.response.body", "body": ANSWER})
        except RuntimeError as fault:
            self.answered.set_exception(fault)
        else:
            self.answered.set_result(None)


@pytest.fixture
async def app():
    return App()


@pytest.fixture
async def connection(wire, app):
    guard = ConnectionGuard(Settings(body_timeout_s=20), connections_max=10)
    connection = Connection(app, guard, ServerState())
    connection.connection_made(wire)
    return connection


async def test_a_client_that_reads_one_answer_while_the_next_is_made_keeps_its_connection(connection, wire):
    began = connection.since
    for second in range(1, 100):
        connection.flow.write(ANSWER)
        wire.waiting = len(ANSWER)  # the one before was taken
        connection.sweep(began + second)
    assert not wire.aborted


async def test_a_client_that_reads_nothing_is_disconnected_when_its_time_is_over(connection, wire):
    connection.flow.write(ANSWER)
    wire.waiting -= 10  # went on its way at once
    began = connection.since
    for second in range(1, 20):
        connection.sweep(began + second)
    assert not wire.aborted
    for second in range(20, 25):
        connection.sweep(began + second)
    assert wire.aborted
    assert connection._guard.closed.keys() == {"unread"}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nhost: ", "head_timeout"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{", "body_timeout"),
    ],
)
async def test_a_request_that_arrives_slowly_does_not_delay_the_end(connection, wire, sent, reason):
    connection.data_received(sent)
    began = connection.since
    connection.sweep(began + 2 * DRAIN_IDLE_S)
    assert connection._guard.closed == {}
    connection._guard.is_draining = True
    connection.sweep(began + DRAIN_IDLE_S / 2)
    assert connection._guard.closed == {}, "the rest may be on its way"
    connection.sweep(began + 2 * DRAIN_IDLE_S)
    assert connection._guard.closed == {reason: 1}
    assert wire.waiting, "it is answered"


async def test_a_client_that_reads_nothing_does_not_delay_the_end(connection, wire):
    connection.flow.write(ANSWER)
    connection.sweep(connection.since + 0.1)
    connection.sweep(connection.since + 2 * DRAIN_IDLE_S)
    assert not wire.aborted
    connection._guard.is_draining = True
    connection.sweep(connection.since + 2 * DRAIN_IDLE_S)
    assert wire.aborted


@pytest.mark.parametrize("sent_ahead", [1, 2, 3])
async def test_a_client_that_disconnected_is_not_answered_however_many_requests_it_sent_ahead(
    connection, wire, app, sent_ahead
):
    connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * sent_ahead)
    await asyncio.sleep(0)
    connection.connection_lost(ConnectionResetError())
    wire.lost = True
    app.go.set()
    await app.answered  # raises what came of it
