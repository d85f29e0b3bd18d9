"""A detached task ends whatever becomes of its caller, and its outcome reaches the caller that still waits."""

from __future__ import annotations

import asyncio

import pytest

from ledger.detached_tasks import DetachedTasks

pytestmark = pytest.mark.anyio


async def test_the_result_and_the_failure_reach_the_caller():
    tasks = DetachedTasks()

    async def fail() -> None:
        raise LookupError("no order")

    assert await tasks.complete(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError, match="no order"):
        await tasks.complete(fail())


async def test_work_goes_on_without_its_caller_and_its_failure_is_reported():
    failures: list[BaseException] = []
    tasks = DetachedTasks(failures.append)
    go_on = asyncio.Event()
    done: list[str] = []

    async def work(fails: bool) -> None:
        await go_on.wait()
        done.append("recorded")
        if fails:
            raise LookupError

    async def call(fails: bool) -> None:
        await tasks.complete(work(fails))

    callers = [asyncio.create_task(call(fails)) for fails in (False, True)]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    assert [type(each) for each in await asyncio.gather(*callers, return_exceptions=True)] == [
        asyncio.CancelledError,
        asyncio.CancelledError,
    ]
    go_on.set()
    await tasks.drain()
    assert done == ["recorded", "recorded"]
    assert [type(each) for each in failures] == [LookupError]


async def test_work_that_is_cancelled_itself_cancels_its_caller():
    tasks = DetachedTasks()

    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await tasks.complete(give_up())


async def test_drain_waits_for_work_that_begins_meanwhile():
    tasks = DetachedTasks()
    done: list[int] = []

    async def follow(n: int) -> None:
        await asyncio.sleep(0)
        done.append(n)
        if n < 3:
            tasks.begin(follow(n + 1))

    tasks.begin(follow(1))
    await tasks.drain()
    assert done == [1, 2, 3]
