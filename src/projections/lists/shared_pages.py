"""Pages of the order list that are read in a bounded time: requests for the same page that wait together share one read
and one JSON, and different pages share a round trip.

Share no page with a search, a customer, dates or an offset: reading it can take long, and the other pages wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.node_reads import NumberedStatements, Reading
from ledger.postgres.pipeline import Rows
from ledger.postgres.shards import Shard
from projections.lists.in_flight import lacks_heads, with_heads
from projections.lists.pages import OrderQuery, page_body
from projections.lists.statements import page_statements
from projections.orders.table import ReadStream

PageKey = tuple[UUID, OrderQuery]
"""A merchant, and a page of its orders."""

_DUE_AT: Final = 5
READ_AT_ONCE: Final = 16
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class SharedPage:
    """A page as it was read, and its JSON, which is rendered again only if a due date has passed since.

    Its requests also share the folds of its orders in flight. These are not part of the fetch, because a stream that
    cannot be read must fail only the pages with it, and not all those of a round trip.
    """

    __slots__ = ("_body", "_folding", "_from", "_key", "_rows", "_until")

    def __init__(self, key: PageKey, rows: Sequence[tuple[Any, ...]]) -> None:
        self._key = key
        self._rows = rows
        self._folding: asyncio.Task[Sequence[tuple[Any, ...]]] | None = None
        self._body = b""
        self._from = self._until = _NEVER

    async def body(self, now: datetime, read: ReadStream) -> bytes:
        """Returns the JSON of the page. `now` is by the merchant's clock. Raises like `read`."""
        merchant_id, query = self._key
        if lacks_heads(self._rows):
            if self._folding is None:
                self._folding = asyncio.create_task(with_heads(merchant_id, self._rows, read))
            self._rows = await asyncio.shield(self._folding)  # a cancelled request leaves it to the others
        if not self._from <= now <= self._until:
            later = [row[_DUE_AT] for row in self._rows if row[_DUE_AT] is not None and row[_DUE_AT] >= now]
            self._from, self._until = now, min(later, default=_NEVER)
            self._body = page_body(query, self._rows, now)
        return self._body


def is_shared(query: OrderQuery) -> bool:
    """Returns whether reading the page takes a time that depends on its limit alone."""
    return (
        query.search is None
        and query.customer is None
        and query.external_id is None
        and query.email is None
        and not query.has_columns
        and query.created_from is None
        and query.created_to is None
        and not query.exclude_overdue
        and (query.offset == 0 or query.cursor is not None)
    )


def page_loader(url: str) -> DataLoader[PageKey, SharedPage]:
    """Returns the loader of shared pages, on a connection of its own."""
    return DataLoader(url, "ledger-list-pages", read_pages, at_once=READ_AT_ONCE)


async def read_pages(connection: Connection, keys: Sequence[PageKey]) -> Mapping[PageKey, SharedPage]:
    """Reads pages in one round trip."""
    cursors = [connection.cursor(binary=True) for _ in keys]
    if len(keys) == 1:
        await _execute(cursors[0], keys[0])
    else:
        async with connection.pipeline():
            for cursor, key in zip(cursors, keys, strict=True):
                await _execute(cursor, key)
    return {key: SharedPage(key, await cursor.fetchall()) for cursor, key in zip(cursors, keys, strict=True)}


async def _execute(cursor: Any, key: PageKey) -> None:
    (statement,), parameters = page_statements(*key, now=_NEVER)
    await cursor.execute(statement, parameters)


def pages_on_shard(numbered: NumberedStatements, shard: Shard, keys: Sequence[PageKey]) -> Reading[PageKey, SharedPage]:
    """Reads pages of merchants of one shard."""
    statements = []
    for key in keys:
        (statement,), parameters = page_statements(*key, now=_NEVER)
        statements.append(numbered.statement(shard.statement(statement), parameters))

    def values(results: Sequence[Rows]) -> Mapping[PageKey, SharedPage]:
        return {key: SharedPage(key, rows) for key, rows in zip(keys, results, strict=True)}

    return statements, values
