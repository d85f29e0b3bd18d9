"""Pings between a parent and its child, each over a pipe: who answers, and when an answer counts as missing."""

import asyncio
import os
from contextlib import contextmanager

import pytest

from ledger.service.ping import LOOK_S, Ping, Responder

pytestmark = pytest.mark.anyio


@contextmanager
def pipes():
    """The ends of two pipes: to the child and at the child, from the child and at the parent."""
    (at_child, to_child), (at_parent, to_parent) = os.pipe(), os.pipe()
    os.set_blocking(at_parent, False)
    try:
        yield at_child, to_child, at_parent, to_parent
    finally:
        for end in (at_child, to_child, at_parent, to_parent):
            os.close(end)


def test_a_ping_is_overdue_two_seconds_before_the_time_out_and_each_answer_begins_a_new_one():
    with pipes() as (at_child, to_child, at_parent, to_parent):
        ping = Ping(to_child, at_parent, timeout_s=4.0)
        assert [ping.is_overdue(now) for now in (0.0, 1.0, 2.0)] == [False] * 3
        os.write(to_parent, b".")
        assert [ping.is_overdue(now) for now in (2.5, 3.5, 4.5)] == [False] * 3
        assert ping.is_overdue(5.0)
        assert os.read(at_child, 64) == b"..", "the next ping is sent only after the answer"


def test_a_stop_ends_within_the_time_out_wherever_it_falls_between_two_looks():
    """A stop right behind an answer: the next ping is sent at the next look, and found overdue at the last one in time."""
    with pipes() as (_, to_child, at_parent, to_parent):
        ping = Ping(to_child, at_parent, timeout_s=10.0)
        looks = (n * LOOK_S for n in range(100))
        assert not ping.is_overdue(next(looks))
        os.write(to_parent, b".")
        stopped_at = 0.0
        assert next(now for now in looks if ping.is_overdue(now)) - stopped_at <= 10.0 - 1.0


@pytest.mark.parametrize("timeout_s", [0.1, 1.0])
def test_a_short_time_out_leaves_half_of_it_for_the_answer(timeout_s):
    with pipes() as (_, to_child, at_parent, _):
        assert Ping(to_child, at_parent, timeout_s).limit_s == timeout_s / 2


def test_a_parent_that_was_stopped_with_its_children_lets_them_answer():
    with pipes() as (_, to_child, at_parent, to_parent):
        ping = Ping(to_child, at_parent, timeout_s=4.0)
        assert not ping.is_overdue(0.0)
        assert not ping.is_overdue(600.0)
        os.write(to_parent, b".")
        assert not ping.is_overdue(600.5)


def test_a_child_that_has_ended_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with pipes() as (_, _, at_parent, _):
        assert not Ping(writer, at_parent, timeout_s=4.0).is_overdue(0.0)
    os.close(writer)


async def test_a_child_answers_from_its_event_loop_alone():
    with pipes() as (_, _, at_parent, to_parent):
        responder = Responder(to_parent)
        responder.pinged()  # before there is a loop

        async def main():
            responder.pinged()
            with pytest.raises(BlockingIOError):  # a loop that does not turn does not answer
                os.read(at_parent, 64)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert os.read(at_parent, 64) == b"."

        await responder.answer_during(main())


def test_a_ping_after_the_loops_end_is_not_answered():
    with pipes() as (_, _, at_parent, to_parent):
        responder = Responder(to_parent)
        asyncio.run(responder.answer_during(asyncio.sleep(0)))
        responder.pinged()
        with pytest.raises(BlockingIOError):
            os.read(at_parent, 64)
