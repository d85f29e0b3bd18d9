"""What the door decides about a connection at its looks, with a wire that does what the test says."""

import asyncio

import pytest
import uvicorn

from ledger.connections import Door, Patience

pytestmark = pytest.mark.anyio

ANSWER = b"x" * 1000


class Wire(asyncio.Transport):
    """Takes what it is given; `waiting` says how much of it the client has not."""

    waiting = 0
    aborted = False

    def write(self, data):
        self.waiting += len(data)

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, _name, default=None):
        return default

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


@pytest.fixture
async def wire():
    return Wire()


@pytest.fixture
async def connection(wire):
    server = uvicorn.Server(uvicorn.Config(print, log_config=None, lifespan="off"))
    door = Door(Patience(body_s=20))
    connection = door.connection(config=server.config, server_state=server.server_state, app_state={})
    connection.connection_made(wire)
    return connection


async def test_who_takes_one_answer_while_the_next_is_made_is_not_cut_off(connection, wire):
    began = connection.since
    for second in range(1, 100):
        connection.transport.write(ANSWER)
        connection.transport.flush()
        wire.waiting = len(ANSWER)  # the one before was taken
        connection.look(began + second)
    assert not wire.aborted


async def test_who_takes_nothing_is_cut_off_when_its_time_is_over(connection, wire):
    connection.transport.write(ANSWER)
    connection.transport.flush()
    wire.waiting -= 10  # went on its way at once
    began = connection.since
    for second in range(1, 20):
        connection.look(began + second)
    assert not wire.aborted
    for second in range(20, 25):
        connection.look(began + second)
    assert wire.aborted
    assert connection._door.closed.keys() == {"unread"}
