"""Merchants whose head somebody else holds: their commands step aside, so that nobody waits behind them.

The rule a stranger would break: a held head is nothing unusual, every batch of another process holds some for a moment.
So nobody is refused before a second and a half has passed, and until then whoever is let go is written at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import structlog

from ledger.journal.commit.pending import PendingCommand, reject_batch, request_ids
from ledger.postgres.connection import Connection, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable

_log = structlog.get_logger()

PATIENCE_S: Final = 1.5
"""How long a command waits for a head, or for a table, that somebody else holds."""
LOOK_S: Final = 0.02
LOCK_WAIT_S: Final = 0.3
"""How long a batch waits as a whole before it is asked whose head is in its way. Longer than any ordinary commit."""

_MESSAGE: Final = "somebody else holds the merchant's log"

# Which of these heads nobody holds at this moment.
_FREE: Final = """
select merchant_id from merchant_head where merchant_id = any(%s::uuid[]) order by merchant_id for update skip locked
"""


def is_late(waiting: PendingCommand) -> bool:
    """Whether a command that cannot be written now has waited as long as one may."""
    return time.monotonic() - waiting[2] > PATIENCE_S


class LockedMerchants:
    """Empty, and false, while nobody's head is held. Ids are 16 bytes."""

    def __init__(self) -> None:
        self._since: dict[bytes, float] = {}
        self._next_look = 0.0
        self.aside: list[PendingCommand] = []

    def __len__(self) -> int:
        return len(self._since)

    def refuses(self, merchant_id: bytes) -> bool:
        """Whether a command of this merchant need not even wait."""
        since = self._since.get(merchant_id)
        return since is not None and time.monotonic() - since > PATIENCE_S

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return bool(self._since) and time.monotonic() >= self._next_look

    async def find(self, connection: Connection, merchants: Iterable[bytes]) -> None:
        """Note who of these is held, after their heads could not be locked together."""
        asked = set(merchants)
        for merchant_id in asked - await self._free(connection, asked):
            self._since.setdefault(merchant_id, time.monotonic() - LOCK_WAIT_S)

    async def look(self, connection: Connection) -> list[PendingCommand]:
        """Commands of merchants that were let go, in their order. Those that have waited too long are refused."""
        for merchant_id in await self._free(connection, self._since):
            del self._since[merchant_id]
        self._next_look = time.monotonic() + LOOK_S
        back = [waiting for waiting in self.aside if waiting[0].merchant_id not in self._since]
        aside = [waiting for waiting in self.aside if waiting[0].merchant_id in self._since]
        self.aside = [waiting for waiting in aside if not is_late(waiting)]
        if refused := [waiting for waiting in aside if is_late(waiting)]:
            merchants = sorted({str(UUID(bytes=append.merchant_id)) for append, _, _ in refused})
            _log.warning("journal_head_held", merchants=merchants, commands=len(refused), requests=request_ids(refused))
            for append, _, submitted in refused:  # whoever comes now need not wait for what these have waited for
                self._since[append.merchant_id] = min(self._since[append.merchant_id], submitted)
            reject_batch(refused, DatabaseUnavailable, _MESSAGE)
        return back

    def defer(self, batch: Sequence[PendingCommand]) -> list[PendingCommand]:
        """Put those of a batch aside whose merchants are held; the others."""
        self.aside += [waiting for waiting in batch if waiting[0].merchant_id in self._since]
        return [waiting for waiting in batch if waiting[0].merchant_id not in self._since]

    def give_up(self, message: str) -> None:
        """Refuse whoever waits aside."""
        reject_batch(self.aside, DatabaseUnavailable, message)
        self.aside.clear()

    async def _free(self, connection: Connection, merchants: Iterable[bytes]) -> set[bytes]:
        ids = [UUID(bytes=merchant_id) for merchant_id in merchants]
        with QueryTimeout(connection):
            rows = await (await connection.execute(_FREE, (ids,))).fetchall()
        return {merchant_id.bytes for (merchant_id,) in rows}
