"""Executes a merchant's request on a stream whose changes announce no call.

The record of an idempotency key names the stream and the version that was answered. A repeated request is answered from
that version, so the record stores nothing of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from ledger.domain.fold import fold
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.streams import Stream
from ledger.operations.pipeline.execute import Attempt
from ledger.operations.pipeline.execute_request import execute_request
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, Plan, UnitOfWork

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


class StreamAnswer(Struct, Generic[S], frozen=True):
    """Answers with the state of the stream of the plan's first change, of the kind `stream`."""

    stream: Stream[S]
    when: AnsweredWhen = AnsweredWhen.AT_COMMIT

    async def after(self, uow: UnitOfWork, plan: Plan) -> StreamResult[S]:  # noqa: ARG002 - the protocol's parameter
        return StreamResult(state=plan.changes[0].after, replayed=not plan.events)

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> StreamResult[S] | None:
        assert record.answer is not None, "without calls, a request is accepted and answered in one commit"
        return await answered(uow, record, self.stream)


async def execute_on_stream(uow: UnitOfWork, attempt: Attempt, stream: Stream[S]) -> StreamResult[S]:
    """Executes a request on a stream of this kind. Raises like `execute_request`."""
    return await execute_request(uow, attempt, StreamAnswer(stream))


async def answered(uow: UnitOfWork, record: IdempotencyRecord, stream: Stream[S]) -> StreamResult[S]:
    """Returns the answer that a record names: the stream's state in the answered version. Raises a Fault."""
    assert record.answer is not None, "the request was answered"
    version = record.answer.stream_version
    events = await uow.ledger.journal.reader.stream(uow.merchant_id, stream_of(record))
    state = fold(stream.evolve, None, events[:version])
    assert state is not None, "an answered version has events"
    return StreamResult(state=state, replayed=record.answer.replayed, repeated=True, later=events[version:])


def stream_of(record: IdempotencyRecord) -> UUID:
    """Returns the stream that an accepted request is about."""
    assert record.stream_id is not None, "an accepted request names its stream"
    return record.stream_id
