"""Merchants whose head somebody holds and does not let go: their commands are refused at once, so that nobody waits
behind them.

The rule a stranger would break: a locked head is nothing unusual, every batch of another process locks it for a moment.
Stuck is one that stays locked, and only after it has cost a batch its whole patience.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.journal.connection import Bounded, Connection

_log = structlog.get_logger()

_ASIDE_S: Final = 2.0
"""How long a stuck merchant is refused before its head is tried again."""

# Which of these heads nobody holds at this moment.
_FREE: Final = """
select merchant_id from merchant_head where merchant_id = any(%s::uuid[]) order by merchant_id for update skip locked
"""
# Long enough for a batch of another process, short enough for everybody else's to wait for.
_TRY_PATIENCE: Final = "set local lock_timeout = '100ms'"
_TRY: Final = "select 1 from merchant_head where merchant_id = %s for update"


class StuckMerchants:
    """Empty, and false, as long as nobody is stuck. Ids are 16 bytes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, merchant_id: bytes) -> bool:
        return merchant_id in self._until

    def refuses(self, merchant_id: bytes) -> bool:
        """Whether a command of this merchant need not even wait."""
        return self._until.get(merchant_id, 0.0) > self._clock()

    async def find(self, connection: Connection, merchants: Collection[bytes]) -> None:
        """Find out who of these is stuck, after their heads together could not be locked."""
        ids = [UUID(bytes=merchant_id) for merchant_id in merchants]
        with Bounded(connection):
            free = {merchant_id for (merchant_id,) in await (await connection.execute(_FREE, (ids,))).fetchall()}
        for merchant_id in set(ids) - free:
            await self._try(connection, merchant_id)

    async def look_again(self, connection: Connection, merchants: Collection[bytes]) -> None:
        """Try those of these merchants whose time aside is over."""
        for merchant_id in merchants:
            if merchant_id in self._until and not self.refuses(merchant_id):
                await self._try(connection, UUID(bytes=merchant_id))

    async def _try(self, connection: Connection, merchant_id: UUID) -> None:
        try:
            with Bounded(connection):
                async with connection.transaction():
                    await connection.execute(_TRY_PATIENCE)
                    await connection.execute(_TRY, (merchant_id,))
        except psycopg.errors.LockNotAvailable:
            if merchant_id.bytes not in self._until:
                _log.warning("journal_merchant_stuck", merchant_id=str(merchant_id))
            self._until[merchant_id.bytes] = self._clock() + _ASIDE_S
        else:
            if self._until.pop(merchant_id.bytes, None) is not None:
                _log.info("journal_merchant_free", merchant_id=str(merchant_id))
