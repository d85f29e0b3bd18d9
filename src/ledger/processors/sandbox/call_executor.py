"""The sandbox's call executor: carries out each call once for its key, and records its answer.

A call's effect and its answer are one commit, which the calls that wait at the same time share. A call that was begun
is carried out even if its caller has given up, as with any processor. An answer that was found is returned once the
synchronous standby has it, as a new one is. Raise `ProcessorUnavailable` only for a transaction that was rolled back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
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
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, connect_unless_one_waits
from ledger.postgres.replication import wait_for_standbys
from ledger.postgres.silent_servers import has_ended
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, Request
from ledger.processors.sandbox import charge_rows
from ledger.processors.sandbox.charge_rows import TREATED, Mode
from ledger.tasks import DetachedTasks

T = TypeVar("T")

_NAME: Final = "ledger-sandbox-calls"
_CONNECTIONS_MAX: Final = 4

_BATCHES_MAX: Final = 2
"""How many transactions with calls are open at once: while one is carried out, the next calls gather for the other."""
_BATCH_MAX: Final = 64

# Counts calls, one for each of these merchants, and locks their references across all processes, so that the rows that
# the next statements read stay the same until the commit. The references are sorted: two batches queue, and do not
# deadlock. Returns each merchant with a mode, and for how many calls it still held (null: all).
_COUNT_AND_LOCK: Final = f"""
with call as (select unnest(%s::uuid[]) as merchant_id),
{TREATED},
locked as materialized (select pg_advisory_xact_lock(hashtextextended(name, 0)) from unnest(%s::text[]) as name)
select t.merchant_id, t.mode, t.times from (select count(*) from locked) l left join treated t on true
"""  # noqa: S608 - a part that is a constant

# The recorded answers of calls, each with the call's number from 1.
_FIND: Final = """
select k.n, c.answer
  from unnest(%s::uuid[], %s::text[], %s::text[]) with ordinality as k(merchant_id, kind, idempotency_key, n)
  join lateral (select answer from sandbox_call c
                 where c.merchant_id = k.merchant_id and c.kind = k.kind and c.idempotency_key = k.idempotency_key
                 limit 1) c on true
"""

# Calls and their answers.
_RECORD: Final = """
insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer)
select * from unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::int8[], %s::bool[], %s::text[])
"""
_RECORDED: Final = ("uuid", "text", "text", "text", "int8", "bool", "text")
"""The types of its columns."""


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


CallKey = tuple[UUID, CallKind, str]
"""The merchant, the kind and the idempotency key of a call."""


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

    @property
    def key(self) -> CallKey:
        return self.merchant_id, self.kind, self.idempotency_key

    @property
    def lock(self) -> str:
        """The name of the lock on its reference."""
        return f"{self.merchant_id}/{self.reference}"


class _WaitingCall(Struct, frozen=True, eq=False):
    """A call and the future of its caller, which gets the recorded answer and how the merchant is treated.

    The answer is None if the processor is down for the merchant.
    """

    call: SandboxCall
    answered: asyncio.Future[tuple[str | None, Mode]]

    def answer(self, answer: tuple[str | None, Mode]) -> None:
        if not self.answered.done():  # else its caller has given up
            self.answered.set_result(answer)

    def fail(self, fault: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(fault)


class CallExecutor:
    """The executor of calls, on at most four connections of its own. `url` is a libpq connection string."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
        self._permits = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._waiting: list[_WaitingCall] = []
        self._batches = asyncio.Semaphore(_BATCHES_MAX)
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
        waiting = _WaitingCall(call, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self.begin(self._carry_out_waiting())
        text, mode = await waiting.answered
        if text is None:
            raise ProcessorUnavailable("the sandbox processor is down for this merchant")
        if text == _FENCED:
            raise fenced()
        return decode(text), mode

    async def answer_to(self, merchant_id: UUID, kind: CallKind, idempotency_key: str) -> str | None:
        """Returns the recorded answer of a call, as text. Raises ProcessorUnavailable or ProcessorTimedOut."""
        async with self.connection() as connection:
            found = await _recorded(connection, [(merchant_id, kind, idempotency_key)])
            if not found or found[0] == _FENCED:
                return None
            await wait_for_standbys(connection)
            return found[0]

    async def fence(self, merchant_id: UUID, kind: CallKind, idempotency_key: str) -> None:
        """Refuses a call when it arrives; one that is recorded keeps its answer.

        An authorisation is recorded as a charge, as a call, or as both. Raises ProcessorUnavailable or
        ProcessorTimedOut.
        """
        key = (merchant_id, idempotency_key)
        async with self.connection() as connection:
            async with connection.transaction() as transaction:
                if kind is CallKind.AUTHORIZE:
                    await charge_rows.fence(connection, *key)
                    if await charge_rows.read(connection, [key]):
                        return
                count = (await connection.execute(_FENCE, (merchant_id, kind, idempotency_key))).rowcount
                if count == 0:
                    raise psycopg.Rollback(transaction)  # recorded, or fenced already: no half of a fence is left
            if count == 0:
                await wait_for_standbys(connection)  # a promoted one that lacks the fence would let the call through

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
            if not has_ended(connection):
                return connection
            await connection.close()
        return None

    async def _carry_out_waiting(self) -> None:
        """Carries out the calls that wait, unless others do, and answers their callers."""
        async with self._batches:
            if batch := self._take():
                await self._carry_out(batch)

    def _take(self) -> Sequence[_WaitingCall]:
        """Takes the next calls, each about a reference of its own and under a key of its own."""
        batch, later = list[_WaitingCall](), list[_WaitingCall]()
        keys, locks = set[CallKey](), set[str]()
        for waiting in self._waiting:
            key, lock = waiting.call.key, waiting.call.lock
            if len(batch) == _BATCH_MAX or key in keys or lock in locks:
                later.append(waiting)
            else:
                batch.append(waiting)
                keys.add(key)
                locks.add(lock)
        self._waiting = later
        return batch

    async def _carry_out(self, batch: Sequence[_WaitingCall]) -> None:
        """Carries out calls in one transaction. If that was rolled back, each of them has one of its own."""
        is_begun = False
        try:
            async with self.connection() as connection, connection.transaction():
                is_begun, batch = True, _in_time(batch)
                answers = await _carry_out(connection, [each.call for each in batch])
        except Exception as fault:  # noqa: BLE001 - each caller gets it
            if len(batch) == 1:
                batch[0].fail(fault)
            elif is_begun and not isinstance(fault, ProcessorTimedOut):
                for each in batch:
                    await self._carry_out([each])
            else:
                for each in batch:
                    each.fail(type(fault)(str(fault)))
        else:
            for each, answer in zip(batch, answers, strict=True):
                each.answer(answer)


def _in_time(batch: Sequence[_WaitingCall]) -> Sequence[_WaitingCall]:
    """Returns the calls that are still to be carried out, and fails those whose deadline has passed."""
    now, left = datetime.now(UTC), list[_WaitingCall]()
    for each in batch:
        if each.call.deadline_at is not None and each.call.deadline_at <= now:
            each.fail(ProcessorUnavailable("no connection of the sandbox was free before the deadline"))
        else:
            left.append(each)
    return left


async def _carry_out(connection: Connection, calls: Sequence[SandboxCall]) -> Sequence[tuple[str | None, Mode]]:
    """Carries out calls about different references in the connection's transaction.

    Returns the recorded answer of each, None if the processor is down for its merchant, and the merchant's mode.
    """
    if not calls:
        return ()
    modes = await _modes_of(connection, calls)
    found = await _recorded(connection, [call.key for call in calls])
    if found:
        await wait_for_standbys(connection)
    results: dict[int, CallResult] = {}
    for n, call in enumerate(calls):
        if n not in found and modes[n] is not Mode.DOWN:
            results[n] = await call.effect(connection)
    new = await record(connection, [(calls[n].key, calls[n].reference, result) for n, result in results.items()])
    answers = found | dict(zip(results, new, strict=True))
    return [(None if mode is Mode.DOWN else answers[n], mode) for n, mode in enumerate(modes)]


async def _modes_of(connection: Connection, calls: Sequence[SandboxCall]) -> Sequence[Mode]:
    """Locks the references of calls, and returns how the merchant of each is treated."""
    merchants = ENCODE_ARRAY["uuid"]([call.merchant_id.bytes for call in calls])
    locks = ENCODE_ARRAY["text"](sorted(call.lock.encode() for call in calls))
    rows = await (await connection.execute(_COUNT_AND_LOCK, (merchants, locks))).fetchall()
    treated = {merchant_id: (Mode(mode), times) for merchant_id, mode, times in rows if merchant_id is not None}
    seen, modes = Counter[UUID](), list[Mode]()
    for call in calls:
        mode, times = treated.get(call.merchant_id, (Mode.OK, None))
        seen[call.merchant_id] += 1
        modes.append(mode if times is None or seen[call.merchant_id] <= times else Mode.OK)
    return modes


async def _recorded(connection: Connection, keys: Sequence[CallKey]) -> dict[int, str]:
    """Returns the recorded answers of calls, by their index in `keys`."""
    columns = (
        ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id, _, _ in keys]),
        ENCODE_ARRAY["text"]([kind.encode() for _, kind, _ in keys]),
        ENCODE_ARRAY["text"]([idempotency_key.encode() for _, _, idempotency_key in keys]),
    )
    rows = await (await connection.execute(_FIND, columns)).fetchall()
    return {n - 1: str(answer) for n, answer in rows}


async def record(connection: Connection, results: Sequence[tuple[CallKey, str, CallResult]]) -> Sequence[str]:
    """Records results, each with the call's key and its reference, and returns their answers as texts."""
    if not results:
        return ()
    answers = [msgspec.json.encode(result.answer) for _, _, result in results]
    rows = [
        (
            merchant_id.bytes,
            kind.encode(),
            name.encode(),
            reference.encode(),
            scaled(result.moved),
            result.accepted,
            answer,
        )
        for ((merchant_id, kind, name), reference, result), answer in zip(results, answers, strict=True)
    ]
    columns = zip(*rows, strict=True)
    packed = [ENCODE_ARRAY[type_](column) for type_, column in zip(_RECORDED, columns, strict=True)]
    await connection.execute(_RECORD, packed)
    return [answer.decode() for answer in answers]


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
