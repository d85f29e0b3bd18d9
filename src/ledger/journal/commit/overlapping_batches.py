"""The group commit with a second batch on the way while the first one is being committed.

Never commit a batch again while another one is in flight. Whatever goes wrong, no batch follows, those in flight are
answered first, and then the task settles the faults, one batch at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Generic

import psycopg
from msgspec import Struct

from ledger.postgres.group_commit import TRY_AGAIN, C, GroupCommitter, PendingCommand, R, Rows, answer_batch

IN_FLIGHT_MAX: Final = 2
"""While one batch is committed, a second one waits at the server.

A third would wait at the server as long as in this process.
"""

ENOUGH: Final = 32
"""The number of commands that are sent at once, within the turn of the event loop that submits them: the server
executes them while the process encodes the next ones. Behind a batch in flight, fewer gather until it is answered,
because each batch costs the client and the server as much as some ten commands.
"""


# The last of them: the statement should have been prepared by the batch before, which failed.
_TRY_AGAIN: Final = (*TRY_AGAIN, psycopg.errors.InvalidSqlStatementName)


class _Faulted(Struct, Generic[C, R], frozen=True):
    """A batch whose statement raised `fault`, and whether it may be committed nevertheless."""

    batch: Sequence[PendingCommand[C, R]]
    fault: Exception
    is_unknown: bool


class OverlappingCommitter(GroupCommitter[C, R]):
    """A group committer whose `submit` sends batches itself, as transactions of their own on one connection.

    The server executes them in order: the second one's check sees what the first one committed. `_execute` sends a
    batch at once or, if it is a coroutine, in the next turn of the event loop.
    """

    def __init__(self, url: str, *, batch_max: int = 256, queue_max: int = 10_000) -> None:
        super().__init__(url, batch_max=batch_max, queue_max=queue_max)
        self._enough = min(ENOUGH, batch_max)
        self._in_flight: set[asyncio.Future[Rows]] = set()
        self._faulted: list[_Faulted[C, R]] = []
        self._is_overlapping = self._is_send_due = False

    def _may_overlap(self) -> bool:
        """Returns whether batches may be sent without the task."""
        return not self._closing and self._connection is not None and not self._connection.closed

    def _queued(self) -> None:
        if not self._is_overlapping:
            super()._queued()
        elif self._in_flight or len(self._queue) >= self._enough:
            self._send_due()
        elif not self._is_send_due:  # what else this turn of the event loop submits joins the batch
            self._is_send_due = True
            asyncio.get_running_loop().call_soon(self._send_due)

    def _send_due(self) -> None:
        """Sends a batch if none is in flight, and further batches as long as enough commands wait for each."""
        self._is_send_due = False
        while self._is_overlapping and self._queue:
            if self._in_flight and (len(self._in_flight) == IN_FLIGHT_MAX or len(self._queue) < self._enough):
                return
            self._send(self._take())

    def _send(self, batch: Sequence[PendingCommand[C, R]]) -> None:
        assert self._connection is not None, "only the task closes the connection, with nothing in flight"
        self._taken.append(batch)
        commands = [pending.command for pending in batch]
        try:
            answer = asyncio.ensure_future(self._execute(self._connection, commands))
        except Exception as fault:  # noqa: BLE001 - one command's fault must not end the caller of another one
            self._fail(batch, fault, is_unknown=self._is_unknown(fault))
        else:
            self._in_flight.add(answer)
            answer.add_done_callback(partial(self._answered, batch, commands))

    def _answered(
        self, batch: Sequence[PendingCommand[C, R]], commands: Sequence[C], answer: asyncio.Future[Rows]
    ) -> None:
        self._in_flight.discard(answer)
        if fault := answer.exception():
            assert isinstance(fault, Exception)
            self._fail(batch, fault, is_unknown=self._is_unknown(fault))
            return
        self._send_due()  # before the callers of this batch have their turn: the server waits for nothing
        try:
            results = self._results(commands, answer.result())
        except Exception as fault:  # noqa: BLE001 - whatever it is, the batch is committed
            self._fail(batch, fault, is_unknown=True)
        else:
            self._taken.remove(batch)
            answer_batch(batch, results)

    def _fail(self, batch: Sequence[PendingCommand[C, R]], fault: Exception, *, is_unknown: bool) -> None:
        self._is_overlapping = False
        self._faulted.append(_Faulted(batch, fault, is_unknown))
        self._wake.set()

    # ---------------------------------------------------------------- the task

    async def _step(self) -> None:
        """Lets `submit` send batches until one fails, the connection is lost, or the service ends."""
        if not self._may_overlap():
            await super()._step()
            return
        self._wake.clear()
        self._is_overlapping = True
        try:
            self._send_due()
            await self._wake.wait()
        finally:
            self._is_overlapping = False
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        await self._settle()

    async def _settle(self) -> None:
        """Looks up the batches that may be committed, all at once, then commits or rejects the others in turn."""
        faulted, self._faulted = self._faulted, []
        if unknown := [pending for each in faulted if each.is_unknown for pending in each.batch]:
            await self._resolve(unknown)
        for each in faulted:
            if each.is_unknown:
                continue
            if isinstance(each.fault, _TRY_AGAIN):
                await self._commit(each.batch)
            else:
                await self._rolled_back(each.batch, each.fault)
        self._taken.clear()
