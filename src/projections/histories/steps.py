"""The events of a stream with the state after each, folded from the log by the `evolve` of everything else.

Use no cached data key: an event that is read after an erasure must not have the person.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.ids import parse_uuid
from ledger.domain.streams import Stream
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import SharedClient
from ledger.slices import Slices

_READ_AT_ONCE: Final = 200

# The first topic of a stream, and its version.
_FIND: Final = """
select f.topic, l.version
  from event f cross join lateral (
    select version from event where merchant_id = %(merchant_id)s and stream_id = %(stream_id)s
     order by version desc limit 1) l
 where f.merchant_id = %(merchant_id)s and f.stream_id = %(stream_id)s and f.version = 1
"""


class Step(Struct, frozen=True):
    """An event with what is stored beside it, and the state of its stream after it."""

    recorded: RecordedEvent
    state: Any

    @property
    def context(self) -> dict[str, Any]:
        """Who caused the event: `actor`, `operator`, `request` and `causation`, if they were recorded."""
        found: dict[str, Any] = msgspec.json.decode(self.recorded.context)
        return found


class History(Struct, frozen=True):
    """A stream of a merchant with its length, which is its version. Later events are none of it."""

    merchant_id: UUID
    stream: Stream[Any]
    stream_id: UUID
    length: int


class HistoryPart(Struct, frozen=True):
    """Some steps of a stream, with the state before the first of them, None at the stream's begin."""

    before: Any
    steps: list[Step]

    @property
    def state(self) -> Any:
        """The state after the part."""
        return self.steps[-1].state if self.steps else self.before


class HistoryReader:
    """Reads the histories of all merchants' streams, over one connection, at which requests take turns. Call `stop` at
    the end.

    A stream is read in parts, each in a turn of its own: a long one delays no other request, and is never held whole.
    """

    def __init__(self, url: str, reader: LogReader, slices: Slices) -> None:
        self._client = SharedClient(url, "ledger-histories")
        self._reader, self._slices = reader, slices

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def find(self, merchant_id: UUID, stream: Stream[Any], reference: str) -> History | None:
        """Returns the stream that a service id, else the merchant's own id names; None if there is no such stream.

        Erased customers and subscriptions that never started have theirs. Raises a Fault.
        """
        stream_id = parse_uuid(reference)
        found = None if stream_id is None else await self._find(merchant_id, stream, stream_id)
        if found is not None or stream.claim is None:
            return found
        owner = await self._reader.claim_owner(merchant_id, stream.claim, reference)
        return None if owner is None else await self._find(merchant_id, stream, owner)

    async def parts(self, history: History) -> AsyncIterator[HistoryPart]:
        """Yields the whole history in parts, the oldest first. Raises like `LogReader.stream`."""
        state = None
        for after in range(0, history.length, _READ_AT_ONCE):
            part = await self._part(history, state, after, min(after + _READ_AT_ONCE, history.length))
            state = part.state
            yield part

    async def page(self, history: History, after: int, limit: int) -> HistoryPart:
        """Returns at most `limit` steps behind the version `after`. What is before them is folded and not kept.

        Raises like `LogReader.stream`.
        """
        after, state = min(after, history.length), None
        async for part in self.parts(replace(history, length=after)):
            state = part.state
        return await self._part(history, state, after, min(after + limit, history.length))

    async def _find(self, merchant_id: UUID, stream: Stream[Any], stream_id: UUID) -> History | None:
        async with self._client.turn() as connection:
            cursor = await connection.execute(_FIND, {"merchant_id": merchant_id, "stream_id": stream_id}, binary=True)
            row = await cursor.fetchone()
        if row is None or stream.topics.get(row[0]) not in stream.first:
            return None
        return History(merchant_id, stream, stream_id, row[1])

    async def _part(self, history: History, before: Any, after: int, until: int) -> HistoryPart:
        if after == until:
            return HistoryPart(before, [])
        async with self._client.turn() as connection:
            recorded_events = await self._reader.history(
                connection, history.merchant_id, history.stream_id, after, until, uses_cached_keys=False
            )
        steps: list[Step] = []
        state = before
        async with self._slices.work() as work:
            for recorded in recorded_events:
                state = history.stream.evolve(state, recorded.event)
                steps.append(Step(recorded, state))
                await work.end_piece()
        return HistoryPart(before, steps)
