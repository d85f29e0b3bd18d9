"""The sandbox processor's teller: carries out one call in one transaction, once for its key, and writes down the answer.

The rule a stranger would break: what a call does and the answer that it gets are one commit. A call that was begun is
carried out even where its caller has gone, as at any company outside; only a transaction that was rolled back is
`ProcessorUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
import psycopg
from msgspec import Struct

from ledger.domain.money import ZERO, scaled
from ledger.postgres.connection import Connection, connect
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode

T = TypeVar("T")

_NAME: Final = "ledger-sandbox-teller"
_AT_ONCE: Final = 4

# One call about a thing at a time, in every process: what the next statements read stays true until the commit.
_ALONE: Final = "select pg_advisory_xact_lock(hashtextextended(%s, 0))"

# How the merchant's call is treated, counting it.
_TREATED: Final = """
update sandbox_mode set times_left = times_left - 1
 where merchant_id = %s and mode <> 'OK' and (times_left is null or times_left > 0) returning mode
"""

# The answer that a call was given.
_ANSWER: Final = "select answer from sandbox_call where merchant_id = %s and kind = %s and idempotency_key = %s"

# A call and its answer.
_BOOK: Final = """
insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer)
values (%s, %s, %s, %s, %s, %s, %s)
"""


class CallKind(StrEnum):
    """What was asked for. Each kind has idempotency keys of its own."""

    AUTHORIZE = "AUTHORIZE"
    CAPTURE = "CAPTURE"
    VOID = "VOID"
    REFUND = "REFUND"
    ISSUE = "ISSUE"
    CANCEL_REFERENCE = "CANCEL_REFERENCE"
    PAY_OUT = "PAY_OUT"
    DEPOSIT = "DEPOSIT"


class CallResult(Struct, frozen=True):
    """What a call came to: its answer, whether it did something, and how much money that moved (minor units)."""

    answer: Struct
    accepted: bool = True
    moved: Decimal = ZERO


class SandboxCall(Struct, frozen=True, kw_only=True):
    """A call to carry out: `deal` does it inside the transaction, alone with `reference`."""

    merchant_id: UUID
    kind: CallKind
    idempotency_key: str
    reference: str
    deal: Callable[[Connection], Awaitable[CallResult]]


class CallExecutor:
    """Carries out calls on a few connections of its own. `url` is a libpq connection string."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._running: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        self._idle.append(await connect(self._url, _NAME))

    async def stop(self) -> None:
        """Finish what was begun, then end."""
        await asyncio.gather(*self._running, return_exceptions=True)
        while self._idle:
            await self._idle.pop().close()

    async def carry_out(self, order: SandboxCall, answer: Callable[[str], T]) -> tuple[T, Mode]:
        """The call's answer, made of its stored text by `answer`, and how its merchant is treated.

        Raises ProcessorUnavailable where nothing of it was kept, ProcessorTimedOut where that is not known.
        """
        task = asyncio.create_task(self._carry_out(order))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        text, mode = await asyncio.shield(task)
        if text is None:
            raise ProcessorUnavailable("the sandbox processor is down for this merchant")
        return answer(text), mode

    async def answer_to(self, merchant_id: UUID, kind: CallKind, idempotency_key: str) -> str | None:
        """The answer that a call was given, as text. Raises ProcessorUnavailable or ProcessorTimedOut."""
        async with self.connection() as connection:
            row = await fetch_one(connection, _ANSWER, (merchant_id, kind, idempotency_key))
            return None if row is None else str(row[0])

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for this block alone, whose faults are a processor's."""
        async with self._places:
            try:
                connection = self._idle.pop() if self._idle else await connect(self._url, _NAME)
            except psycopg.OperationalError as fault:
                raise ProcessorUnavailable("the sandbox processor has no database") from fault
            try:
                yield connection
            except psycopg.Error as fault:
                if fault.sqlstate is None or connection.closed:
                    await connection.close()
                    raise ProcessorTimedOut(f"the sandbox's book was cut off: {type(fault).__name__}") from fault
                raise ProcessorUnavailable(f"the sandbox's book refused: {type(fault).__name__}") from fault
            except BaseException:
                await connection.close()  # it may be in the middle of anything
                raise
            finally:
                if not connection.closed:
                    self._idle.append(connection)

    async def _carry_out(self, order: SandboxCall) -> tuple[str | None, Mode]:
        who = (order.merchant_id, order.kind, order.idempotency_key)
        async with self.connection() as connection, connection.transaction():
            treated = await fetch_one(connection, _TREATED, (order.merchant_id,))
            mode = Mode(treated[0]) if treated else Mode.OK
            if mode is Mode.DOWN:
                return None, mode
            await connection.execute(_ALONE, (f"{order.merchant_id}/{order.reference}",))
            known = await fetch_one(connection, _ANSWER, who)
            if known is not None:
                return str(known[0]), mode
            done = await order.deal(connection)
            answer = msgspec.json.encode(done.answer).decode()
            await connection.execute(_BOOK, (*who, order.reference, scaled(done.moved), done.accepted, answer))
            return answer, mode


async def fetch_one(connection: Connection, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
    """The one row of a statement, if there is one."""
    return await (await connection.execute(statement, values)).fetchone()
