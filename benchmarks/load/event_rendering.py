"""The limit of the feed: public events folded and rendered in one process, from stored events that it has in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample, sample
from ledger.journal.reader import LogReader, SeenEvent, StoredEvent, StreamPart
from ledger.postgres.connection import Connection
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.events.bodies import BodyRenderer
from projections.events.feed import FeedReader
from projections.events.numbered import EventQuery
from projections.events.states import StateReader


class RenderingPlan(Struct, frozen=True, kw_only=True):
    """Pages of `limit` events of a merchant, from the first one on, rendered again and again for `seconds`."""

    url: str
    folder: str
    merchant_id: UUID
    limit: int
    seconds: float


class _FromMemory:
    """Reads each part of a stream once, and each data key."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._known: dict[tuple[StreamPart, ...], list[list[StoredEvent]]] = {}

    async def stored_parts(
        self, connection: Connection, merchant_id: UUID, parts: Sequence[StreamPart]
    ) -> list[list[StoredEvent]]:
        key = tuple(parts)
        if key not in self._known:
            self._known[key] = await self._reader.stored_parts(connection, merchant_id, parts)
        return self._known[key]

    async def opened(
        self, connection: Connection, merchant_id: UUID, stored: Sequence[StoredEvent], **_: Any
    ) -> list[SeenEvent]:
        return await self._reader.opened(connection, merchant_id, stored)


async def run(plan: RenderingPlan, go: Go) -> Sample:
    """Does what the plan describes. A latency is that of a page."""
    settings = Settings(database_url=plan.url, data_dir=Path(plan.folder))
    async with open_ledger(settings) as ledger:
        reader = cast("LogReader", _FromMemory(ledger.journal.reader))
        bodies = BodyRenderer(settings.environment, settings.base_path, settings.lps_base_path)
        feed = FeedReader(plan.url, StateReader(reader, ledger.slices), bodies)
        found = await feed.found(plan.merchant_id, EventQuery(after=0, limit=plan.limit))
        await feed.render(plan.merchant_id, found.events, is_thin=False)  # reads what is kept in memory
        go()
        latencies: list[float] = []
        used, begins_at = time.process_time(), time.perf_counter()
        while (began := time.perf_counter()) < begins_at + plan.seconds:
            await feed.render(plan.merchant_id, found.events, is_thin=False)
            latencies.append(time.perf_counter() - began)
        used, took = time.process_time() - used, time.perf_counter() - begins_at
        await feed.stop()
    return replace(sample(latencies, took, cpu_s=used), ended=len(latencies))


if __name__ == "__main__":
    work(RenderingPlan, run)
