"""The shared parts of this package's lists: one statement reads the total and the page.

The rows of a list's statement begin with the total, then the columns that order the list. A list without entries has
one row with the total alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol
from uuid import UUID

from msgspec import Meta, Struct

from ledger.postgres.arrays import ENCODE_ARRAY, Array, joined
from projections.binary import micros
from projections.lists.cursor import CURSORS, PAST_CURSORS, Cursor, PastCursor, list_hash

Rows = Sequence[tuple[Any, ...]]


class Pagination(Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of a page in its list."""

    page: Annotated[int, Meta(description="The page's number, from 1.")]
    limit: Annotated[int, Meta(description="The greatest number of entries on a page.")]
    offset: Annotated[int, Meta(description="The number of entries before this page.")]
    total: Annotated[int, Meta(description="The number of entries on all pages.")]
    count: Annotated[int, Meta(description="The number of entries on this page.")]
    total_pages: Annotated[int, Meta(description="The number of pages.")]
    has_more: Annotated[bool, Meta(description="Whether there is another page.")]
    next_cursor: Annotated[
        str | None, Meta(description="Send it as cursor to read the next page: this is the fastest way.")
    ]


Place = tuple[datetime, UUID]
"""When an entry was created, and its id: where it is in its list."""


class PackedPlaces:
    """Many places as a statement takes them. They are packed step by step: at once, they would occupy the process."""

    def __init__(self, places: Sequence[Place] = ()) -> None:
        self._times: list[Array] = []
        self._ids: list[Array] = []
        self.add(places)

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, places: Sequence[Place]) -> None:
        """Adds some more."""
        if places:
            self._times.append(ENCODE_ARRAY["timestamptz"]([micros(created_at) for created_at, _ in places]))
            self._ids.append(ENCODE_ARRAY["uuid"]([entry_id.bytes for _, entry_id in places]))

    @property
    def times(self) -> Array:
        return joined("timestamptz", self._times)

    @property
    def ids(self) -> Array:
        return joined("uuid", self._ids)


class PageEnd(Protocol):
    """The end of a page: the number of entries up to and including its last one."""

    @property
    def behind(self) -> int: ...


class AnyQuery(Protocol):
    """One page of a list. With a cursor, it begins after that, and `offset` is ignored."""

    @property
    def limit(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def cursor(self) -> PageEnd | None: ...


class ShortPlace(Protocol):
    """One page of a short list. With a cursor, it begins after that, and `offset` is ignored."""

    @property
    def limit(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def cursor(self) -> UUID | None: ...


class CreatedQuery(Protocol):
    """One page of a list that is ordered by the time of creation and the id."""

    @property
    def limit(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def cursor(self) -> Cursor | None: ...


def page_parameters(merchant_id: UUID, query: CreatedQuery) -> dict[str, Any]:
    """Returns the parameters of a list by the time of creation. It reads one entry more than the page holds."""
    cursor = query.cursor
    return {
        "merchant_id": merchant_id,
        "after_at": None if cursor is None else cursor.created_at,
        "after_id": None if cursor is None else cursor.entry_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
    }


def cursor_behind(
    query: Struct, row: tuple[Any, ...], behind: int, ascending: bool = False, as_of: datetime | None = None
) -> str:
    """Returns the `nextCursor` of a list by the time of creation, whose page ends with this row."""
    _, created_at, entry_id, *_ = row
    of_list = list_hash(query)
    if as_of is not None:
        return PAST_CURSORS.encode(PastCursor(ascending, created_at, entry_id, behind, as_of, list_hash=of_list))
    return CURSORS.encode(Cursor(ascending, created_at, entry_id, behind, list_hash=of_list))


def paginated(query: AnyQuery, rows: Rows, encode: Callable[[tuple[Any, ...], int], str]) -> tuple[Rows, Pagination]:
    """Returns the rows that the page shows, and its pagination. `encode` makes the cursor of the last row."""
    total = rows[0][0]
    found = [row for row in rows if row[1] is not None]
    shown = found[: query.limit]
    offset = query.offset if query.cursor is None else query.cursor.behind
    has_more = len(found) > len(shown)
    return shown, Pagination(
        page=offset // query.limit + 1,
        limit=query.limit,
        offset=offset,
        total=total,
        count=len(shown),
        total_pages=-(-total // query.limit),
        has_more=has_more,
        next_cursor=encode(shown[-1], offset + len(shown)) if has_more else None,
    )


def cut(place: ShortPlace | None, ids: Sequence[UUID]) -> tuple[slice, Pagination]:
    """Returns which entries of a short list the page shows, and its pagination. `ids` are those of all entries, in the
    list's order; without a place, all of them are on one page.

    A cursor is the id of the last entry of the page before. Where that entry is gone, the page begins behind those that
    are older, by their ids.
    """
    if place is None:
        return slice(None), single_page(len(ids))
    behind = place.cursor
    if behind is None:
        offset = place.offset
    else:
        offset = ids.index(behind) + 1 if behind in ids else sum(each < behind for each in ids)
    end, total = offset + place.limit, len(ids)
    shown = ids[offset:end]
    return slice(offset, end), Pagination(
        page=offset // place.limit + 1,
        limit=place.limit,
        offset=offset,
        total=total,
        count=len(shown),
        total_pages=-(-total // place.limit),
        has_more=end < total,
        next_cursor=str(shown[-1]) if end < total else None,
    )


def single_page(count: int) -> Pagination:
    """Returns the pagination of a list that is short enough to be one page."""
    return Pagination(
        page=1,
        limit=max(count, 1),
        offset=0,
        total=count,
        count=count,
        total_pages=min(count, 1),
        has_more=False,
        next_cursor=None,
    )
