"""A merchant's whole log, as the tests read it."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.streams import TOPICS
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import Connection

_TOPICS = "select distinct topic from event where merchant_id = %s"
_POSITION_MAX = 1 << 62


async def whole_log(
    reader: LogReader, connection: Connection, merchant_id: UUID, until: int | None = None
) -> list[RecordedEvent]:
    """Returns a merchant's events in commit order, those up to position `until` where it is given."""
    topics = [topic for (topic,) in await (await connection.execute(_TOPICS, (merchant_id,))).fetchall()]
    return await reader.range(connection, merchant_id, 0, until or _POSITION_MAX, topics)


async def page_of_log(
    reader: LogReader, connection: Connection, merchant_id: UUID, after: int, size: int
) -> list[RecordedEvent]:
    """Returns at most `size` of a merchant's events in commit order, those behind the position `after`."""
    return await reader.range(connection, merchant_id, after, after + size, list(TOPICS))
