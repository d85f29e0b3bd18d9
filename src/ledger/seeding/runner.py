"""Telling a story: each line at its own time, in order where one needs the other, side by side where not.

The rule a stranger would break: a line waits for every earlier line about the same order or the same customer, and for
nothing else. So no stream ever sees its times run backwards, and months pass in seconds. Whatever falls due on an order
between its lines happens at its own moment, before the next line is told.
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

from ledger.domain.merchants.state import Merchant
from ledger.domain.rejections import InvalidField, Rejected
from ledger.operations.clock import Clock
from ledger.operations.ledger import Ledger
from ledger.operations.merchants import UnknownMerchant, merchant_of
from ledger.operations.pipeline.unit_of_work import find_order
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.security.api_keys import NewKey
from ledger.seeding.actions import ACTIONS
from ledger.seeding.context import BodyParsers, LineResult, PlannedLine, RunContext, merchant_id_of
from ledger.seeding.due_work import DueWork, MessageDelivery, MessageSource
from ledger.seeding.scenario_file import InvalidScenario, LineNumber, ScenarioLine

_AT_ONCE: Final = 32


class ScenarioClock(Clock):
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


class RunReport(Struct, frozen=True):
    """What a telling came to, and the keys that it issued: secrets by merchant id, known only now."""

    outcomes: Counter[LineResult]
    keys: dict[UUID, str]

    @property
    def lines(self) -> int:
        return self.outcomes.total()

    @property
    def new(self) -> int:
        """Lines that changed something, declined payments among them."""
        return self.outcomes[LineResult.NEW] + self.outcomes[LineResult.DECLINED]

    @property
    def declined(self) -> int:
        """New lines whose payment was declined, as the story wants it."""
        return self.outcomes[LineResult.DECLINED]


class MessageRoute(Struct, frozen=True):
    """Where the sandbox's processor puts what it has to tell, and how that is handed over."""

    outgoing: MessageSource
    mail: MessageDelivery


async def run_scenario(
    ledger: Ledger,
    clock: ScenarioClock,
    story: Sequence[tuple[LineNumber, ScenarioLine]],
    readers: BodyParsers,
    new_key: Callable[[], NewKey],
    post: MessageRoute,
) -> RunReport:
    """Tell a story on a ledger that lives by `clock`. `new_key` makes the key of a merchant that is registered.

    When the last line is told, time passes for its orders until that line's moment, or the present where that is later.
    Whoever calls holds the merchants' clocks meanwhile (see `reactions.held_clocks`).

    Raises InvalidScenario at the first line that cannot be told. An unknown action and a time that runs backwards are found
    before anything is told; of a line that the ledger refuses, what stood before it has happened. A declined payment is
    a part of the story.
    """
    return await _Telling(ledger, clock, readers, new_key, post).run(story)


class _Telling:
    def __init__(
        self,
        ledger: Ledger,
        clock: ScenarioClock,
        readers: BodyParsers,
        new_key: Callable[[], NewKey],
        post: MessageRoute,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._passing = DueWork(ledger, post.outgoing, post.mail, clock.standing_at)
        self._scene = RunContext(ledger, readers, new_key, {}, set(), post.mail)
        self._orders: dict[tuple[UUID, str], LineNumber] = {}
        self._merchants: dict[UUID, Merchant] = {}
        self._outcomes: Counter[LineResult] = Counter()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._latest: dict[str, asyncio.Task[None]] = {}

    async def run(self, story: Sequence[tuple[LineNumber, ScenarioLine]]) -> RunReport:
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
        await self._finish(story)
        return RunReport(self._outcomes, self._scene.keys)

    async def _prepare(self, place: LineNumber, line: ScenarioLine) -> PlannedLine:
        """What a line comes to. Its body is decoded here, in the story's order."""
        merchant = None if line.action == "register" else await self._merchant(place, line)
        with _at_line(place):
            return ACTIONS[line.action](self._scene, line, merchant, f"{place.file.name}:{place.number}")

    async def _merchant(self, place: LineNumber, line: ScenarioLine) -> Merchant:
        merchant_id = merchant_id_of(line.merchant)
        if merchant_id not in self._merchants:
            try:
                self._merchants[merchant_id] = await merchant_of(self._ledger, merchant_id)
            except UnknownMerchant:
                raise InvalidScenario(place, f"{line.merchant!r} has not been registered by an earlier line") from None
        return self._merchants[merchant_id]

    async def _in_its_place(
        self, place: LineNumber, line: ScenarioLine, step: PlannedLine, earlier: set[asyncio.Task[None]]
    ) -> None:
        try:
            await self._told(place, line, step, earlier)
        finally:
            self._places.release()

    async def _told(
        self, place: LineNumber, line: ScenarioLine, step: PlannedLine, earlier: set[asyncio.Task[None]]
    ) -> None:
        if earlier:
            await asyncio.wait(earlier)
        merchant_id = merchant_id_of(line.merchant)
        with _at_line(place):
            if step.order is not None and (merchant_id, step.order) in self._orders:
                await self._pass(merchant_id, step.order, line.at)
            with self._clock.standing_at(line.at):
                self._outcomes[await step.tell()] += 1
        if step.order is not None:
            self._orders[merchant_id, step.order] = place

    async def _pass(self, merchant_id: UUID, order: str, moment: datetime) -> None:
        found = await find_order(self._ledger, merchant_id, order)
        await self._passing.until(merchant_id, found.terms.order_id, moment)

    async def _finish(self, story: Sequence[tuple[LineNumber, ScenarioLine]]) -> None:
        """Let time pass for every order until its merchant's last line, or until now."""
        now = datetime.now(UTC)
        last = {merchant_id_of(line.merchant): max(line.at, now) for _, line in story}
        try:
            async with asyncio.TaskGroup() as group:
                for (merchant_id, order), place in self._orders.items():
                    await self._places.acquire()
                    group.create_task(self._finished(place, merchant_id, order, last[merchant_id]))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None

    async def _finished(self, place: LineNumber, merchant_id: UUID, order: str, moment: datetime) -> None:
        try:
            with _at_line(place):
                await self._pass(merchant_id, order, moment)
        finally:
            self._places.release()


def _check(story: Sequence[tuple[LineNumber, ScenarioLine]]) -> None:
    """What can be wrong with a story whatever ledger it is told on."""
    times: dict[str, datetime] = {}
    for place, line in story:
        if line.action not in ACTIONS:
            raise InvalidScenario(place, f"there is no action {line.action!r}; there are: {', '.join(ACTIONS)}")
        if line.at < times.get(line.merchant, line.at):
            raise InvalidScenario(place, f"{line.at.isoformat()} is before the merchant's line above it")
        times[line.merchant] = line.at


@contextmanager
def _at_line(place: LineNumber) -> Iterator[None]:
    """Whatever refuses a line is said with the line's place."""
    try:
        yield
    except InvalidField as refusal:
        raise InvalidScenario(place, refusal.message) from None
    except Rejected as refusal:
        raise InvalidScenario(place, f"{refusal.code}: {refusal.message}") from None
    except (ProcessorTimedOut, ProcessorUnavailable) as failure:
        raise InvalidScenario(place, str(failure)) from failure
    except Fault as fault:
        raise InvalidScenario(place, f"the database does not answer ({type(fault).__name__})") from fault


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that stands first in the story, or any other there is."""
    wrong = [failure for failure in failures.exceptions if isinstance(failure, InvalidScenario)]
    others = [failure for failure in failures.exceptions if not isinstance(failure, InvalidScenario)]
    return others[0] if others else min(wrong, key=lambda failure: failure.place.number)
