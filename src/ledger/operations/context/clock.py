"""The clocks of sandbox merchants: real time, or as far ahead of it as the merchant has moved its clock.

Call `refresh` before using a merchant's time. A process assumes for a quarter of a second that a clock was never moved,
and the first move of a clock waits that long; a clock that was ever moved is read every time. So a move that was
answered holds for the next request to any process. Merchants who never move their clock pay nothing: while requests
come, the process reads the clock again before it must, and no request waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader

_BEHIND_MAX_S: Final = 5.0


class ClockBehind(Exception):
    """The clock of this machine is behind the database's by more than five seconds."""


class Clock:
    """Merchants' clocks, which date every event. This one shows real time to every merchant."""

    @property
    def alive(self) -> bool:
        """Whether clocks can be read."""
        return True

    def now(self, merchant_id: UUID) -> datetime:  # noqa: ARG002 - in production every merchant lives in real time
        """Returns the merchant's current time, aware, in UTC."""
        return datetime.now(UTC)

    def ahead(self, merchant_id: UUID) -> timedelta:  # noqa: ARG002 - see `now`
        """Returns how far the merchant's clock is ahead of real time."""
        return timedelta()

    def must_be_read(self, merchant_id: UUID) -> bool:  # noqa: ARG002 - see `now`
        """Returns whether the merchant's clock may have been moved since it was last read. Then call `refresh`."""
        return False

    async def refresh(self, merchant_id: UUID) -> datetime:
        """Returns the merchant's current time after every clock move that has been answered. Raises a Fault."""
        return self.now(merchant_id)

    async def reach(self, merchant_id: UUID, moment: datetime) -> None:
        """Waits if this machine's clock is behind the one by which `moment` has come, such as the database's.

        Raises ClockBehind if it is behind by more than five seconds, a Fault.
        """
        if moment > self.now(merchant_id):
            behind_s = (moment - await self.refresh(merchant_id)).total_seconds()
            if behind_s > _BEHIND_MAX_S:
                raise ClockBehind
            await asyncio.sleep(max(0.0, behind_s) + 0.002)  # a loop's timer may be a millisecond early


BELIEVED_S: Final = 0.25
"""How long a process assumes that a clock was never moved, counted from before it reads the clock."""

READ_AHEAD_S: Final = 0.15
"""How long before the end of that time a request lets the process read the clock again, without waiting for it."""

_CACHED_MAX: Final = 50_000

_AHEAD: Final = "select merchant_id, ahead_us from merchant_clock where merchant_id = any(%s)"


class MerchantClocks(Clock):
    """Every merchant's clock, read from the database. `start` before, `stop` after."""

    def __init__(self, url: str) -> None:
        self._rows = DataLoader[UUID, int](url, "ledger-clocks", self._fetch)
        self._real_until: dict[UUID, float] = {}
        self._ahead: dict[UUID, timedelta] = {}
        self._reading_ahead = set[UUID]()

    @property
    def alive(self) -> bool:
        return self._rows.alive

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._rows.start()

    async def stop(self) -> None:
        await self._rows.stop()

    def now(self, merchant_id: UUID) -> datetime:
        """Returns the merchant's current time by the clock as it was last read, aware, in UTC."""
        now = datetime.now(UTC)
        # An order reads the time four times: if no clock was moved, hashing a UUID each time is wasted.
        ahead = self._ahead.get(merchant_id) if self._ahead else None
        return now if ahead is None else now + ahead

    def ahead(self, merchant_id: UUID) -> timedelta:
        return self._ahead.get(merchant_id, timedelta())

    def must_be_read(self, merchant_id: UUID) -> bool:
        """Returns whether the process must not assume the clock. Has it read ahead of the end of that time."""
        real_for_s = self._real_until.get(merchant_id, 0.0) - time.monotonic()
        if real_for_s <= 0:
            return True
        if real_for_s < READ_AHEAD_S and merchant_id not in self._reading_ahead:
            self._reading_ahead.add(merchant_id)
            self._rows.read_ahead(merchant_id)
        return False

    async def refresh(self, merchant_id: UUID) -> datetime:
        """Reads the clock if the process must not assume it, and returns the merchant's current time.

        Raises a Fault.
        """
        if self.must_be_read(merchant_id):
            await self._rows.get(merchant_id)
        return self.now(merchant_id)

    async def _fetch(self, connection: Connection, merchants: Sequence[UUID]) -> Mapping[UUID, int]:
        """Reads clocks, and keeps what they show. What is assumed counts from before the statement is sent: a caller
        may have waited for its turn.
        """
        read_at = time.monotonic()
        try:
            rows = await connection.cursor(binary=True).execute(_AHEAD, (list(merchants),))
            found: Mapping[UUID, int] = dict(await rows.fetchall())
        finally:
            self._reading_ahead.difference_update(merchants)
        if len(self._real_until) > _CACHED_MAX:
            self._real_until.clear()
        for merchant_id in merchants:
            if merchant_id not in found:
                self._real_until[merchant_id] = read_at + BELIEVED_S
                continue
            ahead = timedelta(microseconds=found[merchant_id])
            self._ahead[merchant_id] = max(ahead, self._ahead.get(merchant_id, ahead))
        return found


DUE_MAX: Final = 5_000
WORK_MAX_S: Final = 20.0
"""After how many due things, and after how long, a move ends. A request may take longer than that."""


class ClockAdvanced(Struct, frozen=True):
    """The merchant's time after its clock was moved, and how many jobs ran on the way.

    `until` is the time that was asked for. `more` is True if the move ended before it: then another one goes on.
    """

    now: datetime
    jobs_run: int
    until: datetime
    more: bool


def is_always_awaited() -> bool:
    """Returns True: the caller of a move waits for its end."""
    return True


class ClockControl(Protocol):
    """How a clock is moved, in the sandbox (see `background.clock.advance`)."""

    async def advance(
        self,
        merchant_id: UUID,
        field: str,
        target: Callable[[datetime], datetime],
        is_awaited: Callable[[], bool] = is_always_awaited,
    ) -> ClockAdvanced:
        """Moves a merchant's clock to `target` of its current time and does everything that becomes due until then.

        Ends before that after many due things or a long time, or once `is_awaited` returns False. Raises InvalidField
        on `field` if the clock would go back or too far, ConcurrentUpdate while another request moves it, a Fault.
        """
        ...
