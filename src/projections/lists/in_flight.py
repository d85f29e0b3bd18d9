"""Orders in flight on a page: a call is open, so their rows have no head, and each is folded from its stream.

Fold an order up to the version of its row, never further: else a page of one status could show an order in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from projections.orders.head import render_head
from projections.orders.table import ReadStream, order_at

_HEAD: Final = 6
"""The place of an order's head in a row of a page."""


def lacks_heads(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Returns whether a page has orders in flight, whose rows have no head."""
    return any(row[_HEAD] == b"" for row in rows)


async def with_heads(merchant_id: UUID, rows: Sequence[tuple[Any, ...]], read: ReadStream) -> Sequence[tuple[Any, ...]]:
    """Returns the rows of a page, each with its order's head at the row's version. Raises like `read`."""
    if not lacks_heads(rows):
        return rows
    return await asyncio.gather(*[_with_head(merchant_id, row, read) for row in rows])


async def _with_head(merchant_id: UUID, row: tuple[Any, ...], read: ReadStream) -> tuple[Any, ...]:
    _, _, order_id, version, *_ = row
    if row[_HEAD] != b"":
        return row
    order = await order_at(merchant_id, order_id, version, read)
    return (*row[:_HEAD], render_head(order), *row[_HEAD + 1 :])
