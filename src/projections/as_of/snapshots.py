"""A merchant's streams at a place in its log, over a connection that sees the database at one moment.

Today's rows show the past of every stream that has no event behind the place. The others are folded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct

from ledger.postgres.connection import Connection
from projections.as_of.points import LogPoint
from projections.as_of.reports import FOLDED_MAX
from projections.events.states import StateReader
from projections.lists.paging import CreatedQuery, Place

P = TypeVar("P")

_SCANNED_AT_ONCE: Final = 2_000
_SCANNED_PER_FOLD: Final = 64
"""How many events are scanned in about the time of a fold."""
_FOLDED_AT_ONCE: Final = 100


class Snapshot(Struct, frozen=True):
    """A merchant's streams at a place in its log. Its reads raise like `LogReader.opened`."""

    connection: Connection
    states: StateReader
    merchant_id: UUID
    point: LogPoint

    async def rows(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns all rows of a statement."""
        cursor = await self.connection.execute(statement, values, binary=True)
        return await cursor.fetchall()

    async def pieces(self, statement: str, values: Mapping[str, Any]) -> AsyncIterator[list[tuple[Any, ...]]]:
        """Yields the rows of a statement that may have very many, as many as are folded at once."""
        async with self.connection.cursor("pieces", binary=True) as cursor:
            await cursor.execute(statement, values)
            while rows := await cursor.fetchmany(_FOLDED_AT_ONCE):
                yield rows

    async def changed(
        self, statement: str, values: Mapping[str, Any], existing: int = FOLDED_MAX
    ) -> list[tuple[Any, ...]] | None:
        """Returns the rows of a statement for the streams with events between the positions `low` and `high`, of all
        events behind the place. The last column is the stream's id; each has one row.

        Returns None if it is less work to fold all streams that existed: there are more rows than `existing`, or too
        many events to look for them.
        """
        ((head,),) = await self.rows(_HEAD, {"merchant_id": self.merchant_id})
        if head - self.point.position > _SCANNED_PER_FOLD * min(existing, FOLDED_MAX):
            return None
        found: dict[UUID, tuple[Any, ...]] = {}
        for low in range(self.point.position, head, _SCANNED_AT_ONCE):
            span = {"low": low, "high": low + _SCANNED_AT_ONCE}
            found |= {row[-1]: row for row in await self.rows(statement, {**values, **span})}
            if len(found) > min(existing, FOLDED_MAX):
                return None
        return list(found.values())

    async def folded(self, streams: Collection[UUID], until: int | None = None) -> Mapping[UUID, Any]:
        """Returns the states of streams, without those that did not exist. `until` is another position than that of the
        place.
        """
        position = self.point.position if until is None else until
        points = [(stream_id, position) for stream_id in streams]
        found = await self.states.states(self.connection, self.merchant_id, points)
        return {stream_id: state for (stream_id, _), state in found.items()}


# The position of a merchant's newest event.
_HEAD: Final = "select coalesce((select position from merchant_head where merchant_id = %(merchant_id)s), 0)"


def page_among(query: CreatedQuery, places: Sequence[Place], *, ascending: bool = False) -> tuple[int, list[Place]]:
    """Returns the total, and the places of a page and of one entry more, from all places of a list.

    They are best in the list's order: sorting those takes no time.
    """
    cursor, offset = query.cursor, query.offset
    page = sorted(places, reverse=not ascending)
    if cursor is not None:
        last, offset = (cursor.created_at, cursor.entry_id), 0
        page = [place for place in page if (place > last if ascending else place < last)]
    return len(places), page[offset : offset + query.limit + 1]


def pieces(items: Sequence[P]) -> Iterator[Sequence[P]]:
    """Returns many streams in pieces that are folded at once, so that each delays other requests by milliseconds."""
    for n in range(0, len(items), _FOLDED_AT_ONCE):
        yield items[n : n + _FOLDED_AT_ONCE]
