"""The events of a stream with the state after each, folded from the log by the `evolve` of everything else.

Use no cached data key: an event that is read after an erasure must not have the person.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.ids import parse_uuid
from ledger.domain.streams import Stream
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import SharedClient
from ledger.slices import Slices


class Step(Struct, frozen=True):
    """An event with what is stored beside it, and the state of its stream after it."""

    recorded: RecordedEvent
    state: Any

    @property
    def context(self) -> dict[str, Any]:
        """Who caused the event: `actor`, `operator`, `request` and `causation`, if they were recorded."""
        found: dict[str, Any] = msgspec.json.decode(self.recorded.context)
        return found


class HistoryReader:
    """Reads the histories of all merchants' streams, over one connection, at which requests take turns. Call `stop` at
    the end.
    """

    def __init__(self, url: str, reader: LogReader, slices: Slices) -> None:
        self._client = SharedClient(url, "ledger-histories")
        self._reader, self._slices = reader, slices

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def steps(self, merchant_id: UUID, stream: Stream[Any], reference: str) -> list[Step]:
        """Returns all steps of the stream that a service id, else the merchant's own id names, the oldest first; none
        if there is no such stream.

        Erased customers and subscriptions that never started have theirs. Raises like `LogReader.stream`.
        """
        stream_id = parse_uuid(reference)
        steps = [] if stream_id is None else await self._of_stream(merchant_id, stream, stream_id)
        if steps or stream.claim is None:
            return steps
        owner = await self._reader.claim_owner(merchant_id, stream.claim, reference)
        return [] if owner is None else await self._of_stream(merchant_id, stream, owner)

    async def _of_stream(self, merchant_id: UUID, stream: Stream[Any], stream_id: UUID) -> list[Step]:
        first = [topic for topic, kind in stream.topics.items() if kind in stream.first]
        async with self._client.turn() as connection:
            history = await self._reader.history(connection, merchant_id, stream_id, first, uses_cached_keys=False)
        steps: list[Step] = []
        state = None
        async with self._slices.work() as work:
            for recorded in history:
                state = stream.evolve(state, recorded.event)
                steps.append(Step(recorded, state))
                await work.end_piece()
        return steps
