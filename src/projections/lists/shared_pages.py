"""Pages of the order list that are read in a bounded time: requests for the same page that wait together share one read
and one JSON, and different pages share a round trip.

Share no page with a search, a customer, dates or an offset: reading it can take long, and the other pages wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from projections.lists.pages import OrderQuery, page_body
from projections.lists.statements import page_statements

PageKey = tuple[UUID, OrderQuery]
"""A merchant, and a page of its orders."""

_DUE_AT: Final = 4
_READ_AT_ONCE: Final = 16
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class SharedPage:
    """A page as it was read, and its JSON, which is rendered again only where a due date has passed since."""

    __slots__ = ("_body", "_from", "_query", "_rows", "_until")

    def __init__(self, query: OrderQuery, rows: Sequence[tuple[Any, ...]]) -> None:
        self._query = query
        self._rows = rows
        self._body = b""
        self._from = self._until = _NEVER

    def body(self, now: datetime) -> bytes:
        """Returns the JSON of the page. `now` is by the merchant's clock."""
        if not self._from <= now <= self._until:
            later = [row[_DUE_AT] for row in self._rows if row[_DUE_AT] is not None and row[_DUE_AT] >= now]
            self._from, self._until = now, min(later, default=_NEVER)
            self._body = page_body(self._query, self._rows, now)
        return self._body


def is_shared(query: OrderQuery) -> bool:
    """Returns whether reading the page takes a time that depends on its limit alone."""
    return (
        query.search is None
        and query.customer is None
        and query.created_from is None
        and query.created_to is None
        and not query.exclude_overdue
        and (query.offset == 0 or query.cursor is not None)
    )


def page_loader(url: str) -> DataLoader[PageKey, SharedPage]:
    """Returns the loader of shared pages, on a connection of its own."""
    return DataLoader(url, "ledger-list-pages", _fetch, at_once=_READ_AT_ONCE)


async def _fetch(connection: Connection, keys: Sequence[PageKey]) -> Mapping[PageKey, SharedPage]:
    cursors = [connection.cursor(binary=True) for _ in keys]
    if len(keys) == 1:
        await _execute(cursors[0], keys[0])
    else:
        async with connection.pipeline():
            for cursor, key in zip(cursors, keys, strict=True):
                await _execute(cursor, key)
    return {key: SharedPage(key[1], await cursor.fetchall()) for cursor, key in zip(cursors, keys, strict=True)}


async def _execute(cursor: Any, key: PageKey) -> None:
    (statement,), parameters = page_statements(*key, now=_NEVER)
    await cursor.execute(statement, parameters)
