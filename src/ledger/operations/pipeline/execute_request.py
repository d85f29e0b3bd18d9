"""Executes a merchant's request, once under its idempotency key.

Each kind of request that changes a stream has an `Answer`: what it is answered with after its calls, and when its key
comes again. Requests of other kinds call `answer_key`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ledger.call_failures import Unavailable
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.rejections import Rejected
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import WHOLE_ORDER
from ledger.operations.pipeline.execute import Attempt, Continue, execute
from ledger.operations.pipeline.idempotency import find_record, record_rejection
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, Plan, UnitOfWork


class Result(Protocol):
    """What an operation returns. `replayed` marks a request that changed nothing: its effect already existed."""

    @property
    def replayed(self) -> bool: ...


T = TypeVar("T")
R = TypeVar("R", bound=Result)
R_co = TypeVar("R_co", bound=Result, covariant=True)


class Answer(Protocol[R_co]):
    """How requests of one kind are answered, and when that is recorded."""

    @property
    def when(self) -> AnsweredWhen: ...

    async def after(self, uow: UnitOfWork, plan: Plan) -> R_co:
        """Returns the answer after the plan and its calls. Waits for the calls of the request that this one repeats.

        Raises Unavailable if nothing was sent, and a rejection that is the answer.
        """
        ...

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> R_co | None:
        """Returns the answer to a request whose key was accepted before; None if it has to be executed again.

        Loads the stream that the record names. Raises like `after`; RequestInProgress.
        """
        ...


async def execute_request(uow: UnitOfWork, attempt: Attempt, answer: Answer[R], *, go_on: Continue | None = None) -> R:
    """Executes a request, or returns what its idempotency key was answered with before, and records the answer.

    `go_on` as in `execute`. Raises what `attempt` and `answer` raise, ConcurrentUpdate, a Fault of the journal; with a
    key also IdempotencyKeyReused and RequestInProgress.
    """
    uow.answered_when = answer.when
    if uow.key is None:  # there is no record
        return await answer.after(uow, await execute(uow, attempt, go_on=go_on))

    async def act() -> R:
        plan = await execute(uow, attempt, go_on=go_on)
        result = await answer.after(uow, plan)
        await uow.record_answer(plan.stream_id, plan.target, replayed=result.replayed)
        return result

    async def again(record: IdempotencyRecord) -> R | None:
        result = await answer.again(uow, record)
        if result is not None:
            assert record.stream_id is not None, "an accepted request names its stream"
            await uow.record_answer(record.stream_id, WHOLE_ORDER, replayed=result.replayed)
        return result

    return await answer_key(uow, act, again)


async def answer_key(
    uow: UnitOfWork,
    act: Callable[[], Awaitable[T]],
    again: Callable[[IdempotencyRecord], Awaitable[T | None]],
) -> T:
    """Returns what `act` returns, or what `again` returns from the record of an earlier request under the same key.

    If `again` returns None, the request is executed again. Records a rejection that will not change; releases the key
    if nothing was sent. `act` and `again` record the answer. Raises what they raise, a Fault of the journal; with a key
    also IdempotencyKeyReused and RequestInProgress.
    """
    record = None if uow.key is None else await find_record(uow)
    try:
        if record is not None:
            uow.ledger.journal.writer.require_confirmed(uow.merchant_id)  # it is answered by what was only read
        result = None if record is None else await again(record)
        return await act() if result is None else result
    except Rejected as rejection:
        if uow.key is not None:
            await record_rejection(uow, rejection)
        raise
    except Unavailable:
        await uow.release()
        raise


async def wait_until(ledger: Ledger, has_ended: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what a request repeats, for a limited time (contract N29): asks again, with pauses that grow."""
    until = time.monotonic() + ledger.call_timeouts.replay_wait_s
    pause = 0.01
    while not await has_ended() and time.monotonic() < until:
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.25)
