"""What is written to a connection in one turn of the loop leaves in one piece, and nothing overtakes it."""

import asyncio

import pytest

from ledger.gathered import Gathered

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
    return Gathered(wire)


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
