"""Lists that a replica answers: each as new as the primary was when it was asked for, else the primary answers it.

Compare the position in the session that reads the list: behind one address there may be several replicas.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.replica import (
    ANSWER_MAX_S,
    Position,
    ReplicaBehind,
    ReplicaUse,
    configure,
    connect_replica,
    require_replayed,
)
from projections.lists.pool import ListPool
from projections.lists.shared_pages import READ_AT_ONCE, PageKey, SharedPage, read_pages

T = TypeVar("T")

_PlacedKey = tuple[PageKey, Position]
"""A page, and the position that it has to show."""


class _Pages(DataLoader[_PlacedKey, SharedPage]):
    """Reads pages at a replica. A page that the replica cannot show yet is not found."""

    _answer_max_s = ANSWER_MAX_S

    async def _open(self) -> Connection:
        return await connect_replica(self._url, self.name)


class Lists(Protocol):
    """Where lists are read: the primary's pool, or a replica that shows a position."""

    async def rows(self, statement: str, parameters: Mapping[str, Any], /) -> list[tuple[Any, ...]]: ...

    async def first_rows(
        self, statements: Iterable[str], parameters: Mapping[str, Any], /
    ) -> list[tuple[Any, ...]]: ...


class ListReplica:
    """The lists at a replica. Each read returns None if the primary has to answer it, and raises like
    `ReplicaUse.ask`.
    """

    def __init__(self, use: ReplicaUse) -> None:
        self._use = use
        self._pages = _Pages(use.url, "ledger-replica-pages", _read_pages, at_once=READ_AT_ONCE)
        self._lists = ListPool(use.url, "ledger-replica-lists", configure)

    async def start(self) -> None:
        """Begins to connect. The replica may be away."""
        self._pages.begin()
        await self._lists.begin()

    async def stop(self) -> None:
        await self._pages.stop()
        await self._lists.stop()

    async def page(self, key: PageKey) -> SharedPage | None:
        """Returns a page of orders."""

        async def read(position: Position) -> SharedPage:
            page = await self._pages.get((key, position))
            if page is None:
                raise ReplicaBehind
            return page

        return await self._use.ask(read)

    async def read(self, read: Callable[[Lists], Awaitable[T]]) -> T | None:
        """Returns what `read` makes of one or several lists, all of which show the same position."""
        return await self._use.ask(lambda position: read(_ListsAt(self._lists, position)))


class _ListsAt:
    """The lists of a replica that shows a position."""

    def __init__(self, lists: ListPool, position: Position) -> None:
        self._lists = lists
        self._position = position

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self._lists.first_rows([statement], parameters, self._position)

    async def first_rows(self, statements: Iterable[str], parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self._lists.first_rows(statements, parameters, self._position)


async def _read_pages(connection: Connection, keys: Sequence[_PlacedKey]) -> Mapping[_PlacedKey, SharedPage]:
    try:
        await require_replayed(connection, max(position for _, position in keys))
    except ReplicaBehind:
        return {}
    pages = await read_pages(connection, list({key for key, _ in keys}))
    return {(key, position): pages[key] for key, position in keys}
