"""The sandbox's charge writer: the group commit of authorisation calls, each recorded with its answer.

A second call with the same key never changes a record. After a lost connection, unrecorded calls are queued again. Read
`postgres.group_commit` first: the queue, the task and the lost connection are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.postgres.group_commit import STOP_PATIENCE_S, GroupCommitter, PendingCommand, Rows, reject_batch
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox import charge_rows
from ledger.processors.sandbox.call_executor import fenced
from ledger.processors.sandbox.charge_rows import Answer, CallKey, ChargeCall, Mode, RecordedCharge

_log = structlog.get_logger()

_NO_DATABASE: Final = "the sandbox processor has no database"

_Pending = PendingCommand[ChargeCall, RecordedCharge]


class ChargeWriter(GroupCommitter[ChargeCall, RecordedCharge]):
    """The writer of plain authorisation calls, in batches on one connection of its own; it also reads their answers."""

    _name = "ledger-sandbox"

    async def stop(self, patience_s: float = STOP_PATIENCE_S) -> None:
        """Records what is pending, then disconnects. Without a database it does not wait."""
        await super().stop(0.0 if self._connection is None else patience_s)

    async def write(self, call: ChargeCall) -> RecordedCharge:
        """Records a call and returns what is recorded for its key, once that is durable.

        Raises ProcessorUnavailable where nothing of the call was recorded, ProcessorTimedOut where that is unknown. A
        call that is pending when the connection is lost waits for the next one. A call that is cancelled before its
        batch is taken is not recorded.
        """
        try:
            return await self.submit(call)
        except Fault as fault:
            raise ProcessorUnavailable(str(fault)) from fault

    async def answer_to(self, merchant_id: UUID, idempotency_key: str) -> Answer | None:
        """Returns the answer recorded for a key. Raises ProcessorUnavailable or ProcessorTimedOut."""
        if self._connection is None:
            raise ProcessorUnavailable(_NO_DATABASE)
        key = (merchant_id, idempotency_key)
        try:
            return (await charge_rows.read(self._connection, [key])).get(key)
        except psycopg.Error as fault:
            self._wake.set()  # the task then replaces a connection that is closed
            raise ProcessorTimedOut(f"the sandbox's charges cannot be read: {type(fault).__name__}") from fault

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None) -> None:
        """Sets how the merchant's next `times` calls are treated, all calls where it is None.

        Raises ProcessorUnavailable.
        """
        if self._connection is None:
            raise ProcessorUnavailable(_NO_DATABASE)
        try:
            await charge_rows.set_mode(self._connection, merchant_id, mode, times)
        except psycopg.Error as fault:
            self._wake.set()
            raise ProcessorUnavailable(f"the mode was not kept: {type(fault).__name__}") from fault

    # ---------------------------------------------------------------- a batch

    def _take(self) -> Sequence[_Pending]:
        """Takes the next calls, each with a key of its own, without those whose callers have given up."""
        batch: dict[CallKey, _Pending] = {}
        while self._queue and len(batch) < self._batch_max and (key := self._queue[0].command.key) not in batch:
            pending = self._queue.popleft()
            if not pending.future.done():
                batch[key] = pending
        return list(batch.values())

    async def _execute(self, connection: Connection, commands: Sequence[ChargeCall]) -> Rows:
        return await charge_rows.write(connection, commands)

    def _results(self, commands: Sequence[ChargeCall], rows: Rows) -> Sequence[RecordedCharge | Exception]:
        results: list[RecordedCharge | Exception] = []
        for call, (mode, *existing) in zip(commands, rows, strict=True):
            if mode == Mode.DOWN:
                results.append(ProcessorUnavailable("the sandbox processor is down for this merchant"))
            else:
                answer = call.answer if existing[0] is None else charge_rows.answer_from(*existing)
                results.append(RecordedCharge(answer, Mode(mode) if mode else Mode.OK) if answer else fenced())
        return results

    async def _rolled_back(self, batch: Sequence[_Pending], fault: Exception) -> None:
        _log.error("sandbox_book_refused", reason=type(fault).__name__, calls=len(batch))
        reject_batch(batch, DatabaseUnavailable, f"the database refused the sandbox's charges: {type(fault).__name__}")

    # ---------------------------------------------------------------- a lost connection, and the end

    def _connection_lost(self, batch: Sequence[_Pending]) -> None:
        _log.warning("sandbox_book_connection_lost", calls=len(batch))

    async def _find_committed(
        self, connection: Connection, commands: Sequence[ChargeCall]
    ) -> Mapping[int, RecordedCharge]:
        answers = await charge_rows.read(connection, [call.key for call in commands])
        return {n: RecordedCharge(answers[call.key], Mode.OK) for n, call in enumerate(commands) if call.key in answers}

    def _connection_back(self, committed: int, uncommitted: Sequence[_Pending]) -> None:
        _log.info("sandbox_book_connection_back", booked=committed, again=len(uncommitted))
        self._queue.extendleft(reversed(uncommitted))

    def _ended(self, unanswered: Sequence[_Pending], fault: BaseException) -> None:
        reject_batch(unanswered, ProcessorTimedOut, f"the sandbox's charge writer ended: {fault!r}")
