"""What is written to a connection in one turn of the loop leaves in one piece, and nothing overtakes it."""

import asyncio
import socket

import pytest
import uvicorn
import uvloop

from ledger.service.buffered_transport import BufferedTransport
from ledger.service.connection_guard import ConnectionGuard
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """Notes what is done to it."""

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
async def gathered(wire):
    return BufferedTransport(wire)


async def turn():
    await asyncio.sleep(0)


async def test_a_head_and_its_body_leave_together_in_order(wire, gathered):
    gathered.write(b"head ")
    gathered.write(b"body")
    assert wire.seen == []
    assert gathered.get_write_buffer_size() == 9 + 7
    await turn()
    assert wire.seen == [b"head body"]
    assert gathered.get_write_buffer_size() == 7


async def test_every_turn_sends_its_own(wire, gathered):
    gathered.write(b"first")
    await turn()
    gathered.write(b"second")
    await turn()
    await turn()
    assert wire.seen == [b"first", b"second"]


async def test_what_is_flushed_does_not_wait_for_the_turn_to_end(wire, gathered):
    gathered.write(b"head ")
    gathered.write(b"body")
    gathered.flush()
    assert wire.seen == [b"head body"]
    await turn()
    gathered.flush()
    assert wire.seen == [b"head body"]


async def test_what_cannot_be_written_is_not_tried_again(wire, gathered):
    def broken(_data):
        raise RuntimeError("the other end is gone")

    wire.write = broken
    gathered.write(b"in vain")
    with pytest.raises(RuntimeError):
        gathered.flush()
    assert gathered.get_write_buffer_size() == 7
    gathered.close()
    assert wire.seen == ["close"]


@pytest.mark.parametrize("end", ["close", "write_eof"])
async def test_an_end_waits_for_what_was_written_before_it(wire, gathered, end):
    gathered.write(b"last ")
    gathered.write(b"words")
    getattr(gathered, end)()
    await turn()
    assert wire.seen == [b"last words", {"close": "close", "write_eof": "eof"}[end]]


async def test_who_is_cut_off_hears_nothing_more(wire, gathered):
    gathered.write(b"too late")
    gathered.abort()
    await turn()
    assert wire.seen == ["abort"]


async def test_all_else_is_the_connections_own(wire, gathered):
    gathered.pause_reading()
    gathered.resume_reading()
    assert wire.seen == ["pause", "resume"]
    assert gathered.get_extra_info("peername") == ("127.0.0.1", 1)
    assert gathered.get_extra_info("sslcontext") is None
    assert not gathered.is_closing()
    gathered.close()
    assert gathered.is_closing()


class Client:
    """Talks to a connection that is served by the running loop."""

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
def test_a_client_that_asks_no_more_still_hears_the_answer_that_was_written(run, method):
    async def app(scope, receive, send):
        client.socket.shutdown(socket.SHUT_WR)  # seen at the next look at the sockets, whatever is written meanwhile
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})

    async def talk():
        serving = await client.dial()
        client.socket.sendall(method + b" / HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await asyncio.to_thread(client.socket.recv, 1000)
        serving.close()
        return answer

    client = Client(app)
    head, _, body = run(talk()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == (b"body" if method == b"GET" else b"")
