"""The sandbox processor's book: every call that reached it and the answer it decided on, durable before it is given.

The rule a stranger would break: a row is never changed by a second call with its key, and a call whose row may or may
not have been written is not answered before the book has been read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import psycopg
import structlog

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Backend, Connection, QueryTimeout, backend_of, connect, end_backend, reconnect
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox import charge_rows
from ledger.processors.sandbox.charge_rows import Answer, BookedCharge, ChargeCall, Mode

_log = structlog.get_logger()

_NAME: Final = "ledger-sandbox"
_DEADLOCKS_MAX: Final = 5
_NO_DATABASE: Final = "the sandbox processor has no database"

Waiting = tuple[ChargeCall, "asyncio.Future[BookedCharge]"]


class ChargeWriter:
    """Writes bookings in groups on one connection of its own, and reads them back.

    `url` is a libpq connection string; at most `group_max` calls make a commit and at most `queue_max` wait.
    """

    def __init__(self, url: str, *, group_max: int = 256, queue_max: int = 10_000) -> None:
        self._url = url
        self._group_max = group_max
        self._queue_max = queue_max
        self._queue: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._backend: Backend = ()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def alive(self) -> bool:
        """Whether calls are being booked."""
        return self._connection is not None and self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Connect and begin to book. Raises psycopg.OperationalError."""
        await self._adopt(await connect(self._url, _NAME))
        self._task = asyncio.create_task(self._run(), name="sandbox-book")

    async def stop(self) -> None:
        """Book what waits, then end. Without a database nothing can wait."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            if self._connection is None:
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def book(self, call: ChargeCall) -> asyncio.Future[BookedCharge]:
        """Queue a call; the future tells what the book says of it, once that is durable.

        Raises ProcessorUnavailable at once, or through the future, where nothing of the call was kept; the future raises
        ProcessorTimedOut where that is not known. A call that was queued when the database went away waits for it; who
        will not wait so long cancels the future, and a call that is cancelled before its turn is not booked.
        """
        if not self.alive or self._closing:
            raise ProcessorUnavailable(_NO_DATABASE)
        if len(self._queue) >= self._queue_max:
            raise ProcessorUnavailable("too many calls wait for the sandbox processor")
        future: asyncio.Future[BookedCharge] = asyncio.get_running_loop().create_future()
        self._queue.append((call, future))
        self._wake.set()
        return future

    async def answer_to(self, merchant_id: UUID, idempotency_key: str) -> Answer | None:
        """What stands in the book for a key. Raises ProcessorUnavailable or ProcessorTimedOut."""
        if self._connection is None:
            raise ProcessorUnavailable(_NO_DATABASE)
        try:
            answers = await _read(self._connection, [(merchant_id, idempotency_key)])
        except psycopg.Error as fault:
            self._wake.set()  # a connection that is gone is noticed here, and opened again by the loop
            raise ProcessorTimedOut(f"the sandbox's book cannot be read: {type(fault).__name__}") from fault
        return answers.get(0)

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None) -> None:
        """Treat the merchant's next `times` calls so, or all until told otherwise. Raises ProcessorUnavailable."""
        if self._connection is None:
            raise ProcessorUnavailable(_NO_DATABASE)
        try:
            await self._connection.execute(charge_rows.SET_MODE, (merchant_id, mode, times))
        except psycopg.Error as fault:
            self._wake.set()
            raise ProcessorUnavailable(f"the mode was not kept: {type(fault).__name__}") from fault

    # ---------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while True:
            while not self._queue:
                if self._closing:
                    return
                if self._connection is None or self._connection.closed:
                    await self._reconnect(())
                    continue
                self._wake.clear()
                await self._wake.wait()
            group = [self._queue.popleft() for _ in range(min(len(self._queue), self._group_max))]
            group = [waiting for waiting in group if not waiting[1].done()]  # nobody waits for the others any more
            try:
                if group:
                    await self._write(group)
            except BaseException as fault:
                _fail(group, ProcessorTimedOut, f"the sandbox's book ended: {fault!r}")
                _fail(self._queue, ProcessorUnavailable, "the sandbox's book ended")
                self._queue.clear()
                raise

    async def _write(self, group: Sequence[Waiting]) -> None:
        """Book a group and tell every caller what stands in the book."""
        connection = self._connection
        assert connection is not None
        calls = [call for call, _ in group]
        rows = None
        try:
            with QueryTimeout(connection):
                rows = await _insert(connection, calls)
                _tell(group, await _settle(connection, calls, rows))
        except psycopg.Error as fault:
            if fault.sqlstate is None or connection.closed:
                return await self._reconnect(group)
            # The server refused in its own words: the insert was rolled back, or was committed and cannot be read.
            _log.error("sandbox_book_refused", reason=type(fault).__name__, calls=len(calls))
            refusal = ProcessorUnavailable if rows is None else ProcessorTimedOut
            _fail(group, refusal, f"the sandbox's book refused: {type(fault).__name__}")

    async def _reconnect(self, group: Sequence[Waiting]) -> None:
        """The connection broke: find out what was booked of the group, and put the rest back into the queue.

        The old backend is ended first. What it has not committed by then it never will, so "not in the book" is final.
        """
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        _log.warning("sandbox_book_connection_lost", calls=len(group))
        found = await self._when_back([(call.merchant_id, call.idempotency_key) for call, _ in group])
        _log.info("sandbox_book_connection_back", booked=len(found), again=len(group) - len(found))
        for n, answer in found.items():
            future = group[n][1]
            if not future.done():
                future.set_result(BookedCharge(answer, Mode.OK))
        self._queue.extendleft(reversed([waiting for n, waiting in enumerate(group) if n not in found]))

    async def _when_back(self, keys: Sequence[tuple[UUID, str]]) -> dict[int, Answer]:
        """Connect as soon as the database answers; what stands in the book for these keys, now and for good."""
        while True:
            connection = await reconnect(self._url, _NAME)
            try:
                with QueryTimeout(connection):
                    await end_backend(connection, self._backend)
                    found = await _read(connection, keys)
                    await self._adopt(connection)
            except psycopg.Error:
                await connection.close()
            else:
                return found

    async def _adopt(self, connection: Connection) -> None:
        self._backend = await backend_of(connection)
        self._connection = connection


async def _insert(connection: Connection, calls: Sequence[ChargeCall]) -> list[Any]:
    columns = charge_rows.packed(calls)
    for _ in range(_DEADLOCKS_MAX):
        with suppress(psycopg.errors.DeadlockDetected):
            return await (await connection.cursor(binary=True).execute(charge_rows.BOOK, columns)).fetchall()
    raise psycopg.errors.DeadlockDetected("the group met deadlocks only")


async def _settle(
    connection: Connection, calls: Sequence[ChargeCall], rows: Sequence[Any]
) -> list[BookedCharge | None]:
    """What each call of a booked group is told; None where the processor was down for it."""
    first: dict[tuple[UUID, str], Answer] = {}
    known: list[int] = []
    for n, (call, (mode, booked)) in enumerate(zip(calls, rows, strict=True)):
        if mode == Mode.DOWN:
            continue
        # The same key twice in one group: the first call is the one that was written.
        first.setdefault((call.merchant_id, call.idempotency_key), call.answer)
        if not booked:
            known.append(n)
    if known:
        found = await _read(connection, [(calls[n].merchant_id, calls[n].idempotency_key) for n in known])
        first |= {(calls[n].merchant_id, calls[n].idempotency_key): found[k] for k, n in enumerate(known)}
    return [
        None
        if mode == Mode.DOWN
        else BookedCharge(first[call.merchant_id, call.idempotency_key], Mode(mode or Mode.OK))
        for call, (mode, _) in zip(calls, rows, strict=True)
    ]


async def _read(connection: Connection, keys: Sequence[tuple[UUID, str]]) -> dict[int, Answer]:
    merchants = ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id, _ in keys])
    names = ENCODE_ARRAY["text"]([key.encode() for _, key in keys])
    rows: list[Any] = await (
        await connection.cursor(binary=True).execute(charge_rows.READ, (merchants, names))
    ).fetchall()
    return {n - 1: charge_rows.answer_from(*columns) for n, *columns in rows}


def _tell(group: Sequence[Waiting], told: Sequence[BookedCharge | None]) -> None:
    for (_, future), booking in zip(group, told, strict=True):
        if future.done():
            continue
        if booking is None:
            future.set_exception(ProcessorUnavailable("the sandbox processor is down for this merchant"))
        else:
            future.set_result(booking)


def _fail(group: Sequence[Waiting] | deque[Waiting], fault: type[Exception], message: str) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(fault(message))
