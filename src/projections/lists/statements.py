"""The SQL of the order list: one statement for each combination of filters, put together from fixed pieces.

The rule a stranger would break: the page and its total are one statement, so that they tell of one moment, and no value
that anybody sent is ever part of the text.

Without a customer and a search, totals are not counted: whole UTC days come from `tally`, and only the broken days at both
ends of a date range are counted, from an index, like what is overdue. By customer, the index of that customer is counted.
With a search, whatever it finds is: in the packed lines (see `search_statements`), then, filtered, order by order. What can be told
with less is tried first: one or two letters by their counter, and a text that every order has, which filters nothing, by the list
without a search.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from projections.binary import from_micros, micros
from projections.lists.pages import OrderQuery, is_ascending
from projections.search import statements as sql
from projections.search.blocks import gram_bits
from projections.search.counts import is_counted
from projections.search.lines import fold_search

FEW: Final = 2_000
"""So many found orders are looked at one by one; more than those are cut from the whole list by its index. Of so many orders
that nobody has counted at most is it looked up whether they have a text; with more of those, no counter is asked."""

FEW_MAILS: Final = 8_000
"""Of so many orders at most that e-mails find is it looked up whether their own fields have the text as well."""

WALKED: Final = 16_384
"""Among so many of the newest orders at most is a page looked for before all that has a text is put together."""

_NO_ID: Final = UUID(int=0)
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 12, 31, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_US: Final = 86_400_000_000

# What an order must be to be in the list; each is left out where nobody asked for it.
_IN_RANGE: Final = "and created_at >= %(from)s and created_at < %(to)s"
_STATUS: Final = "and status = any(%(statuses)s::text[])"
_NOT_OVERDUE: Final = "and (due_at is null or due_at >= %(now)s)"
_CUSTOMER: Final = "and customer_id = any(%(customers)s::uuid[])"
_BEYOND: Final = {
    ascending: f"and (created_at, order_id) {'>' if ascending else '<'} (%(after_at)s, %(after_id)s)"
    for ascending in (False, True)
}

# How the blocks of a page are chosen, by its direction: the time behind which enough places lie, and what reaches to it.
_BOUND: Final = {
    True: {"bound": "min(r.at)", "last": "newest", "first": "h.oldest", "reaches": "<=",
           "beyond_cursor": "oldest > %(after_at)s"},
    False: {"bound": "max(r.at)", "last": "oldest", "first": "h.newest", "reaches": ">=",
            "beyond_cursor": "newest < %(after_at)s"},
}  # fmt: skip

# How many orders there are: whole days from the counters, the broken days at both ends counted.
_TOTAL: Final = """
with counted as (
  select coalesce((select sum(n) from tally
                    where merchant_id = %(merchant_id)s and day >= %(first_day)s and day < %(end_day)s {status}), 0)::int8
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(head_from)s and created_at < %(head_to)s {status})
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(tail_from)s and created_at < %(tail_to)s {status}) {overdue} as total)
"""

# Less those whose due date has passed: by their own index, or, within a date range, by the one of the list.
_OVERDUE: Final = """
       - (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and due_at < %(now)s {in_range} {status})"""

# How many orders some customers have.
_CUSTOMERS_TOTAL: Final = """
with counted as (
  select coalesce(sum(o.n), 0)::int8 as total from unnest(%(customers)s::uuid[]) as wanted(customer_id) cross join lateral (
    select count(*) as n from payment_order
     where merchant_id = %(merchant_id)s and customer_id = wanted.customer_id {in_range} {status} {due}) o)
"""

# One page: places first, from an index alone, then the rows that are on the page. An order is looked up by its id, here and in
# every search, as what begins a range: an empty table costs the same by whatever index, and a plan made over it, which stays
# until somebody analyzes the table, may else go through a whole merchant for each. Only the primary key has them in that order.
_PAGE: Final = """
select t.total, p.created_at, p.order_id, p.status, p.due_at, p.head, p.doc
  from counted t left join lateral (
    select k.created_at, k.order_id, o.status, o.due_at, o.head, c.doc
      from ({places} order by created_at {direction}, order_id {direction} offset %(offset)s limit %(limit)s) k
      join lateral (select status, due_at, head, customer_id from payment_order
                     where merchant_id = %(merchant_id)s and order_id between k.order_id and k.order_id
                     order by order_id limit 1) o on true
      join lateral (select doc from customer
                     where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c on true) p on true
{condition} order by p.created_at {direction}, p.order_id {direction}
"""

# The places of the list of all orders.
_PLACES: Final = """
select created_at, order_id from payment_order
 where merchant_id = %(merchant_id)s {in_range} {beyond} {due}"""

# The places of the list of some statuses or of some customers: as many as are needed of each, in order.
_EACH_PLACES: Final = """
select s.created_at, s.order_id from unnest({wanted}) as wanted(value) cross join lateral (
  select created_at, order_id from payment_order
   where merchant_id = %(merchant_id)s and {column} = wanted.value {in_range} {beyond} {status} {due}
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8) s"""


def page_statements(
    merchant_id: UUID, query: OrderQuery, now: datetime, customers: list[UUID] | None = None
) -> tuple[list[str], dict[str, Any]]:
    """The statements for a page, of which the first that gives a row answers, and their parameters. The last one always does.

    `now` by the merchant's clock; `customers` are those that `query.customer` stands for, None where it names none. They ask
    for one order more than the page holds.
    """
    folded = None if query.search is None else fold_search(query.search)
    asked = _Asked(
        ranged=query.created_from is not None or query.created_to is not None,
        statuses=bool(query.statuses),
        customers=customers is not None,
        not_overdue=query.exclude_overdue,
        ascending=is_ascending(query),
    )
    statements = [_listed(asked)]
    if query.search is not None:
        statements = [_listed(asked, if_everywhere=True), _searched(asked)]
        if folded is not None and is_counted(folded) and not asked.filtered and not asked.ranged:
            statements.insert(0, _short(asked))
    return statements, _parameters(merchant_id, query, now, customers, folded)


def _parameters(
    merchant_id: UUID, query: OrderQuery, now: datetime, customers: list[UUID] | None, folded: str | None
) -> dict[str, Any]:
    start, end = _range(query)
    cursor = query.cursor
    first_bit, middle_bit, last_bit = (None if folded is None else gram_bits(folded)) or (None, None, None)
    return {
        "merchant_id": merchant_id,
        "from": start,
        "to": end,
        "after_at": (start if is_ascending(query) else end) if cursor is None else cursor.created_at,
        "after_id": _NO_ID if cursor is None else cursor.order_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
        "now": now,
        "few": FEW,
        "few_mails": FEW_MAILS,
        "walked": WALKED,
        "statuses": [status.value for status in dict.fromkeys(query.statuses)],
        "customers": customers,
        "folded": folded,
        "first_bit": first_bit,
        "middle_bit": middle_bit,
        "last_bit": last_bit,
        **_spans(start, end),
    }


class _Asked(Struct, frozen=True, kw_only=True):
    """What a list leaves out, and its direction."""

    ranged: bool
    statuses: bool
    customers: bool
    not_overdue: bool
    ascending: bool

    @property
    def filtered(self) -> bool:
        """Whether it leaves out anything that the lines of a search do not say."""
        return self.statuses or self.customers or self.not_overdue

    @property
    def pieces(self) -> dict[str, str]:
        return {
            "in_range": _IN_RANGE if self.ranged else "",
            "status": _STATUS if self.statuses else "",
            "due": _NOT_OVERDUE if self.not_overdue else "",
            "customer": _CUSTOMER if self.customers else "",
            "beyond": _BEYOND[self.ascending],
            "direction": "asc" if self.ascending else "desc",
            **_BOUND[self.ascending],
        }


@cache
def _listed(asked: _Asked, *, if_everywhere: bool = False) -> str:
    """The list without a search; one that gives rows only where every order has the text, if that is asked."""
    pieces = asked.pieces
    if asked.customers:
        total, places = _CUSTOMERS_TOTAL.format(**pieces), _EACH_PLACES
        pieces |= {"wanted": "%(customers)s::uuid[]", "column": "customer_id"}
    else:
        overdue = _OVERDUE.format(**pieces) if asked.not_overdue else ""
        total, places = _TOTAL.format(overdue=overdue, **pieces), _EACH_PLACES if asked.statuses else _PLACES
        pieces |= {"wanted": "%(statuses)s::text[]", "column": "status", "status": ""}
    condition = ""
    if if_everywhere:
        total, condition = total.rstrip() + "," + sql.EVERYWHERE, " where (select e.found from everywhere e)\n"
    return total + _page(asked, places.format(**pieces), condition)


@cache
def _short(asked: _Asked) -> str:
    """The search for a text of one or two letters, where the counters and the newest orders answer it."""
    return sql.SHORT.format(near=sql.NEAR.format(**asked.pieces)) + _page(asked, sql.SHORT_PLACES)


@cache
def _searched(asked: _Asked) -> str:
    """The search for any text, under any filter."""
    pieces = asked.pieces
    finds = sql.FINDS.format(in_span=sql.IN_SPAN if asked.ranged else "")
    if asked.filtered or asked.ranged:
        listed = sql.LISTED_FILTERED if asked.filtered else sql.LISTED
        return finds + listed.format(**pieces) + sql.LISTED_TOTAL + _page(asked, sql.LISTED_PLACES.format(**pieces))
    searched = sql.SEARCHED.format(near=sql.NEAR.format(**pieces))
    return finds + searched + _page(asked, sql.SEARCHED_PLACES.format(**pieces))


def _page(asked: _Asked, places: str, condition: str = "") -> str:
    return _PAGE.format(places=places, direction=asked.pieces["direction"], condition=condition)


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
        head, tail = (start, from_micros(first * _DAY_US)), (from_micros(last * _DAY_US), end)
    return {
        "first_day": from_micros(first * _DAY_US).date(),
        "end_day": from_micros(last * _DAY_US).date(),
        "head_from": head[0],
        "head_to": head[1],
        "tail_from": tail[0],
        "tail_to": tail[1],
    }
