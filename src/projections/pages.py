"""The list of a merchant's orders: filtered, sorted, a page at a time, with an exact total.

The rule a stranger would break: a total is not counted. Whole UTC days come from the counters of `tally`, and only the
two broken days at the ends of a date range are counted, from an index. The page and its total are one statement, so that
they tell of one moment.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from ledger.orders.status import OrderStatus
from projections.orders import document, is_overdue
from projections.wire import micros, moment

_NO_ID: Final = UUID(int=0)
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 12, 31, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_US: Final = 86_400_000_000
_CURSOR: Final = struct.Struct("!?qq16s")


class Cursor(Struct, frozen=True):
    """A place in a list: behind this order, after so many others."""

    ascending: bool
    created_at: datetime
    order_id: UUID
    behind: int


class OrderQuery(Struct, frozen=True, kw_only=True):
    """Which orders, and which page of them.

    No status means all. The dates are inclusive, to the millisecond that `createdAt` shows. With a cursor, the page
    goes on from there in the cursor's direction, and `ascending` and `offset` are not looked at.
    """

    statuses: tuple[OrderStatus, ...] = ()
    created_from: datetime | None = None
    created_to: datetime | None = None
    ascending: bool = False
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


class Pagination(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a page stands in its list."""

    page: Annotated[int, Meta(description="The page's number, from 1.")]
    limit: Annotated[int, Meta(description="How many a page holds.")]
    offset: Annotated[int, Meta(description="How many come before this page.")]
    total: Annotated[int, Meta(description="How many there are in all.")]
    count: Annotated[int, Meta(description="How many are on this page.")]
    total_pages: Annotated[int, Meta(description="How many pages there are.")]
    has_more: Annotated[bool, Meta(description="Whether there is another page.")]
    next_cursor: Annotated[
        str | None, Meta(description="Send it as cursor for the next page: the fastest way to go on.")
    ]


# How many orders there are: whole days from the counters, the broken days at both ends counted.
_TOTAL: Final = """
with counted as (
  select coalesce((select sum(n) from tally
                    where merchant_id = %(merchant_id)s and day >= %(first_day)s and day < %(end_day)s {status}), 0)::int8
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(head_from)s and created_at < %(head_to)s {status})
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(tail_from)s and created_at < %(tail_to)s {status}) as total)
"""

# One page: places first, from an index alone, then the rows that are on the page.
_PAGE: Final = """
select t.total, p.created_at, p.order_id, p.status, p.due_at, p.head, p.doc
  from counted t left join lateral (
    select k.created_at, k.order_id, o.status, o.due_at, o.head, c.doc
      from ({places} order by created_at {direction}, order_id {direction} offset %(offset)s limit %(limit)s) k
      join lateral (select status, due_at, head, customer_id from payment_order
                     where merchant_id = %(merchant_id)s and order_id = k.order_id limit 1) o on true
      join lateral (select doc from customer
                     where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c on true) p on true
 order by p.created_at {direction}, p.order_id {direction}
"""

# The places of the list of all orders.
_PLACES: Final = """
select created_at, order_id from payment_order
 where merchant_id = %(merchant_id)s and created_at >= %(from)s and created_at < %(to)s
   and (created_at, order_id) {beyond} (%(after_at)s, %(after_id)s)"""

# The places of the list of some statuses: as many as are needed of each, in order.
_STATUS_PLACES: Final = """
select s.created_at, s.order_id from unnest(%(statuses)s::text[]) as wanted(status) cross join lateral (
  select created_at, order_id from payment_order
   where merchant_id = %(merchant_id)s and status = wanted.status and created_at >= %(from)s and created_at < %(to)s
     and (created_at, order_id) {beyond} (%(after_at)s, %(after_id)s)
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8) s"""


def _statement(*, filtered: bool, ascending: bool) -> str:
    order = {"direction": "asc" if ascending else "desc", "beyond": ">" if ascending else "<"}
    places = (_STATUS_PLACES if filtered else _PLACES).format(**order)
    status = "and status = any(%(statuses)s::text[])" if filtered else ""
    return _TOTAL.format(status=status) + _PAGE.format(places=places, **order)


_STATEMENTS: Final = {
    (filtered, ascending): _statement(filtered=filtered, ascending=ascending)
    for filtered in (False, True)
    for ascending in (False, True)
}


def page_statement(merchant_id: UUID, query: OrderQuery) -> tuple[str, dict[str, Any]]:
    """The statement for a page and its parameters. It asks for one order more than the page holds."""
    start, end = _range(query)
    cursor, ascending = query.cursor, _ascending(query)
    parameters: dict[str, Any] = {
        "merchant_id": merchant_id,
        "from": start,
        "to": end,
        "after_at": (start if ascending else end) if cursor is None else cursor.created_at,
        "after_id": _NO_ID if cursor is None else cursor.order_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
        **_spans(start, end),
    }
    if query.statuses:
        parameters["statuses"] = [status.value for status in dict.fromkeys(query.statuses)]
    return _STATEMENTS[bool(query.statuses), ascending], parameters


def page_body(query: OrderQuery, rows: Sequence[tuple[Any, ...]], now: datetime) -> bytes:
    """The JSON of a page from the rows of its statement. `now` by the merchant's clock."""
    total = rows[0][0]
    orders = [row for row in rows if row[1] is not None]
    shown = orders[: query.limit]
    documents = [
        document(head, customer, None, is_overdue(status, due_at, now))
        for _, _, _, status, due_at, head, customer in shown
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
    return b'{"data":[' + b",".join(documents) + b'],"pagination":' + msgspec.json.encode(pagination) + b"}"


def parse_cursor(text: str) -> Cursor | None:
    """The place that a `nextCursor` stands for, or None where it is not one of ours."""
    try:
        ascending, created, behind, order_id = _CURSOR.unpack(base64.b64decode(text, altchars=b"-_", validate=True))
        return Cursor(ascending, moment(created), UUID(bytes=order_id), behind) if behind >= 0 else None
    except (ValueError, binascii.Error, struct.error, OverflowError):
        return None


def _cursor_behind(query: OrderQuery, row: tuple[Any, ...], behind: int) -> str:
    _, created_at, order_id, *_ = row
    packed = _CURSOR.pack(_ascending(query), micros(created_at), behind, order_id.bytes)
    return base64.urlsafe_b64encode(packed).decode()


def _ascending(query: OrderQuery) -> bool:
    return query.ascending if query.cursor is None else query.cursor.ascending


def _range(query: OrderQuery) -> tuple[datetime, datetime]:
    """The date range, its end exclusive."""
    start = _BEGINNING if query.created_from is None else query.created_from
    if query.created_to is None or query.created_to >= _END:
        return start, _END
    end = query.created_to
    return start, end.replace(microsecond=end.microsecond // 1000 * 1000) + _MILLISECOND


def _spans(start: datetime, end: datetime) -> dict[str, Any]:
    """A range as whole UTC days, and what is left of it before and behind them."""
    first, last = -(-micros(start) // _DAY_US), micros(end) // _DAY_US
    if first >= last:  # no whole day: count it all, nothing where the range is empty
        first = last = 0
        head, tail = (start, end), (end, end)
    else:
        head, tail = (start, moment(first * _DAY_US)), (moment(last * _DAY_US), end)
    return {
        "first_day": moment(first * _DAY_US).date(),
        "end_day": moment(last * _DAY_US).date(),
        "head_from": head[0],
        "head_to": head[1],
        "tail_from": tail[0],
        "tail_to": tail[1],
    }
