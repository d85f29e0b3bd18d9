"""Executes a merchant's request on a stream that needs no processor, with the record of its idempotency key.

The record names the stream and the version that was answered. A repeated request is answered from that version, so the
record stores nothing of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ledger.domain.fold import fold
from ledger.domain.rejections import Rejected
from ledger.operations.pipeline.execute import Attempt, execute
from ledger.operations.pipeline.idempotency import find_record, record_rejection
from ledger.operations.pipeline.unit_of_work import UnitOfWork

S = TypeVar("S")


class StreamResult(Struct, Generic[S], frozen=True, kw_only=True):
    """The state of the stream after a request.

    `replayed` marks a request that changed nothing because its effect already existed. `repeated` marks the answer that
    this idempotency key received the first time; `later` are the events that the stream has had since that answer.
    """

    state: S
    replayed: bool = False
    repeated: bool = False
    later: Sequence[Any] = ()


async def execute_on_stream(uow: UnitOfWork, attempt: Attempt, evolve: Callable[[S | None, Any], S]) -> StreamResult[S]:
    """Executes a request, or returns what its idempotency key was answered with before.

    `evolve` folds the stream of the plan's first change. Raises what `attempt` raises, ConcurrentUpdate, a Fault of the
    journal; with a key also IdempotencyKeyReused and RequestInProgress. Records a rejection that will not change.
    """
    if uow.key is None:
        plan = await execute(uow, attempt)
        return StreamResult(state=plan.changes[0].after, replayed=not plan.events)
    record = await find_record(uow)
    if record is not None:
        assert record.stream_id is not None, "an accepted request names its stream"
        assert record.answer is not None, "without calls, a request is accepted and answered in one commit"
        events = await uow.ledger.journal.reader.stream(uow.merchant_id, record.stream_id)
        answered, later = events[: record.answer.stream_version], events[record.answer.stream_version :]
        state = fold(evolve, None, answered)
        assert state is not None, "an answered version has events"
        return StreamResult(state=state, replayed=record.answer.replayed, repeated=True, later=later)
    try:
        plan = await execute(uow, attempt)
        if not plan.events:
            await uow.record_answer(plan, replayed=True)
    except Rejected as rejection:
        await record_rejection(uow, rejection)
        raise
    return StreamResult(state=plan.changes[0].after, replayed=not plan.events)
