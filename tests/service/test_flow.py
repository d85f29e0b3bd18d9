"""What is read and written of a connection, and when it waits."""

import asyncio
import socket

import pytest
import uvloop
from tests.service.served import Client

from ledger.service.http.flow import Flow

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """Records what is called."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.seen = []

    def write(self, data):
        self.seen.append(bytes(data))

    def close(self):
        self.seen.append("close")

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
async def flow(wire):
    return Flow(wire)


async def test_each_direction_is_paused_and_resumed_once(wire, flow):
    flow.resume_reading()
    flow.pause_reading()
    flow.pause_reading()
    assert not flow.is_reading
    flow.resume_reading()
    flow.resume_reading()
    assert wire.seen == ["pause", "resume"]


async def test_a_piece_waits_until_there_is_room(flow):
    await flow.drain()
    flow.pause_writing()
    waiting = asyncio.create_task(flow.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not flow.has_room
    flow.resume_writing()
    await asyncio.wait_for(waiting, 60)


async def test_what_has_left_the_process_is_counted(flow):
    flow.write(b"0123456789")
    assert flow.taken == 3, "seven wait"


async def test_nothing_is_written_to_a_connection_that_is_closing(wire, flow):
    wire.close()
    flow.write(b"too late")
    assert wire.seen == ["close"]


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


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_is_written_to_a_lost_connection_is_dropped_without_an_error(run):
    async def lose():
        lost = asyncio.Event()
        errors = []

        class Server(asyncio.Protocol):
            def connection_made(self, transport):
                self.flow = Flow(transport)

            def connection_lost(self, _):
                self.flow.write(b"a line of a long answer")
                lost.set()

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        server = await loop.create_server(Server, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.close()
        await lost.wait()
        await asyncio.sleep(0)
        server.close()
        assert errors == []

    run(lose())
