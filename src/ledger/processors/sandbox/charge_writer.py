"""The sandbox's charge writer: records plain authorisation calls, those that wait at the same time by one statement.

A second call with the same key never changes a record. After a lost connection, calls that may not be recorded are
written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from ledger.postgres.connection import QueryTimeout
from ledger.postgres.replication import wait_for_standbys
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox import charge_rows
from ledger.processors.sandbox.call_executor import CallExecutor, fenced
from ledger.processors.sandbox.charge_rows import Answer, CallKey, ChargeCall, Mode, RecordedCharge

BATCH_MAX: Final = 256
WAITING_MAX: Final = 10_000
_AGAIN_S: Final = 0.1

_Waiting = dict[CallKey, tuple[ChargeCall, asyncio.Future[RecordedCharge]]]


class ChargeWriter:
    """The writer of plain authorisation calls: one batch at a time, on a connection of `executor`.

    At most `waiting_max` calls wait.
    """

    def __init__(self, executor: CallExecutor, *, waiting_max: int = WAITING_MAX) -> None:
        self._executor = executor
        self._waiting_max = waiting_max
        self._waiting: list[tuple[ChargeCall, asyncio.Future[RecordedCharge]]] = []
        self._is_writing = False

    async def write(self, call: ChargeCall) -> RecordedCharge:
        """Records a call and returns what is recorded for its key, once that is durable.

        Raises ProcessorUnavailable if nothing of the call was recorded, ProcessorTimedOut if that is unknown. A call
        that is cancelled before its batch is taken is not recorded.
        """
        if len(self._waiting) >= self._waiting_max:
            raise ProcessorUnavailable(f"{self._waiting_max} calls wait for the sandbox already: try again later")
        recorded: asyncio.Future[RecordedCharge] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, recorded))
        if not self._is_writing:
            self._is_writing = True
            self._executor.begin(self._write_waiting())
        return await recorded

    async def _write_waiting(self) -> None:
        try:
            while batch := self._take():
                await self._write(batch)
        finally:
            self._is_writing = False

    def _take(self) -> _Waiting:
        """Takes the next calls, each with a key of its own, without those whose callers have given up."""
        batch: _Waiting = {}
        later = []
        for call, recorded in self._waiting:
            if recorded.done():
                continue
            if len(batch) < BATCH_MAX and call.key not in batch:
                batch[call.key] = call, recorded
            else:
                later.append((call, recorded))
        self._waiting = later
        return batch

    async def _write(self, batch: _Waiting) -> None:
        """Writes a batch and answers its callers.

        A batch that may or may not be committed is written again until it is: its keys keep what is recorded. No call
        of it is then answered as refused, because its first statement may still be committed.
        """
        calls = [call for call, _ in batch.values()]
        is_unknown = False
        results: Sequence[RecordedCharge | Exception] = ()
        while not results:
            try:
                async with self._executor.connection() as connection:
                    with QueryTimeout(connection):
                        rows = await charge_rows.write(connection, calls)
                results = [_result(call, row, is_unknown) for call, row in zip(calls, rows, strict=True)]
            except ProcessorTimedOut:
                is_unknown = True
            except ProcessorUnavailable as fault:
                results = () if is_unknown else [ProcessorUnavailable(str(fault)) for _ in calls]
            if not results:
                if not self._executor.alive or all(recorded.done() for _, recorded in batch.values()):
                    results = [ProcessorTimedOut("the sandbox lost its database") for _ in calls]
                else:
                    await asyncio.sleep(_AGAIN_S)
        for (_, recorded), result in zip(batch.values(), results, strict=True):
            if recorded.done():
                continue
            if isinstance(result, Exception):
                recorded.set_exception(result)
            else:
                recorded.set_result(result)

    async def answer_to(self, merchant_id: UUID, idempotency_key: str) -> Answer | None:
        """Returns the answer recorded for a key. Raises ProcessorUnavailable or ProcessorTimedOut."""
        key = (merchant_id, idempotency_key)
        async with self._executor.connection() as connection:
            answer = (await charge_rows.read(connection, [key])).get(key)
            if answer is not None:
                await wait_for_standbys(connection)
            return answer

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None) -> None:
        """Sets how the merchant's next `times` calls are treated, all calls if it is None.

        Raises ProcessorUnavailable or ProcessorTimedOut.
        """
        async with self._executor.connection() as connection:
            await charge_rows.set_mode(connection, merchant_id, mode, times)


def _result(call: ChargeCall, row: tuple[Any, ...], is_unknown: bool) -> RecordedCharge | Exception:
    """Returns what a call's row means: an answer, or the exception to raise.

    `is_unknown` is whether an earlier statement with the call may still be committed.
    """
    mode, *existing = row
    if mode == Mode.DOWN:
        down = ProcessorTimedOut if is_unknown else ProcessorUnavailable
        return down("the sandbox processor is down for this merchant")
    answer = call.answer if existing[0] is None else charge_rows.answer_from(*existing)
    return RecordedCharge(answer, Mode(mode) if mode else Mode.OK) if answer else fenced()
