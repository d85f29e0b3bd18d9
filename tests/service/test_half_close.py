"""A client that closes its side after its request gets the answer; one that closes in the middle of it gets none."""

import asyncio
import socket

import pytest
import uvloop
from tests.service.served import Client

from ledger.asgi import HAS_LEFT

pytestmark = pytest.mark.anyio

GET = b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n"
CUT = b"POST /cut HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"


class App:
    """Answers a request with its path once the server has seen the end of what the client sends."""

    def __init__(self):
        self.asked = []

    async def __call__(self, scope, receive, send):
        self.asked.append(scope["path"])
        await asyncio.sleep(0.05)
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        body = scope["path"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


def answers(run, sent):
    """Returns all that the server sends back before it closes the connection."""
    client = Client(App())

    def exchange(connection):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while more := connection.recv(1000):
            received += more
        return received

    async def main():
        serving = await client.dial()
        received = await asyncio.to_thread(exchange, client.socket)
        serving.close()
        return received

    received = run(main())
    assert not client.guard.connections
    return received


both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@both_loops
@pytest.mark.parametrize("count", [1, 3])
def test_requests_are_answered_and_the_connection_closed_after_their_client_closed_its_side(run, count):
    received = answers(run, b"".join(GET % n for n in range(count)))
    assert [f"/{n}".encode() in received for n in range(count)] == [True] * count
    assert received.count(b"HTTP/1.1 200 ") == count


@both_loops
def test_a_head_that_is_cut_off_does_not_cost_the_answer_before_it(run):
    received = answers(run, GET % 1 + b"GET /2 HT")
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.endswith(b"/1")


@both_loops
def test_a_request_whose_body_is_cut_off_is_not_answered(run):
    assert b" 200 " not in answers(run, CUT)
    received = answers(run, GET % 1 + CUT)
    assert received.count(b"HTTP/1.1 200 ") == 1
    assert b"/1" in received


@both_loops
def test_a_client_without_a_request_is_not_kept(run):
    assert answers(run, b"") == b""


async def test_a_body_that_is_cut_off_behind_another_request_does_not_cost_the_answer_before_it():
    """The transport may report the end while the first request is answered and the second one waits."""
    client = Client(App())
    serving = await client.dial()
    connection = client.connection()
    near, far = socket.socketpair()
    await asyncio.get_running_loop().create_connection(lambda: connection, sock=near)
    connection.data_received(GET % 1 + CUT)
    assert connection.eof_received()
    far.settimeout(5)
    received = b""
    while more := await asyncio.to_thread(far.recv, 1000):
        received += more
    far.close()
    serving.close()
    client.socket.close()
    assert received.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 200 " in received
    assert b"HTTP/1.1 400 " in received


class Leaving:
    """Answers once the client has left, with how often it looked before."""

    def __init__(self):
        self.began, self.noticed = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        assert not scope[HAS_LEFT]()
        self.began.set()
        while not scope[HAS_LEFT]():  # noqa: ASYNC110 - the application looks between two pieces of its work
            await asyncio.sleep(0.01)
        self.noticed.set()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("leave", [lambda client: client.close(), lambda client: client.shutdown(socket.SHUT_WR)])
async def test_the_application_can_see_that_the_client_of_a_request_has_left(leave):
    app = Leaving()
    client = Client(app)
    serving = await client.dial()
    client.socket.sendall(GET % 1)
    async with asyncio.timeout(10):
        await app.began.wait()
        leave(client.socket)
        await app.noticed.wait()
    serving.close()
    client.socket.close()
