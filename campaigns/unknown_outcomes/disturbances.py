"""What happens to a process while payments are made: it is stopped, cut off from one side, or its clock is moved.

Each lasts for a random time that is longer than deadlines and windows, and then everything goes on as before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from campaigns.chaos.cut_commits import ThroughProxy
from campaigns.chaos.proxy import Proxy
from campaigns.fake_processor.service import FakedService

KINDS: Final = ("stall", "database", "processor", "clock")
"""A process of the service is stopped by SIGSTOP; it cannot reach Postgres; it cannot reach the processor; the clock of all
processes of the service is ahead or behind by minutes, while Postgres has the right one.
"""

_LIBRARIES: Final = tuple(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class Disturbances(Struct, frozen=True, kw_only=True):
    """How often and for how long something is disturbed.

    `every_s` is the mean time between the end of one and the next. Each lasts for 1 to `max_s` seconds, longer than the
    recovery waits, and is of the next of these `kinds`. The clock is moved by at most `clock_max_s`: what was begun by
    a clock that is ahead is looked up that much later.
    """

    every_s: float
    max_s: float = 20.0
    clock_max_s: int = 150
    kinds: tuple[str, ...] = KINDS


def can_move_the_clock() -> bool:
    """Returns whether libfaketime is installed (Debian: `faketime`)."""
    return bool(_LIBRARIES)


def moved_clock(seconds: float) -> Mapping[str, str]:
    """Returns the variables of programs whose clock is so many seconds ahead; none for 0. Needs libfaketime."""
    return {**_faked(), "FAKETIME": f"{seconds:+g}s"} if seconds else {}


def _faked() -> dict[str, str]:
    """Returns the variables of programs whose clock can be moved. What measures times is left alone."""
    return {"LD_PRELOAD": str(_LIBRARIES[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}


class DisturbedService(FakedService, ThroughProxy):
    """`ledger serve` with the fake processor, behind proxies to both sides, with a clock that can be moved."""

    def __init__(self, processor: Proxy, fake_port: int, **given: Any) -> None:
        super().__init__(fake_port, **given)
        self._processor = processor
        self._clock = self.home / "clock"
        self.move_clock(0)
        if can_move_the_clock():
            self._environ |= {
                **_faked(),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_CACHE_DURATION": "1",
            }

    def move_clock(self, seconds: int) -> None:
        """Moves the clock of the service's processes, within a second of their time."""
        following = self._clock.with_suffix(".next")
        following.write_text(f"{seconds:+d}s\n")
        following.rename(self._clock)

    async def disturb(self, plan: Disturbances, kind: str, random: Random, paying: asyncio.Future[Any]) -> None:
        """Disturbs a random process for a while, or until all payments are made.

        Raises IndexError or ProcessLookupError if there is no process at the moment.
        """
        with ExitStack() as after:
            if kind == "clock":
                after.callback(self.move_clock, 0)
                self.move_clock(random.choice((-1, 1)) * random.randint(5, plan.clock_max_s))
            elif kind == "stall":
                after.callback(self.thaw, self.freeze(random))
            elif kind == "database":
                after.callback(self.part_from_database, None)
                self.part_from_database(self.some_process(random))
            else:
                after.callback(self._processor.join)
                self._processor.part(self.some_process(random))
            await asyncio.wait([paying], timeout=random.uniform(1.0, plan.max_s))


async def disturb(
    service: DisturbedService, plan: Disturbances, seed: int, paying: asyncio.Future[Any]
) -> Counter[str]:
    """Disturbs one process after another until all payments are made, and returns how often in which way."""
    random, done = Random(seed), Counter[str]()
    while True:
        ended, _ = await asyncio.wait([paying], timeout=random.uniform(0.3, 1.7) * plan.every_s)
        if ended:
            return done
        kind = plan.kinds[done.total() % len(plan.kinds)]
        try:
            await service.disturb(plan, kind, random, paying)
        except (IndexError, ProcessLookupError):
            continue  # the service was killed a moment ago
        done[kind] += 1
