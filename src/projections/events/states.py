"""Streams as they were at positions of the log, folded from their events.

Use no cached data key: a body that is rendered after an erasure must not have the person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from ledger.domain.streams import STREAMS, Stream
from ledger.journal.reader import LogReader, SeenEvent
from ledger.postgres.connection import Connection
from ledger.slices import Slice, Slices

Point = tuple[UUID, int]
"""A stream, and the position of the log up to which its events are folded."""
States = Mapping[Point, Any]

_PIECE: Final = 200
"""How many events are opened before other work of the process has its turn."""
_POSITION: Final = itemgetter(1)
_KIND_OF_TOPIC: Final[Mapping[str, Stream[Any]]] = {topic: kind for kind in STREAMS for topic in kind.topics}


class StateReader:
    """Reads states from the log, on the caller's connection."""

    def __init__(self, reader: LogReader, slices: Slices) -> None:
        self._reader, self.slices = reader, slices

    async def states(self, connection: Connection, merchant_id: UUID, points: Collection[Point]) -> States:
        """Returns the state at each point; a stream that did not exist at one has none there.

        Raises like `LogReader.opened`.
        """
        positions: dict[UUID, list[int]] = {}
        for stream_id, position in sorted(set(points), key=_POSITION):  # Python compares UUIDs ten times slower
            positions.setdefault(stream_id, []).append(position)
        if not positions:
            return {}
        parts = [(stream_id, 0, wanted[-1]) for stream_id, wanted in positions.items()]
        of_streams = await self._reader.stored_parts(connection, merchant_id, parts)
        stored = [event for events in of_streams for event in events]
        opened: list[SeenEvent] = []
        for n in range(0, len(stored), _PIECE):
            some = stored[n : n + _PIECE]
            opened += await self._reader.opened(connection, merchant_id, some, uses_cached_keys=False)
            await asyncio.sleep(0)
        states: dict[Point, Any] = {}
        unfolded = iter(opened)
        async with self.slices.work() as work:
            for (stream_id, wanted), part in zip(positions.items(), of_streams, strict=True):
                states |= await _folded(stream_id, list(islice(unfolded, len(part))), wanted, work)
        return states


async def _folded(stream_id: UUID, events: list[SeenEvent], positions: list[int], work: Slice) -> dict[Point, Any]:
    """Returns the states of a stream at these positions, which ascend. Each event is a piece of the work."""
    states: dict[Point, Any] = {}
    state, n = None, 0
    for position in positions:
        while n < len(events) and events[n].position <= position:
            state = _KIND_OF_TOPIC[events[n].topic].evolve(state, events[n].event)
            n += 1
            await work.end_piece()
        if state is not None:
            states[stream_id, position] = state
    return states
