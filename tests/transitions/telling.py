"""Tells stories side by side, each with a merchant of its own, and keeps what they came to.

The rule a stranger would break: a story that breaks off is no story. Its tests fail with what it broke off at. And stories are
told once in a run of the tests, however many processes have tests that ask what they came to.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.api.storefront import Storefront
from tests.transitions.scene import Move, Scene, Went
from tests.transitions.told import Edge, Story

from ledger.postgres.connection import connect
from projections.open_calls import OpenCalls

_AT_ONCE = 32


class Outcome(NamedTuple):
    """What a story came to."""

    story: Story
    went: Sequence[Went] = ()
    asked: frozenset[str] = frozenset()
    fault: str | None = None

    @property
    def order_moves(self) -> list[Move]:
        return [move for went in self.went for move in (*went.order, *went.seen)]

    @property
    def payment_moves(self) -> list[Move]:
        return [move for went in self.went for way in went.payments for move in way]

    def missed(self) -> list[str]:
        """The ways of the story that nothing in it has gone."""
        orders = [way for went in self.went for way in (went.order, went.seen)]
        payments = [way for went in self.went for way in went.payments]
        return [
            way
            for ways, gone in ((self.story.orders, orders), (self.story.payments, payments))
            for way in ways
            if not any(_contains(one, way) for one in gone)
        ]


def _contains(gone: Sequence[Move], way: str) -> bool:
    """Whether these statuses stand one after the other somewhere in what was gone."""
    statuses = [gone[0].before or "-", *(move.after for move in gone)] if gone else []
    wanted = way.split()
    return any(statuses[n : n + len(wanted)] == wanted for n in range(len(statuses)))


async def tell_once(store: Storefront, stories: Sequence[Story], kept: Path) -> list[Outcome]:
    """All of them, told by the first process that asks; `kept` is a file in a directory of this run of the tests."""
    file = os.open(kept, os.O_RDWR | os.O_CREAT)
    with os.fdopen(file, "r+b") as book:
        await asyncio.to_thread(fcntl.flock, book, fcntl.LOCK_EX)  # the application goes on meanwhile
        if not (written := book.read()):
            written = pickle.dumps([each[1:] for each in await tell(store, stories)])  # a story is made of functions
            book.write(written)
        return [Outcome(story, *rest) for story, rest in zip(stories, pickle.loads(written), strict=True)]


async def tell(store: Storefront, stories: Sequence[Story]) -> list[Outcome]:
    """All of them, in the order in which they were given."""
    url = store.settings.database_url
    assert url is not None, "there is a database"
    places = asyncio.Semaphore(_AT_ONCE)
    reading = asyncio.Lock()

    async with OpenCalls(url) as intents, await connect(url, "stories") as connection:

        async def one(story: Story) -> Outcome:
            async with places:
                merchant = await store.register(**dict(story.settings))
                scene = Scene(store, merchant, intents)
                try:
                    for step in story.steps:
                        await step(scene)
                except Exception:  # noqa: BLE001 - it is the story's outcome, and fails its tests
                    return Outcome(story, fault=traceback.format_exc())
            async with reading:
                return Outcome(story, await scene.went(connection), scene.asked)

        return await asyncio.gather(*map(one, stories))


def taken(outcomes: Sequence[Outcome]) -> tuple[set[tuple[Edge, str]], set[tuple[Edge, str]]]:
    """Every move of orders and of payments, with its taker."""
    orders = {((move.before, move.after), move.taker) for outcome in outcomes for move in outcome.order_moves}
    payments = {((move.before, move.after), move.taker) for outcome in outcomes for move in outcome.payment_moves}
    return orders, payments
