"""Order numbers under load: blocks are taken ahead, and no caller waits for its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ledger.operations.context.order_numbers import OrderNumbers
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio

KEY = b"k" * 32


class Counted(OrderNumbers):
    """Counts the blocks. `fault` is raised in place of the next ones."""

    blocks = 0
    fault: Exception | None = None

    async def _next_block(self) -> int:
        if self.fault is not None:
            raise self.fault
        self.blocks += 1
        return await super()._next_block()


@pytest.fixture
async def numbers(database_url: str) -> AsyncIterator[Counted]:
    async with Counted(database_url, KEY) as opened:
        yield opened


async def test_many_callers_share_few_blocks_and_get_different_numbers(numbers: Counted) -> None:
    taken = await asyncio.gather(*[numbers.take() for _ in range(2_500)])
    assert len(set(taken)) == 2_500
    assert numbers.blocks in {3, 4}


async def test_a_block_is_taken_before_the_last_one_is_used_up(
    numbers: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [await numbers.take() for _ in range(701)]
    assert numbers.blocks == 1
    monkeypatch.setattr(numbers, "provide", None)  # no caller waits from here on
    taken.append(await numbers.take())
    assert numbers._taking is not None
    await numbers._taking
    assert numbers.blocks == 2
    taken += [await numbers.take() for _ in range(1_000)]
    assert len(set(taken)) == 1_702


async def test_callers_that_wait_for_a_block_go_on_together_before_later_callers(numbers: Counted) -> None:
    served: list[str] = []

    async def call(name: str) -> None:
        await numbers.take()
        served.append(name)

    waiting = [asyncio.create_task(call("waited")) for _ in range(200)]
    await asyncio.sleep(0)
    later = []
    while not served:
        later.append(asyncio.create_task(call("later")))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting, *later)
    assert served[:200].count("waited") >= 199


async def test_a_fault_reaches_each_caller_that_needs_the_block_and_no_other(numbers: Counted) -> None:
    await numbers.take()
    numbers.fault = DatabaseUnavailable("gone")
    assert len({await numbers.take() for _ in range(999)}) == 999
    for fault in await asyncio.gather(*[numbers.take() for _ in range(3)], return_exceptions=True):
        assert isinstance(fault, DatabaseUnavailable)
    numbers.fault = None
    assert await numbers.take()
