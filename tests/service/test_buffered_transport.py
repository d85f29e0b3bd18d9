"""What is written to a connection in one turn of the loop leaves in one piece, and nothing overtakes it."""

import asyncio
import socket

import pytest
import uvicorn
import uvloop

from ledger.service.http.buffered_transport import BufferedTransport
from ledger.service.http.connection_guard import ConnectionGuard
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """Records what is called."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.seen = []

    def write(self, data):
        self.seen.append(bytes(data))

    def write_eof(self):
        self.seen.append("eof")

    def close(self):
        self.seen.append("close")

    def abort(self):
        self.seen.append("abort")

    def is_closing(self):
        return "close" in self.seen

    def set_write_buffer_limits(self, high=None):
        pass

    def pause_reading(self):
        self.seen.append("pause")

    def resume_reading(self):
        self.seen.append("resume")

    def get_write_buffer_size(self):
        return 7


@pytest.fixture
async def wire():
    return Wire()


@pytest.fixture
async def buffered(wire):
    return BufferedTransport(wire)


async def turn():
    await asyncio.sleep(0)


async def test_a_head_and_its_body_leave_together_in_order(wire, buffered):
    buffered.write(b"head ")
    buffered.write(b"body")
    assert wire.seen == []
    assert buffered.get_write_buffer_size() == 9 + 7
    await turn()
    assert wire.seen == [b"head body"]
    assert buffered.get_write_buffer_size() == 7


async def test_every_turn_of_the_loop_sends_what_was_written_in_it(wire, buffered):
    buffered.write(b"first")
    await turn()
    buffered.write(b"second")
    await turn()
    await turn()
    assert wire.seen == [b"first", b"second"]


async def test_what_is_flushed_does_not_wait_for_the_turn_to_end(wire, buffered):
    buffered.write(b"head ")
    buffered.write(b"body")
    buffered.flush()
    assert wire.seen == [b"head body"]
    await turn()
    buffered.flush()
    assert wire.seen == [b"head body"]


async def test_what_cannot_be_written_is_not_tried_again(wire, buffered):
    def broken(_data):
        raise RuntimeError("the other end is gone")

    wire.write = broken
    buffered.write(b"in vain")
    with pytest.raises(RuntimeError):
        buffered.flush()
    assert buffered.get_write_buffer_size() == 7
    buffered.close()
    assert wire.seen == ["close"]


@pytest.mark.parametrize("end", ["close", "write_eof"])
async def test_an_end_waits_for_what_was_written_before_it(wire, buffered, end):
    buffered.write(b"last ")
    buffered.write(b"words")
    getattr(buffered, end)()
    await turn()
    assert wire.seen == [b"last words", {"close": "close", "write_eof": "eof"}[end]]


async def test_an_aborted_connection_sends_nothing_more(wire, buffered):
    buffered.write(b"too late")
    buffered.abort()
    await turn()
    assert wire.seen == ["abort"]


async def test_all_other_methods_are_the_transports_own(wire, buffered):
    buffered.pause_reading()
    buffered.resume_reading()
    assert wire.seen == ["pause", "resume"]
    assert buffered.get_extra_info("peername") == ("127.0.0.1", 1)
    assert buffered.get_extra_info("sslcontext") is None
    assert not buffered.is_closing()
    buffered.close()
    assert buffered.is_closing()


class Client:
    """A client of a connection that the running loop serves."""

    def __init__(self, app):
        self.guard = ConnectionGuard(Settings(), connections_max=10)
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))

    async def dial(self):
        config, state = self.server.config, self.server.server_state
        listener = socket.create_server(("127.0.0.1", 0))
        serving = await asyncio.get_running_loop().create_server(
            lambda: self.guard.connection(config=config, server_state=state, app_state={}), sock=listener
        )
        self.socket = socket.create_connection(listener.getsockname())
        self.socket.settimeout(5)
        return serving


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_client_that_closed_its_side_still_gets_the_answer_that_was_written(run, method):
    async def app(scope, receive, send):
        client.socket.shutdown(socket.SHUT_WR)  # seen at the next look at the sockets, whatever is written meanwhile
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})

    async def exchange():
        serving = await client.dial()
        client.socket.sendall(method + b" / HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await asyncio.to_thread(client.socket.recv, 1000)
        serving.close()
        return answer

    client = Client(app)
    head, _, body = run(exchange()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == (b"body" if method == b"GET" else b"")


async def test_what_was_written_when_the_connection_was_lost_is_dropped_without_an_error():
    lost = asyncio.Event()
    errors = []

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.buffered = BufferedTransport(transport)

        def connection_lost(self, _):
            self.buffered.write(b"a line of a long answer")
            lost.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    server = await loop.create_server(Server, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.close()
    await lost.wait()
    await turn()
    server.close()
    assert errors == []
