"""Slots for work that runs side by side, shared fairly by the merchants.

A merchant whose processor is slow fills only its own slots. While more than half of all slots are free, a merchant may
also use slots of the free half. The merchants that wait for a slot get one in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, KeysView
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Generic, TypeVar
from uuid import UUID

AT_ONCE: Final = 64
AT_ONCE_OF_A_MERCHANT: Final = 8

K = TypeVar("K")
Work = Callable[[], Awaitable[object]]
_Turn = asyncio.Future[None]


class FairSlots(Generic[K]):
    """The slots of one process for one kind of work: `at_once` in total, `of_a_merchant` for each merchant.

    A merchant gets more while more than half of all slots are free, so that a single merchant's work ends sooner.

    `running` counts the occupied slots of each merchant, `started` the started work that has not ended.
    """

    def __init__(self, at_once: int = AT_ONCE, of_a_merchant: int = AT_ONCE_OF_A_MERCHANT) -> None:
        self.of_a_merchant = of_a_merchant
        self.free = at_once
        self._half = at_once // 2
        self.running: Counter[UUID] = Counter()
        self.started: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[_Turn]] = {}  # in the order of the merchants' turns
        self._tasks: dict[K, asyncio.Task[object]] = {}
        self._failure: BaseException | None = None
        self._has_ended = asyncio.Event()

    @property
    def keys(self) -> KeysView[K]:
        """The keys of the started work that has not ended, whether it has a slot or waits for one."""
        return self._tasks.keys()

    @asynccontextmanager
    async def slot(self, merchant_id: UUID) -> AsyncIterator[None]:
        """Waits for a slot of the merchant and occupies it for as long as the context lasts."""
        turn = self._ask(merchant_id)
        try:
            await turn
            yield
        finally:
            self._release(merchant_id, turn)

    def start(self, merchant_id: UUID, key: K, work: Work) -> None:
        """Starts work in a task of its own as soon as there is a slot.

        Work whose key is among `keys` is not started again.
        """
        if key not in self._tasks:
            self.started[merchant_id] += 1
            turn = self._ask(merchant_id)
            self._tasks[key] = task = asyncio.create_task(self._run(turn, work))
            task.add_done_callback(partial(self._end, key, merchant_id, turn))

    async def ended(self, timeout_s: float) -> None:
        """Waits until started work ends, at most so long. Raises what started work has raised since the last call."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), timeout_s)
        self._has_ended.clear()
        self._raise_failure()

    async def drain(self) -> None:
        """Waits until all started work has ended, and raises what it raised.

        Cancels the work if the caller is cancelled.
        """
        try:
            while self._tasks:
                await asyncio.wait(self._tasks.values())
        except asyncio.CancelledError:
            await self.cancel()
            raise
        self._raise_failure()

    async def stop(self) -> None:
        """Gives up the work that waits for a slot, and waits for the end of the work that has one."""
        for turns in self._waiting.values():
            for turn in turns:
                turn.cancel()
        with suppress(Exception):  # what has failed is due again in the next process
            await self.drain()

    async def cancel(self) -> None:
        """Cancels all started work, and waits for its end: it still uses what the caller may close next."""
        for task in self._tasks.values():
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(self, turn: _Turn, work: Work) -> object:
        await turn
        return await work()

    def _end(self, key: K, merchant_id: UUID, turn: _Turn, task: asyncio.Task[object]) -> None:
        del self._tasks[key]
        self.started -= Counter([merchant_id])  # drops a merchant that has none
        self._release(merchant_id, turn)
        self._has_ended.set()
        if not task.cancelled():
            self._failure = self._failure or task.exception()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _ask(self, merchant_id: UUID) -> _Turn:
        """Returns a future that is done once a slot of the merchant is the caller's."""
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(merchant_id, deque()).append(turn)
        self._give_turns()
        return turn

    def _release(self, merchant_id: UUID, turn: _Turn) -> None:
        """Ends a turn, whether its slot was given or is still waited for."""
        if turn.cancel() or turn.cancelled():
            return
        self.free += 1
        self.running -= Counter([merchant_id])  # drops a merchant that has none
        self._give_turns()

    def _give_turns(self) -> None:
        while self.free and (merchant_id := self._next_merchant()) is not None:
            turns = self._waiting.pop(merchant_id)
            turn = turns.popleft()
            if turns:
                self._waiting[merchant_id] = turns  # behind the other merchants
            if not turn.cancelled():
                self.free -= 1
                self.running[merchant_id] += 1
                turn.set_result(None)

    def _next_merchant(self) -> UUID | None:
        """Returns the waiting merchant whose turn it is: of those below their limit, else of all."""
        below = next((each for each in self._waiting if self.running[each] < self.of_a_merchant), None)
        return next(iter(self._waiting), None) if below is None and self.free > self._half else below
