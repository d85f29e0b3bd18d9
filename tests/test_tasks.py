"""A block that takes too long gets TimeoutError; a detached task ends whatever becomes of its caller."""

import asyncio
import contextlib

import pytest

from ledger.tasks import LATE_MAX_S, DetachedTasks, Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture
def timeouts():
    return Timeouts()


async def test_work_that_ends_in_time_is_not_disturbed(timeouts):
    with timeouts.within(30):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not timeouts.open


async def test_work_that_takes_longer_gets_a_timeout_and_its_task_continues(timeouts):
    with pytest.raises(TimeoutError), timeouts.within(0.01):
        await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)  # would raise if a cancellation were left
    assert not timeouts.open


async def test_a_deadline_that_has_passed_ends_the_first_wait(timeouts):
    answer = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError), timeouts.within(-1):
        await answer
    assert answer.cancelled()


async def test_a_block_without_a_wait_leaves_no_cancellation_behind(timeouts):
    with timeouts.within(-1):
        pass
    await asyncio.sleep(0)  # would raise if the deadline were still pending
    assert asyncio.current_task().cancelling() == 0


async def test_many_deadlines_pass_each_at_its_time(timeouts):
    ended = []

    async def wait(n, seconds):
        try:
            with timeouts.within(seconds):
                await asyncio.sleep(0.5 if n % 2 else 30)
            ended.append((n, "done"))
        except TimeoutError:
            ended.append((n, "late"))

    await asyncio.gather(*[wait(n, 20 if n % 2 else 0.01 * n) for n in range(20)])
    assert sorted(ended) == [(n, "done" if n % 2 else "late") for n in range(20)]


async def test_the_inner_of_two_deadlines_passes_first_and_the_outer_after_it(timeouts):
    async def inner():
        with timeouts.within(0.01):
            await asyncio.Event().wait()

    async def outer():
        with pytest.raises(TimeoutError):
            await inner()
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError), timeouts.within(0.3):
        await outer()


async def test_the_outer_of_two_deadlines_that_pass_at_once_ends_both(timeouts):
    with pytest.raises(TimeoutError), timeouts.within(-1), timeouts.within(-1):
        await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0


async def test_the_outer_of_two_deadlines_that_pass_at_once_ends_work_after_the_inner_one(timeouts):
    async def work():
        try:
            with timeouts.within(-1):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0.2)
            pytest.fail("the inner block took the outer one's cancellation for its own")

    with pytest.raises(TimeoutError), timeouts.within(-1):
        await work()


async def test_a_cancelled_task_ends_as_cancelled_even_when_its_deadline_passes_too(timeouts):
    async def wait():
        with timeouts.within(-1):
            asyncio.current_task().cancel()
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())


async def test_a_cancelled_task_may_clean_up_within_a_deadline(timeouts):
    late = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(TimeoutError), timeouts.within(0.01):
                await asyncio.sleep(5)
            late.append("late")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert late == ["late"]


async def test_an_error_of_the_work_is_raised_unchanged(timeouts):
    with pytest.raises(ZeroDivisionError), timeouts.within(30):
        raise ZeroDivisionError

    async def stop_badly():
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError), timeouts.within(0.01):
        await stop_badly()
    assert asyncio.current_task().cancelling() == 0


async def test_work_that_completes_in_spite_of_its_deadline_has_no_timeout(timeouts):
    with timeouts.within(0.01):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_the_sweep_starts_again_after_a_time_without_deadlines(timeouts):
    with timeouts.within(30):
        await asyncio.sleep(0)
    await asyncio.sleep(2 * LATE_MAX_S)
    assert timeouts._loop is None, "no timer runs without a time-out"
    with pytest.raises(TimeoutError), timeouts.within(0.01):
        await asyncio.sleep(5)


def test_deadlines_work_on_the_next_event_loop_too(timeouts):
    async def wait():
        with pytest.raises(TimeoutError), timeouts.within(0.01):
            await asyncio.sleep(5)

    async def leave():
        with timeouts.within(30):  # its loop ends before the first look
            await asyncio.sleep(0)

    asyncio.run(leave())
    asyncio.run(wait())


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
