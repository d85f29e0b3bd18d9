"""The server of an API process, with a socket and a client: what uvicorn and our connections do together.

A new release of uvicorn may come in once these tests and those of the connections pass with it.
"""

import asyncio
import errno
import socket
from email.utils import parsedate_to_datetime

import pytest

from ledger.service.http import acceptor
from ledger.service.http.http_server import Server
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class App:
    """Answers a request once `go` is set, and takes part in the server's start and end."""

    def __init__(self):
        self.go = asyncio.Event()
        self.begun = 0
        self.lifespan = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{kind}"
                self.lifespan.append(kind)
                await send({"type": f"lifespan.{kind}.complete"})
            return
        self.begun += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def app():
    return App()


@pytest.fixture
async def serving(app):
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(app, Settings())
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    address = listener.getsockname()
    yield server, running, address
    server.should_exit = True
    app.go.set()
    await running


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the other side changes it
            await asyncio.sleep(0.01)


async def test_an_answer_has_the_date(app, serving):
    _, _, address = serving
    app.go.set()
    await asyncio.sleep(0.2)  # uvicorn sets its headers at its first tick
    reader, writer = await asyncio.open_connection(*address)
    writer.write(GET)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    (date,) = [line.removeprefix("date: ") for line in head.split("\r\n") if line.startswith("date: ")]
    assert parsedate_to_datetime(date).tzinfo is not None
    assert "server:" not in head
    assert "connection:" not in head
    writer.close()


async def test_a_request_that_is_being_answered_gets_its_answer_before_the_end_and_so_does_one_in_the_queue(
    app, serving
):
    server, running, address = serving
    first, second = [await asyncio.open_connection(*address) for _ in range(2)]
    first[1].write(GET)
    await until(lambda: app.begun == 1)
    waiting = socket.create_connection(address)  # the loop has not accepted it when the end begins
    waiting.sendall(GET)
    server.should_exit = True
    await until(lambda: server.guard.is_draining)
    second[1].write(GET)
    await until(lambda: app.begun == 3)
    assert not running.done()
    assert app.lifespan == ["startup"]
    app.go.set()
    for reader in (first[0], second[0]):
        answer = await asyncio.wait_for(reader.read(), 30)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
    answer = await asyncio.to_thread(waiting.recv, 1000)
    assert answer.startswith(b"HTTP/1.1 200 ")
    await asyncio.wait_for(running, 30)
    assert app.lifespan == ["startup", "shutdown"]
    assert not server.guard.connections
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*address)
    for _, writer in (first, second):
        writer.close()
    waiting.close()


async def test_all_connections_that_wait_are_accepted_in_one_turn_of_the_event_loop(serving):
    server, _, address = serving
    waiting = [socket.create_connection(address) for _ in range(64)]
    for _ in range(4):  # one turn finds them, the others open them
        await asyncio.sleep(0)
    assert server.guard.accepted == 64, "libuv's own server accepts one in each turn"
    for each in waiting:
        each.close()


async def test_a_connection_for_which_the_system_has_no_descriptor_waits_and_is_accepted_later(
    app, serving, monkeypatch
):
    server, _, address = serving
    monkeypatch.setattr(acceptor, "_PAUSE_S", 0.01)
    accepting = server._acceptors[0]
    listener, refused = accepting._listener, []

    class Exhausted:
        def accept(self):
            refused.append(accepting._listener)
            accepting._listener = listener
            raise OSError(errno.EMFILE, "Too many open files")

        def fileno(self):
            return listener.fileno()

    accepting._listener = Exhausted()
    app.go.set()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(GET)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert len(refused) == 1
    writer.close()
    accepting._listener = Exhausted()
    await accepting.stop()
    assert len(refused) == 2
    assert accepting._resuming.cancelled(), "a process that ends accepts no later connection"


async def test_an_idle_connection_does_not_delay_the_end(serving):
    server, running, address = serving
    reader, writer = await asyncio.open_connection(*address)
    await until(lambda: server.guard.connections)
    server.should_exit = True
    assert await asyncio.wait_for(reader.read(), 30) == b""
    await asyncio.wait_for(running, 30)
    writer.close()
