"""Slots: a limit for each merchant, and one in turn for each merchant that waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from ledger.background.fair_slots import FairSlots

pytestmark = pytest.mark.anyio

A, B, C = (uuid7() for _ in range(3))


class Calls:
    """Calls that last until they are ended."""

    def __init__(self, slots: FairSlots[int]) -> None:
        self._slots = slots
        self._ends: dict[int, asyncio.Event] = {}
        self.begun: list[UUID] = []
        self.done: list[int] = []

    def start(self, merchant_id: UUID, *keys: int) -> None:
        for key in keys:
            self._ends.setdefault(key, asyncio.Event())
            self._slots.start(merchant_id, key, lambda merchant_id=merchant_id, key=key: self._call(merchant_id, key))

    async def _call(self, merchant_id: UUID, key: int) -> None:
        self.begun.append(merchant_id)
        await self._ends[key].wait()
        self.done.append(key)

    async def end(self, *keys: int) -> None:
        for key in keys:
            self._ends[key].set()
        await settle()


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_merchant_fills_its_own_slots_and_no_others() -> None:
    slots = FairSlots[int](at_once=4, of_a_merchant=2)
    calls = Calls(slots)
    calls.start(A, *range(100))
    calls.start(B, 100)
    await settle()
    assert calls.begun == [A, A, B]
    assert (slots.free, slots.running, slots.started) == (1, Counter({A: 2, B: 1}), Counter({A: 100, B: 1}))
    await calls.end(0, 100)
    assert calls.begun == [A, A, B, A]
    assert (slots.running, slots.started) == (Counter({A: 2}), Counter({A: 99}))
    await slots.cancel()
    await slots.drain()
    assert (slots.free, slots.running, slots.started, list(slots.keys)) == (4, Counter(), Counter(), [])


async def test_a_merchant_that_is_alone_gets_half_of_all_slots_and_leaves_the_others_free() -> None:
    slots = FairSlots[int](at_once=8, of_a_merchant=1)
    calls = Calls(slots)
    calls.start(A, *range(100))
    calls.start(B, *range(100, 200))
    calls.start(C, 200)
    await settle()
    assert calls.begun == [A, A, A, A, B, C]
    assert (slots.free, slots.running) == (2, Counter({A: 4, B: 1, C: 1}))
    await calls.end(0, 1, 2, 3)
    assert (slots.free, slots.running) == (4, Counter({A: 1, B: 2, C: 1}))
    await slots.cancel()
    await slots.drain()


async def test_merchants_that_wait_get_slots_in_turn() -> None:
    slots = FairSlots[int](at_once=1, of_a_merchant=1)
    calls = Calls(slots)
    calls.start(A, 0, 1, 2)
    calls.start(B, 3, 4)
    calls.start(C, 5)
    await calls.end(*range(6))
    await slots.drain()
    assert calls.begun == [A, A, B, C, A, B], "the first came before any other merchant waited"


async def test_work_is_started_once_for_each_key() -> None:
    slots = FairSlots[int]()
    calls = Calls(slots)
    calls.start(A, 1)
    calls.start(A, 1)
    await calls.end(1)
    await slots.drain()
    assert calls.done == [1]


async def test_work_that_fails_frees_its_slot_and_is_reported_once() -> None:
    slots = FairSlots[int](at_once=1, of_a_merchant=1)

    async def fails() -> None:
        raise ZeroDivisionError

    slots.start(A, 1, fails)
    with pytest.raises(ZeroDivisionError):
        await slots.ended(60)
    assert (slots.running, slots.keys) == (Counter(), {}.keys())
    await slots.drain()


async def test_a_stop_finishes_what_runs_and_gives_up_what_waits() -> None:
    slots = FairSlots[int](at_once=1, of_a_merchant=1)
    calls = Calls(slots)
    calls.start(A, 1, 2, 3)
    await settle()
    stopping = asyncio.create_task(slots.stop())
    await settle()
    assert not stopping.done()
    await calls.end(1, 2, 3)
    await stopping
    assert calls.done == [1]


async def test_work_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    slots = FairSlots[int](at_once=1)
    async with slots.slot(A):

        async def waits() -> None:
            async with slots.slot(B):
                raise AssertionError("it has a slot")

        waiting = asyncio.create_task(waits())
        await settle()
        waiting.cancel()
        await settle()
    assert (slots.free, slots.running) == (1, Counter())
    async with slots.slot(C):
        assert slots.running == Counter({C: 1})


async def test_a_caller_that_is_cancelled_cancels_the_work_it_waits_for() -> None:
    slots = FairSlots[int]()
    calls = Calls(slots)
    calls.start(A, 1)
    draining = asyncio.create_task(slots.drain())
    await settle()
    draining.cancel()
    await settle()
    assert (calls.done, list(slots.keys)) == ([], [])


async def test_what_a_cancelled_caller_started_has_ended_when_it_ends() -> None:
    slots = FairSlots[int]()
    ended = asyncio.Event()

    async def answered_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await settle()
            ended.set()

    slots.start(A, 1, answered_late)
    await settle()
    draining = asyncio.create_task(slots.drain())
    await settle()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert ended.is_set()
    assert not slots.keys
