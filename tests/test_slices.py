"""Long work in slices: one at a time, with turns of the event loop and a pause in between."""

from __future__ import annotations

import asyncio

import pytest

from ledger import slices as module
from ledger.slices import Slices

pytestmark = pytest.mark.anyio


async def test_the_loop_runs_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_S", 0.0)
    slices, turns = Slices(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    async with slices.work() as work:
        for _ in range(20):
            await work.end_piece()
    other.cancel()
    assert (slices.count, turns >= 20) == (20, True)


async def test_short_pieces_share_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_S", 3600.0)
    slices = Slices()
    async with slices.work() as work:
        for _ in range(20):
            await work.end_piece()
    assert slices.count == 0


async def test_those_who_want_a_slice_get_it_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_S", 0.0)
    slices, order, at_work = Slices(), list[int](), 0

    async def one(n: int) -> None:
        nonlocal at_work
        async with slices.work() as work:
            for _ in range(3):
                at_work += 1
                assert at_work == 1
                order.append(n)
                at_work -= 1
                await work.end_piece()

    await asyncio.gather(*[one(n) for n in range(3)])
    assert order == [0, 1, 2] * 3


async def test_work_that_is_cancelled_while_it_waits_leaves_the_slice_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SLICE_S", 0.0)
    slices = Slices()

    async def endless() -> None:
        async with slices.work() as work:
            while True:
                await work.end_piece()

    tasks = [asyncio.create_task(endless()) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(10), slices.work() as work:
        await work.end_piece()
