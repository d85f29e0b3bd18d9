"""What the lists of this package have in common: the newest first, with the total and the page in one statement.

The rows of a list's statement begin with the total, the time of creation and the id. A list without entries has one row
with the total alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from projections.lists.cursor import Cursor, encode_cursor
from projections.lists.pages import Pagination


class PageQuery(Protocol):
    """One page of a list. With a cursor, it begins after that, and `offset` is ignored."""

    @property
    def limit(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def cursor(self) -> Cursor | None: ...


def page_parameters(merchant_id: UUID, query: PageQuery) -> dict[str, Any]:
    """Returns the parameters that the statements of all lists take. They read one entry more than the page holds."""
    cursor = query.cursor
    return {
        "merchant_id": merchant_id,
        "after_at": None if cursor is None else cursor.created_at,
        "after_id": None if cursor is None else cursor.order_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
    }


def paginated(query: PageQuery, rows: Sequence[tuple[Any, ...]]) -> tuple[Sequence[tuple[Any, ...]], Pagination]:
    """Returns the rows that the page shows, and its pagination."""
    total = rows[0][0]
    found = [row for row in rows if row[1] is not None]
    shown = found[: query.limit]
    offset = query.offset if query.cursor is None else query.cursor.behind
    next_cursor = None
    if len(found) > len(shown):
        _, created_at, entry_id, *_ = shown[-1]
        next_cursor = encode_cursor(Cursor(False, created_at, entry_id, offset + len(shown)))
    return shown, Pagination(
        page=offset // query.limit + 1,
        limit=query.limit,
        offset=offset,
        total=total,
        count=len(shown),
        total_pages=-(-total // query.limit),
        has_more=next_cursor is not None,
        next_cursor=next_cursor,
    )
