"""A page of a merchant's orders: the query, and the JSON of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.orders.statuses import OrderStatus
from projections.lists.cursor import Cursor, encode_cursor
from projections.orders.documents import OrderDocument, document, is_overdue


class OrderQuery(Struct, frozen=True, kw_only=True):
    """The filters of a list, and one page of it.

    No status means all. `customer` is a service id or an external id; `related` adds the customers that a chain of
    sourceId connects with it. `exclude_overdue` leaves out every order whose due date has passed, whatever its status.
    `search` is matched literally and without regard to case. The dates are inclusive, to the millisecond that
    `createdAt` shows. With a cursor, the page continues after it in the cursor's direction; `ascending` and `offset`
    are ignored.
    """

    statuses: tuple[OrderStatus, ...] = ()
    customer: str | None = None
    related: bool = False
    exclude_overdue: bool = False
    search: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    ascending: bool = False
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


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


class OrderPage(Struct, rename="camel"):
    """A page of the merchant's orders, by default the newest first."""

    data: Annotated[list[OrderDocument], Meta(description="The orders, without their payments.")]
    pagination: Pagination


def page_body(query: OrderQuery, rows: Sequence[tuple[Any, ...]], now: datetime) -> bytes:
    """Returns the JSON of a page from the rows of its statement, with heads. `now` is by the merchant's clock."""
    total = rows[0][0]
    orders = [row for row in rows if row[1] is not None]
    shown = orders[: query.limit]
    documents: list[Any] = [
        Raw(document(head, customer, None, is_overdue(status, due_at, now)))
        for _, _, _, _, status, due_at, head, customer in shown
    ]
    offset = query.offset if query.cursor is None else query.cursor.behind
    has_more = len(orders) > len(shown)
    pagination = Pagination(
        page=offset // query.limit + 1,
        limit=query.limit,
        offset=offset,
        total=total,
        count=len(shown),
        total_pages=-(-total // query.limit),
        has_more=has_more,
        next_cursor=_cursor_behind(query, shown[-1], offset + len(shown)) if has_more else None,
    )
    return msgspec.json.encode(OrderPage(data=documents, pagination=pagination))


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


def _cursor_behind(query: OrderQuery, row: tuple[Any, ...], behind: int) -> str:
    _, created_at, order_id, *_ = row
    return encode_cursor(Cursor(is_ascending(query), created_at, order_id, behind))


def is_ascending(query: OrderQuery) -> bool:
    """Returns the direction of a list. A cursor continues in its own direction."""
    return query.ascending if query.cursor is None else query.cursor.ascending
