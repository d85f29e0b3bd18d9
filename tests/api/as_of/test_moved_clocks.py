"""Answers about the past while several processes write and the merchant's clock is moved: they never change again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from tests.api.as_of.test_past_reads import CLOCK, as_of, now_of
from tests.api.as_of.test_summary import SUMMARY
from tests.api.bodies import order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = [pytest.mark.anyio, pytest.mark.long]

_WRITERS: Final = 5
_S: Final = 6.0
"""For how long requests are made."""
_PATHS: Final = (
    f"{ORDERS}?limit=100",
    f"{ORDERS}?status=PENDING&limit=100&sortOrder=asc",
    f"{ORDERS}?status=COMPLETED,CANCELLED",
    SUMMARY,
)


class Traffic:
    """Requests to two processes at once, and the answers about each time, which are asked for again and again."""

    def __init__(self, processes: tuple[Merchant, Merchant], seed: int) -> None:
        self._processes, self._random = processes, random.Random(seed)
        self._created: list[str] = []
        self._is_over = False
        self._answers: dict[tuple[str, datetime], Any] = {}

    async def run(self) -> None:
        """Makes requests, and asserts that no answer about a time differs from the first one."""
        begun = await now_of(self._processes[0])
        tasks = [self._repeat(self._write) for _ in range(_WRITERS)]
        tasks += [self._repeat(self._move), self._repeat(lambda: self._read(begun))]
        running = asyncio.gather(*tasks)
        await asyncio.sleep(_S)
        self._is_over = True
        await running
        assert self._answers
        for path, at in self._answers:
            await self._ask(path, at)
            listed = (await as_of(self._processes[0], f"{ORDERS}?limit=1", at)).json()["pagination"]["total"]
            summary = (await as_of(self._processes[0], SUMMARY, at)).json()["orders"]
            assert listed == sum(line["orders"] for line in summary), at

    async def _repeat(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while not self._is_over:
            await act()

    async def _write(self) -> None:
        name = f"order-{self._random.getrandbits(64):x}"
        if self._created and self._random.random() < 0.3:
            path, body = f"{ORDERS}/{self._random.choice(self._created)}/cancel", {}
        else:
            path, body = ORDERS, self._random.choice((order, paid_order))(externalId=name)
        answer = await self._process().post(path, body)
        assert answer.status_code in (200, 201, 409, 422, 503), answer.text
        if answer.status_code == 201:
            self._created.append(name)

    async def _move(self) -> None:
        await asyncio.sleep(self._random.uniform(0.1, 0.6))
        await self._process().post(CLOCK, {"advanceBy": self._random.choice(("PT6H", "P1D", "P2D"))})

    async def _read(self, begun: datetime) -> None:
        newest = await now_of(self._processes[0])
        await asyncio.sleep(0.2)  # until what is recorded by the clock that is behind is later than that
        at = newest - timedelta(seconds=self._random.uniform(0.3, 2))
        if self._random.random() < 0.5:
            at = begun + (newest - begun) * self._random.random()
        again = self._random.sample(list(self._answers), min(3, len(self._answers)))
        for path, time in [(self._random.choice(_PATHS), at.astimezone(UTC)), *again]:
            await self._ask(path, time)

    async def _ask(self, path: str, at: datetime) -> None:
        answer = await as_of(self._process(), path, at)
        assert answer.status_code == 200, answer.text
        body = json.loads(answer.content)
        assert body == self._answers.setdefault((path, at), body), path

    def _process(self) -> Merchant:
        return self._random.choice(self._processes)


@pytest.mark.parametrize("seed", range(3))
async def test_an_answer_about_a_time_stays_while_the_clock_is_moved(merchant: Merchant, late: Storefront, seed: int):
    by_late = Merchant(merchant.merchant_id, merchant.secret, late.client)
    await Traffic((merchant, by_late), seed).run()
