"""Merchants whose head another transaction has locked: their commands are deferred, so that the other merchants' go on.

Locked heads are normal: each batch of another process locks some for a moment. A command is therefore rejected only
after 1.5 seconds, and until then it is written as soon as its merchant's head is free.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import structlog

from ledger.journal.commit.batch import request_ids
from ledger.journal.commit.group_commit import COMMIT_MAX_S, PendingAppend, reject_batch
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Pipeline, Statement

_log = structlog.get_logger()

PATIENCE_S: Final = 1.5
"""How long a command waits for a head, or for a table, that another transaction has locked."""
LOOK_S: Final = 0.02
"""How often the writer looks whether a head is free again."""
LOCK_WAIT_S: Final = 0.3
"""How long a batch waits as a whole before the writer looks for the locked heads. Longer than any ordinary commit."""

LOCKED: Final = "another transaction has locked the merchant's log: try again later"

FREE_HEADS: Final = """
select merchant_id from merchant_head where merchant_id = any($1::uuid[]) order by merchant_id for update skip locked
"""
"""The heads among these that are not locked at this moment."""
_FREE: Final = Statement(b"ledger_free_heads", FREE_HEADS.encode())

# Ends the writers' connections whose client stopped in the middle of a commit. Postgres 17 and newer end them by
# themselves. An older one waits for the client without end: none of its time-outs applies between two statements of a
# batch.
_END_STOPPED: Final = Statement(
    b"ledger_end_stopped",
    b"""
select pg_terminate_backend(pid) from pg_stat_activity
 where datname = current_database() and usename = current_user
   and application_name in ('ledger-writer', 'ledger-large-commits')
   and state = 'active' and wait_event = 'ClientRead' and xact_start < now() - make_interval(secs => $1)
""",
)
_FLOAT8: Final = struct.Struct("!d")
_END_STOPPED_EVERY_S: Final = 1.0


def split_late(batch: Sequence[PendingAppend]) -> tuple[list[PendingAppend], list[PendingAppend]]:
    """Returns the commands that have waited for more than `PATIENCE_S`, and the others."""
    latest_s = time.monotonic() - PATIENCE_S  # read once: each command is in exactly one of the lists
    return [each for each in batch if each.submitted_s < latest_s], [
        each for each in batch if each.submitted_s >= latest_s
    ]


class LockedMerchants:
    """The locked merchants and their deferred commands.

    `since` is when each was found locked (id of 16 bytes to seconds of the monotonic clock); empty while none is.
    """

    def __init__(self) -> None:
        self.since: dict[bytes, float] = {}
        self._next_look = 0.0
        self._next_end = 0.0
        self.deferred: list[PendingAppend] = []

    def refuses(self, merchant_id: bytes) -> bool:
        """Returns whether this merchant's new commands are rejected at once, because its head has been locked for
        `PATIENCE_S`.
        """
        since = self.since.get(merchant_id)
        return since is not None and time.monotonic() - since > PATIENCE_S

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() >= self._next_look

    async def find(self, pipeline: Pipeline, merchants: Iterable[bytes]) -> None:
        """Records which of these merchants are locked, after their heads could not be locked together."""
        asked = set(merchants)
        for merchant_id in asked - await self._free(pipeline, asked):
            self.since.setdefault(merchant_id, time.monotonic() - LOCK_WAIT_S)

    async def look(self, pipeline: Pipeline) -> list[PendingAppend]:
        """Returns the commands of merchants that are free again, in their order.

        Rejects those that have waited too long. Raises psycopg.Error; then nothing has changed.
        """
        try:
            await self._end_stopped(pipeline)  # first: a stopped writer may be why the heads cannot be looked at
            free = await self._free(pipeline, self.since)
        finally:
            self._next_look = time.monotonic() + LOOK_S
        for merchant_id in free:
            del self.since[merchant_id]
        deferred, self.deferred = self.deferred, []
        back = self.defer(deferred)
        self.reject_late()
        return back

    def defer(self, batch: Sequence[PendingAppend]) -> list[PendingAppend]:
        """Defers the commands of a batch whose merchants are locked, and returns the others."""
        self.deferred += [pending for pending in batch if pending.command.merchant_id in self.since]
        return [pending for pending in batch if pending.command.merchant_id not in self.since]

    def reject_all(self, message: str) -> None:
        """Rejects the deferred commands."""
        reject_batch(self.deferred, DatabaseUnavailable, message)
        self.deferred.clear()

    def reject_late(self) -> None:
        """Rejects the deferred commands that have waited too long."""
        late, self.deferred = split_late(self.deferred)
        if not late:
            return
        merchants = sorted({str(UUID(bytes=pending.command.merchant_id)) for pending in late})
        _log.warning("journal_head_held", merchants=merchants, commands=len(late), requests=request_ids(late))
        for pending in late:  # new commands of these merchants are rejected at once from now on
            merchant_id = pending.command.merchant_id
            self.since[merchant_id] = min(self.since[merchant_id], pending.submitted_s)
        reject_batch(late, DatabaseUnavailable, LOCKED)

    async def _end_stopped(self, pipeline: Pipeline) -> None:
        """Ends commits of other writers that wait for their client, once a merchant is locked for `COMMIT_MAX_S`."""
        now = time.monotonic()
        if now < self._next_end or not any(now - since > COMMIT_MAX_S for since in self.since.values()):
            return
        self._next_end = now + _END_STOPPED_EVERY_S
        ended = await pipeline.send([(_END_STOPPED, [_FLOAT8.pack(COMMIT_MAX_S)])], lambda rows: len(rows[0]))
        if ended:
            _log.warning("journal_stopped_writer_ended", writers=ended)

    async def _free(self, pipeline: Pipeline, merchants: Iterable[bytes]) -> set[bytes]:
        statement = _FREE, [ENCODE_ARRAY["uuid"](list(merchants))]
        return await pipeline.send([statement], lambda rows: {merchant_id.bytes for (merchant_id,) in rows[0]})
