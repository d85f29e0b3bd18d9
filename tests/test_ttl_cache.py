"""A value in use is read again before its time is over; no change is hidden by a read that began before it."""

from __future__ import annotations

import asyncio

import pytest

from ledger.ttl_cache import ReadAheadCache

pytestmark = pytest.mark.anyio


class Table:
    """A table with one row, which answers when the test lets it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.row = "first"
        self.reads = 0
        self.free = asyncio.Event()
        self.free.set()
        self.cache = ReadAheadCache[str, str](10, 2.0, lambda: self.now)

    async def read(self) -> str:
        self.reads += 1
        row = self.row
        await self.free.wait()
        if row == "broken":
            raise ConnectionError("the database is away")
        return row

    async def get(self) -> str:
        """Reads as a request does, which makes a coroutine only for a value that it has to wait for."""
        return self.cache.known("key", self.read) or await self.cache.get("key", self.read)


async def test_a_value_in_use_is_read_again_by_one_caller_and_waited_for_by_none():
    table = Table()
    assert [await table.get(), await table.get(), table.reads] == ["first", "first", 1]
    table.now, table.row = 1.6, "second"
    table.free.clear()
    assert [await table.get() for _ in range(3)] == ["first"] * 3, "nobody waits"
    table.free.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [await table.get(), table.reads] == ["second", 2]
    table.now = 3.0
    assert [await table.get(), table.reads] == ["second", 2], "the time counts from the second read"


async def test_a_value_is_never_used_after_its_time_and_its_callers_share_a_read():
    table = Table()
    await table.get()
    table.now, table.row = 1.9, "broken"
    assert await table.get() == "first"
    await asyncio.sleep(0)
    assert table.reads == 2, "what a read ahead raises reaches no caller"
    table.now = 2.1
    answers = await asyncio.gather(*[table.get() for _ in range(5)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [ConnectionError] * 5
    assert table.reads == 3
    table.row = "third"
    assert await table.get() == "third"


async def test_a_caller_that_goes_away_ends_no_other_callers_read():
    table = Table()
    table.free.clear()
    first, second = asyncio.create_task(table.get()), asyncio.create_task(table.get())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    table.free.set()
    assert [await second, table.reads] == ["first", 1]


@pytest.mark.parametrize("one", [True, False])
async def test_a_read_that_began_before_a_change_is_not_kept(*, one: bool):
    table = Table()
    await table.get()
    table.now = 1.6
    table.free.clear()
    await table.get()
    await asyncio.sleep(0)  # the read ahead has seen the first row
    table.row = "changed"
    if one:
        table.cache.drop("key")
    else:
        table.cache.drop_where(lambda value: value == "first")
    waiting = asyncio.create_task(table.get())
    await asyncio.sleep(0)
    table.free.set()
    assert [await waiting, await table.get(), table.reads] == ["changed", "changed", 3]
