"""Telling a story: each line at its own time, in order where one needs the other, side by side where not.

The rule a stranger would break: a line waits for every earlier line about the same order or the same customer, and for
nothing else. So no stream ever sees its times run backwards, and months pass in seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.api_keys import NewKey
from ledger.gateways.contract import ProcessorUnavailable
from ledger.journal.append import Fault
from ledger.merchants.state import Merchant
from ledger.operations.ledger import Clock, Ledger
from ledger.operations.merchants import UnknownMerchant, merchant_of
from ledger.rejections import InvalidTerms, Rejected
from ledger.stories.actions import ACTIONS, Outcome, Readers, Scene, Step, merchant_id_of
from ledger.stories.lines import Line, Place, StoryWrong

_AT_ONCE: Final = 32


class StoryClock(Clock):
    """Shows each line its own time, and real time to whoever tells no line. A processor's deadlines are not asked of it."""

    def __init__(self) -> None:
        self._at: ContextVar[datetime | None] = ContextVar("at", default=None)

    def now(self, merchant_id: UUID) -> datetime:
        """The time of the line that is being told, in UTC."""
        return self._at.get() or super().now(merchant_id)

    @contextmanager
    def standing_at(self, moment: datetime) -> Iterator[None]:
        """Let the clock stand at a moment, for what is done within and for the tasks that this starts."""
        token = self._at.set(moment.astimezone(UTC))
        try:
            yield
        finally:
            self._at.reset(token)


class Report(Struct, frozen=True):
    """What a telling came to, and the keys that it issued: secrets by merchant id, known only now."""

    outcomes: Counter[Outcome]
    keys: dict[UUID, str]

    @property
    def lines(self) -> int:
        return self.outcomes.total()

    @property
    def new(self) -> int:
        """Lines that changed something, declined payments among them."""
        return self.outcomes[Outcome.NEW] + self.outcomes[Outcome.DECLINED]

    @property
    def declined(self) -> int:
        """New lines whose payment was declined, as the story wants it."""
        return self.outcomes[Outcome.DECLINED]


async def tell(
    ledger: Ledger,
    clock: StoryClock,
    story: Sequence[tuple[Place, Line]],
    readers: Readers,
    new_key: Callable[[], NewKey],
) -> Report:
    """Tell a story on a ledger that lives by `clock`. `new_key` makes the key of a merchant that is registered.

    Raises StoryWrong at the first line that cannot be told. An unknown action and a time that runs backwards are found
    before anything is told; of a line that the ledger refuses, what stood before it has happened. A declined payment is
    a part of the story.
    """
    return await _Telling(ledger, clock, readers, new_key).run(story)


class _Telling:
    def __init__(self, ledger: Ledger, clock: StoryClock, readers: Readers, new_key: Callable[[], NewKey]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._scene = Scene(ledger, readers, new_key, {}, set())
        self._merchants: dict[UUID, Merchant] = {}
        self._outcomes: Counter[Outcome] = Counter()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._latest: dict[str, asyncio.Task[None]] = {}

    async def run(self, story: Sequence[tuple[Place, Line]]) -> Report:
        _check(story)
        try:
            async with asyncio.TaskGroup() as group:
                for place, line in story:
                    step = await self._prepare(place, line)
                    if not step.keys:
                        await self._told(place, line, step, set(self._latest.values()))
                        continue
                    await self._places.acquire()
                    earlier = {self._latest[key] for key in step.keys if key in self._latest}
                    task = group.create_task(self._in_its_place(place, line, step, earlier))
                    self._latest.update(dict.fromkeys(step.keys, task))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        return Report(self._outcomes, self._scene.keys)

    async def _prepare(self, place: Place, line: Line) -> Step:
        """What a line comes to. Its body is decoded here, in the story's order."""
        merchant = None if line.action == "register" else await self._merchant(place, line)
        with _at_line(place):
            return ACTIONS[line.action](self._scene, line, merchant, f"{place.file.name}:{place.number}")

    async def _merchant(self, place: Place, line: Line) -> Merchant:
        merchant_id = merchant_id_of(line.merchant)
        if merchant_id not in self._merchants:
            try:
                self._merchants[merchant_id] = await merchant_of(self._ledger, merchant_id)
            except UnknownMerchant:
                raise StoryWrong(place, f"{line.merchant!r} has not been registered by an earlier line") from None
        return self._merchants[merchant_id]

    async def _in_its_place(self, place: Place, line: Line, step: Step, earlier: set[asyncio.Task[None]]) -> None:
        try:
            await self._told(place, line, step, earlier)
        finally:
            self._places.release()

    async def _told(self, place: Place, line: Line, step: Step, earlier: set[asyncio.Task[None]]) -> None:
        if earlier:
            await asyncio.wait(earlier)
        with _at_line(place), self._clock.standing_at(line.at):
            self._outcomes[await step.tell()] += 1


def _check(story: Sequence[tuple[Place, Line]]) -> None:
    """What can be wrong with a story whatever ledger it is told on."""
    times: dict[str, datetime] = {}
    for place, line in story:
        if line.action not in ACTIONS:
            raise StoryWrong(place, f"there is no action {line.action!r}; there are: {', '.join(ACTIONS)}")
        if line.at < times.get(line.merchant, line.at):
            raise StoryWrong(place, f"{line.at.isoformat()} is before the merchant's line above it")
        times[line.merchant] = line.at


@contextmanager
def _at_line(place: Place) -> Iterator[None]:
    """Whatever refuses a line is said with the line's place."""
    try:
        yield
    except InvalidTerms as refusal:
        raise StoryWrong(place, f"{refusal.facts['field']}: {refusal.message}") from None
    except Rejected as refusal:
        raise StoryWrong(place, f"{refusal.code}: {refusal.message}") from None
    except ProcessorUnavailable as failure:
        raise StoryWrong(place, str(failure)) from failure
    except Fault as fault:
        raise StoryWrong(place, f"the database does not answer ({type(fault).__name__})") from fault


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that stands first in the story, or any other there is."""
    wrong = [failure for failure in failures.exceptions if isinstance(failure, StoryWrong)]
    others = [failure for failure in failures.exceptions if not isinstance(failure, StoryWrong)]
    return others[0] if others else min(wrong, key=lambda failure: failure.place.number)
