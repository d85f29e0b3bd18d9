"""The sandbox's call executor: carries out one call in one transaction, once for its key, and records the answer.

A call's effect and its answer are one commit. A call that was begun is carried out even if its caller has given up,
as with any processor. An answer that was found is returned once the synchronous standby has it, as a new one is. Raise
`ProcessorUnavailable` only for a transaction that was rolled back.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
import psycopg
from msgspec import Struct

from ledger.domain.money import ZERO, scaled
from ledger.postgres.connection import Connection, connect_unless_one_waits
from ledger.postgres.replication import wait_for_standbys
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, Request
from ledger.processors.sandbox import charge_rows
from ledger.processors.sandbox.charge_rows import Mode
from ledger.tasks import DetachedTasks

T = TypeVar("T")

_NAME: Final = "ledger-sandbox-calls"
_CONNECTIONS_MAX: Final = 4

# How the merchant's call is treated, null for OK. Counts the call, and locks its reference across all processes, so
# that the rows that the next statements read stay the same until the commit.
_COUNT_AND_LOCK: Final = """
with counted as (
  update sandbox_mode set times_left = times_left - 1
   where merchant_id = %s and mode <> 'OK' and (times_left is null or times_left > 0) returning mode)
select (select mode from counted), pg_advisory_xact_lock(hashtextextended(%s, 0))
"""

# The recorded answer of a call.
_FIND: Final = "select answer from sandbox_call where merchant_id = %s and kind = %s and idempotency_key = %s"

# A call and its answer.
_RECORD: Final = """
insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer)
values (%s, %s, %s, %s, %s, %s, %s)
"""


# Refuses a call from now on. A call that is recorded keeps its answer.
_FENCE: Final = """
insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer)
values (%s, %s, %s, '', 0, false, 'FENCED') on conflict do nothing
"""
_FENCED: Final = "FENCED"
"""The text that a fenced call has in place of its JSON answer."""


class CallKind(StrEnum):
    """The kinds of calls. Each kind has idempotency keys of its own."""

    AUTHORIZE = "AUTHORIZE"
    CAPTURE = "CAPTURE"
    VOID = "VOID"
    RELEASE = "RELEASE"
    REFUND = "REFUND"
    ISSUE = "ISSUE"
    CANCEL_REFERENCE = "CANCEL_REFERENCE"
    PAY_OUT = "PAY_OUT"
    DEPOSIT = "DEPOSIT"


class CallResult(Struct, frozen=True):
    """The result of a call: its answer, whether it was accepted, and how much money it moved (minor units)."""

    answer: Struct
    accepted: bool = True
    moved: Decimal = ZERO


CallEffect = Callable[[Connection], Awaitable[CallResult]]
"""Carries out a call inside the executor's transaction."""


class SandboxCall(Struct, frozen=True, kw_only=True):
    """A call to carry out: `effect` runs inside the transaction, which holds the lock on `reference`.

    A call that is still waiting for a connection at `deadline_at` is not carried out.
    """

    merchant_id: UUID
    kind: CallKind
    idempotency_key: str
    reference: str
    effect: CallEffect
    deadline_at: datetime | None = None


class CallExecutor:
    """The executor of calls, on at most four connections of its own. `url` is a libpq connection string."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._permits = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._running = DetachedTasks()
        self._is_open = False

    @property
    def alive(self) -> bool:
        """Whether calls are carried out: between `start` and `stop`."""
        return self._is_open

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        self._idle.append(await connect_unless_one_waits(self._url, _NAME))
        self._is_open = True

    async def stop(self) -> None:
        """Finishes the calls that were begun, then disconnects."""
        self._is_open = False
        await self._running.drain()
        while self._idle:
            await self._idle.pop().close()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work that `stop` waits for. It must not raise."""
        self._running.begin(work)

    async def carry_out(self, call: SandboxCall, decode: Callable[[str], T]) -> tuple[T, Mode]:
        """Carries out a call. Returns its recorded answer, decoded by `decode`, and how its merchant is treated.

        Raises ProcessorUnavailable if nothing of the call was recorded, ProcessorTimedOut if that is unknown.
        """
        text, mode = await self._running.complete(self._carry_out(call))
        if text is None:
            raise ProcessorUnavailable("the sandbox processor is down for this merchant")
        if text == _FENCED:
            raise fenced()
        return decode(text), mode

    async def answer_to(self, merchant_id: UUID, kind: CallKind, idempotency_key: str) -> str | None:
        """Returns the recorded answer of a call, as text. Raises ProcessorUnavailable or ProcessorTimedOut."""
        async with self.connection() as connection:
            row = await fetch_one(connection, _FIND, (merchant_id, kind, idempotency_key))
            if row is None or row[0] == _FENCED:
                return None
            await wait_for_standbys(connection)
            return str(row[0])

    async def fence(self, merchant_id: UUID, kind: CallKind, idempotency_key: str) -> None:
        """Refuses a call when it arrives; one that is recorded keeps its answer.

        An authorisation is recorded as a charge, as a call, or as both. Raises ProcessorUnavailable or
        ProcessorTimedOut.
        """
        key = (merchant_id, idempotency_key)
        async with self.connection() as connection, connection.transaction() as transaction:
            if kind is CallKind.AUTHORIZE:
                await charge_rows.fence(connection, *key)
                if await charge_rows.read(connection, [key]):
                    return
            if (await connection.execute(_FENCE, (merchant_id, kind, idempotency_key))).rowcount == 0:
                raise psycopg.Rollback(transaction)  # recorded, or fenced already: no half of a fence is left

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lends a connection to a block, and raises the block's database faults as a processor's."""
        async with self._permits:
            try:
                connection = await self._take_idle() or await connect_unless_one_waits(self._url, _NAME)
            except psycopg.OperationalError as fault:
                raise ProcessorUnavailable("the sandbox processor has no database") from fault
            try:
                yield connection
            except psycopg.Error as fault:
                if fault.sqlstate is None or connection.closed:
                    await connection.close()
                    raise ProcessorTimedOut(f"the sandbox lost its database: {type(fault).__name__}") from fault
                raise ProcessorUnavailable(f"the database refused the call: {type(fault).__name__}") from fault
            except BaseException:
                await connection.close()  # a statement may still run on it
                raise
            finally:
                if not connection.closed:
                    self._idle.append(connection)

    async def _take_idle(self) -> Connection | None:
        """Takes an idle connection out of the pool, and closes those that the server has ended meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not _has_news(connection):
                return connection
            await connection.close()
        return None

    async def _carry_out(self, call: SandboxCall) -> tuple[str | None, Mode]:
        """Returns the recorded answer, None if the processor is down for the merchant, and the merchant's mode."""
        key = (call.merchant_id, call.kind, call.idempotency_key)
        async with self.connection() as connection, connection.transaction():
            if call.deadline_at is not None and call.deadline_at <= datetime.now(UTC):
                raise ProcessorUnavailable("no connection of the sandbox was free before the deadline")
            locked = f"{call.merchant_id}/{call.reference}"
            counted = await fetch_one(connection, _COUNT_AND_LOCK, (call.merchant_id, locked))
            mode = Mode(counted[0]) if counted and counted[0] else Mode.OK
            if mode is Mode.DOWN:
                return None, mode
            existing = await fetch_one(connection, _FIND, key)
            if existing is not None:
                await wait_for_standbys(connection)
                return str(existing[0]), mode
            result = await call.effect(connection)
            return await record(connection, key, call.reference, result), mode


async def record(connection: Connection, key: tuple[UUID, CallKind, str], reference: str, result: CallResult) -> str:
    """Records the result of a call about `reference` under its key, and returns its answer as text."""
    answer = msgspec.json.encode(result.answer).decode()
    await connection.execute(_RECORD, (*key, reference, scaled(result.moved), result.accepted, answer))
    return answer


def _has_news(connection: Connection) -> bool:
    """Returns whether the server sent something to an idle connection: an idle one is sent only its end."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def fetch_one(connection: Connection, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
    """Returns the one row of a statement, or None."""
    return await (await connection.execute(statement, values)).fetchone()


def fenced() -> ProcessorUnavailable:
    """Returns the answer to a call whose key was fenced before it arrived."""
    return ProcessorUnavailable("the sandbox processor was asked to refuse this key")


def at(request: Request) -> datetime:
    """Returns the time of a call by the merchant's clock, or the real time if the call has none."""
    return request.at or datetime.now(UTC)


def reference_for(prefix: str, request: Request) -> str:
    """Returns the processor's reference for a call's effect, derived from its key: the same for a repeated call."""
    digest = blake2b(request.idempotency_key.encode(), digest_size=10, key=request.merchant_id.bytes).digest()
    return f"sbx_{prefix}_{digest.hex()}"
