"""The SQL of the order list: one statement for each combination of filters, put together from fixed pieces.

Read a page and its total by one statement, so that both show the same snapshot. Never put a client's value into the
text of a statement.

Without a customer and a search, totals come from counters: whole UTC days from `tally`, and only the partial days at
both ends of a date range, and the overdue orders, are counted from an index. By customer, that customer's index is
counted. With a search, its matches in the packed lines are counted (see `projections.search.statements`), under filters
order by order. Cheaper statements are tried first: one or two letters by their counter, and a text that every order
contains, which filters nothing, by the list without a search.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.money import scaled
from projections.binary import from_micros, micros
from projections.lists.pages import OrderQuery, is_ascending
from projections.lists.paging import PackedPlaces
from projections.orders.table import sought_bits
from projections.search import statements as sql
from projections.search.blocks import gram_bits
from projections.search.counts import is_counted
from projections.search.lines import fold_search

LOOKUPS_MAX: Final = 2_000
"""How many matches of a filtered search are looked up one by one; more are intersected with the list from its index.
Also how many uncounted orders a search reads beside the counters; with more, the counters are not used.
"""

EMAIL_LOOKUPS_MAX: Final = 8_000
"""How many orders that match by e-mail are looked up to test whether their own fields match too."""

SCANNED_MAX: Final = 16_384
"""How many orders of the list are read to find a page before all matches are put together."""

SKIPS_FROM: Final = 1_000
"""From which offset on a list without a search skips whole days by their counters."""

_NO_ID: Final = UUID(int=0)
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 12, 31, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_US: Final = 86_400_000_000

# The filters of the list. Each is left out of the statement if the query does not have it.
_IN_RANGE: Final = "and created_at >= %(from)s and created_at < %(to)s"
_STATUS: Final = "and status = any(%(statuses)s::text[])"
_NOT_OVERDUE: Final = "and (due_at is null or due_at >= %(now)s)"
_CUSTOMER: Final = "and customer_id = any(%(customers)s::uuid[])"
_CARD: Final = "and last4s = any(%(cards)s::text[])"
_NAMED: Final = "and order_id between %(named)s and %(named)s"
_CURRENCY: Final = "and currency = %(currency)s::text"
_AMOUNT_MIN: Final = "and amount >= %(amount_min)s::int8"
_AMOUNT_MAX: Final = "and amount <= %(amount_max)s::int8"
_METHOD: Final = "and method_types & %(method_types)s::int4 <> 0"

# The status in a form that no index is searched by: the list's own index has the column, that of the statuses lacks the
# others, and would have each order read from the table.
_STATUS_OF_LIST: Final = "and status || '' = any(%(statuses)s::text[])"

# Without the orders that a correction leaves out. As a subquery they are hashed; an array would be searched for each.
_NOT_LEFT_OUT: Final = "and order_id not in (select unnest(%(left_out)s::uuid[]))"
_BEYOND: Final = {
    ascending: f"and (created_at, order_id) {'>' if ascending else '<'} (%(after_at)s, %(after_id)s)"
    for ascending in (False, True)
}

# How a search chooses the blocks of a page, by direction: the time up to which there are enough matches, and the blocks
# that reach back to it.
_BOUND: Final = {
    True: {"bound": "min(r.at)", "last": "newest", "first": "h.oldest", "reaches": "<=",
           "beyond_cursor": "oldest > %(after_at)s"},
    False: {"bound": "max(r.at)", "last": "oldest", "first": "h.newest", "reaches": ">=",
            "beyond_cursor": "newest < %(after_at)s"},
}  # fmt: skip

# The total: whole days from the counters, the partial days at both ends counted.
_TOTAL: Final = """
with counted as (
  select coalesce((
             select sum(n) from tally
              where merchant_id = %(merchant_id)s and day >= %(first_day)s and day < %(end_day)s {status}), 0)::int8
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(head_from)s and created_at < %(head_to)s {status})
       + (select count(*) from payment_order where merchant_id = %(merchant_id)s
             and created_at >= %(tail_from)s and created_at < %(tail_to)s {status}) {overdue}{left_out} as total)
"""

# Subtracts the orders whose due date has passed: by their own index, or within a date range by that of the list.
_OVERDUE: Final = """
       - (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and due_at < %(now)s {in_range} {status})"""

# Subtracts the orders that a correction leaves out, whatever their due date: `_OVERDUE` does not count them.
_LEFT_OUT: Final = """
       - (select count(*) from payment_order
           where merchant_id = %(merchant_id)s and order_id = any(%(left_out)s::uuid[]) {in_span} {status})"""

# The whole UTC days that lie before the offset, by the counters: how many orders they have, and the time at which they
# end in the list's direction.
_SKIPPED: Final = """,
skipped as materialized (
  select coalesce(max(d.upto), 0)::int8 as orders, coalesce({day_end}, '{everything}') as at
    from (select day, sum(sum(n)) over (order by day {direction}) as upto
            from tally where merchant_id = %(merchant_id)s {status} group by day) d
   where d.upto <= %(offset)s::int8)
"""
_DAY_END: Final = {
    True: {"day_end": "(max(d.day) + 1)::timestamp at time zone 'UTC'", "everything": "-infinity", "after": ">="},
    False: {"day_end": "min(d.day)::timestamp at time zone 'UTC'", "everything": "infinity", "after": "<"},
}
_BEHIND_SKIPPED: Final = "and created_at {after} (select s.at from skipped s)"

# The total of some customers.
_EACH_TOTAL: Final = """
with counted as (
  select coalesce(sum(o.n), 0)::int8 as total
    from unnest({wanted}) as wanted(value) cross join lateral (
    select count(*) as n from payment_order
     where merchant_id = %(merchant_id)s and {column} = wanted.value {in_range} {more}) o)
"""

# The orders of some cards. Those in flight are not in the index of cards, which would be written twice for each
# payment: they are few, and have an index of their own.
_CARDS_IN_FLIGHT: Final = """
payment_order
     where call_deadline_at is not null and merchant_id = %(merchant_id)s and last4s = any({wanted}) {in_range} {more}
     order by call_deadline_at offset 0""".strip()
_CARDS_TOTAL: Final = """
with counted as (
  select (coalesce(sum(o.n), 0) + (select count(*) from (select from {in_flight}) f))::int8 as total
    from unnest({wanted}) as wanted(value) cross join lateral (
    select count(*) as n from payment_order
     where merchant_id = %(merchant_id)s and last4s = wanted.value and call_deadline_at is null {in_range} {more}) o)
"""
_CARDS_PLACES: Final = """
select s.created_at, s.order_id from unnest({wanted}) as wanted(value) cross join lateral (
  select created_at, order_id from payment_order
   where merchant_id = %(merchant_id)s and last4s = wanted.value and call_deadline_at is null {in_range} {beyond} {more}
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8) s
union all
select f.created_at, f.order_id from (select created_at, order_id from {in_flight}) f where true {beyond}"""

# The total and the places under filters by the columns that the list's index has. Up to `lookups_max` orders are found
# by one scan of the index for both; of more, a page is near the beginning of a scan. The order of each scan keeps it on
# that index, also for a table without statistics.
_COLUMNS_TOTAL: Final = """
with few as materialized (
  select created_at, order_id from payment_order where merchant_id = %(merchant_id)s {in_range} {more}
   order by created_at, order_id limit %(lookups_max)s::int8 + 1),
found as materialized (select count(*) as orders, count(*) <= %(lookups_max)s as is_all from few),
counted as (
  select case when f.is_all then f.orders else (
           select count(*) from (
             select from payment_order where merchant_id = %(merchant_id)s {in_range} {more}
              order by created_at, order_id offset 0) o) end as total
    from found f)
"""
_COLUMNS_PLACES: Final = """
select created_at, order_id from few where (select f.is_all from found f) {beyond}
union all
(select created_at, order_id from payment_order
  where not (select f.is_all from found f) and merchant_id = %(merchant_id)s {in_range} {beyond} {more}
  order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8)"""

# The one order with an external id, if the other filters let it pass.
_NAMED_ORDER: Final = """
(select * from payment_order
  where merchant_id = %(merchant_id)s and order_id between %(named)s and %(named)s order by order_id limit 1) o
 where true""".strip()
_NAMED_TOTAL: Final = """
with counted as (
  select count(*) as total from {named_order} {in_range} {more})
"""
_NAMED_PLACES: Final = """
select created_at, order_id from {named_order} {in_range} {beyond} {more}"""

# One page: the places (time and id) from an index alone, then only the rows of the page. An order is looked up by its
# id, here and in every search, as the first of a range. For an empty table every index costs the same, and the plan
# stays until the table is analyzed: without the range, it could read a whole merchant for each order. Only the primary
# key has the order of the range.
_PAGE: Final = """
select t.total, p.created_at, p.order_id, p.version, p.status, p.due_at, p.head, p.doc
  from counted t left join lateral (
    select k.created_at, k.order_id, o.version, o.status, o.due_at, o.head, c.doc
      from ({places} order by created_at {direction}, order_id {direction} offset %(offset)s limit %(limit)s) k
      join lateral (select version, status, due_at, head, customer_id from payment_order
                     where merchant_id = %(merchant_id)s and order_id between k.order_id and k.order_id
                     order by order_id limit 1) o on true
      join lateral (select doc from customer
                     where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c on true) p on true
{condition} order by p.created_at {direction}, p.order_id {direction}
"""

# The total and the places of a page alone, with those that a correction adds.
_CORRECTED: Final = """
select t.total + cardinality(%(added_ids)s::uuid[]), p.created_at, p.order_id
  from counted t left join lateral (
    select k.created_at, k.order_id
      from ({places}) k
     order by k.created_at {direction}, k.order_id {direction} offset %(offset)s limit %(limit)s) p on true
 order by p.created_at {direction}, p.order_id {direction}
"""
_FIRST_PLACES: Final = """
(select s.created_at, s.order_id from ({places}
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8) s)
union all
select a.created_at, a.order_id
  from unnest(%(added_at)s::timestamptz[], %(added_ids)s::uuid[]) as a(created_at, order_id) where true {beyond}"""

# The orders among those with events between two positions that filters by fixed fields leave.
_CHANGED: Final = """
select o.created_at, o.order_id
  from (select distinct stream_id from event
         where merchant_id = %(merchant_id)s and position > %(low)s and position <= %(high)s) b
 cross join lateral (
   select created_at, order_id, customer_id, currency from payment_order
    where merchant_id = %(merchant_id)s and order_id between b.stream_id and b.stream_id
    order by order_id limit 1) o
 where true {in_range} {customer} {named} {columns}
"""

# The places of the list without status, customer and card.
_PLACES: Final = """
select created_at, order_id from payment_order
 where merchant_id = %(merchant_id)s {in_range} {beyond} {more}"""

# The places of the list of some statuses or customers: as many as the page needs of each, in order.
_EACH_PLACES: Final = """
select s.created_at, s.order_id from unnest({wanted}) as wanted(value) cross join lateral (
  select created_at, order_id from payment_order
   where merchant_id = %(merchant_id)s and {column} = wanted.value {in_range} {beyond} {more}
   order by created_at {direction}, order_id {direction} limit %(offset)s::int8 + %(limit)s::int8) s"""


def page_statements(
    merchant_id: UUID,
    query: OrderQuery,
    now: datetime,
    customers: list[UUID] | None = None,
    cards: list[str] | None = None,
    named: UUID | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Returns the statements for a page and their parameters. The first statement that returns a row has the answer.

    The last one always returns a row. `now` is by the merchant's clock. `customers` are those that `query.customer` and
    `query.email` refer to, `cards` the values of `last4s` with `query.last4`, each None without such a filter. `named`
    is the order with `query.external_id`; None finds no order. The statements read one order more than the page holds.
    """
    folded = None if query.search is None else fold_search(query.search)
    filters = _filters_of(query, customers, cards)
    skips = query.offset >= SKIPS_FROM and query.cursor is None and filters.days_tell_offset
    statements = [_listed(filters, skips=skips)]
    if query.search is not None:
        statements = [_listed(filters, if_everywhere=True), _searched(filters)]
        if folded is not None and is_counted(folded) and not filters.beyond_lines and not filters.dates:
            statements.insert(0, _short(filters))
    return statements, _parameters(merchant_id, query, now, folded) | _narrowed(query, customers, cards, named)


class Correction(Struct, frozen=True):
    """What today's rows answer wrongly about an earlier time.

    `left_out` are orders that they show in another state, or that did not exist. `added` are those among them that pass
    the filters as they were, in any order.
    """

    left_out: PackedPlaces
    added: PackedPlaces


def corrected_statement(
    merchant_id: UUID,
    query: OrderQuery,
    correction: Correction,
    customers: list[UUID] | None = None,
    cards: list[str] | None = None,
    named: UUID | None = None,
) -> tuple[str, dict[str, Any]]:
    """Returns the statement for the total and the places (time and id) of a page as of `query.as_of`, and its
    parameters. The other arguments are those of `page_statements`. A search is not answered.
    """
    assert query.as_of is not None, "today's rows need no correction"
    filters = _corrected(query, customers, cards)
    until = query.as_of if query.created_to is None else min(query.created_to, query.as_of)
    parameters = _parameters(merchant_id, replace(query, created_to=until), query.as_of, None)
    added = correction.added
    of_then = {"left_out": correction.left_out.ids, "added_at": added.times, "added_ids": added.ids}
    statement = _listed(filters, adds=bool(correction.added))
    return statement, parameters | _narrowed(query, customers, cards, named) | of_then


def changed_statement(
    merchant_id: UUID,
    query: OrderQuery,
    correction: Correction,
    customers: list[UUID] | None = None,
    named: UUID | None = None,
) -> tuple[str, dict[str, Any]]:
    """Returns the statement for the places of the orders with events behind the position `low` and up to `high`, and
    its other parameters. The query is one by fixed fields; orders that the correction leaves out are none of them.
    """
    assert query.is_of_fixed_fields, "an order that has changed could have passed another filter"
    _, parameters = corrected_statement(merchant_id, query, correction, customers, None, named)
    return _CHANGED.format(**_corrected(query, customers, None).pieces), parameters


def _corrected(query: OrderQuery, customers: list[UUID] | None, cards: list[str] | None) -> _Filters:
    """Returns the filters of a list as of a time: only orders that had been created then are in it."""
    return replace(_filters_of(query, customers, cards), dates=True, corrected=True)


def _filters_of(query: OrderQuery, customers: list[UUID] | None, cards: list[str] | None) -> _Filters:
    return _Filters(
        dates=query.created_from is not None or query.created_to is not None,
        statuses=bool(query.statuses),
        customers=customers is not None,
        not_overdue=query.exclude_overdue,
        ascending=is_ascending(query),
        named=query.external_id is not None,
        cards=cards is not None,
        currency=query.currency is not None,
        amount_min=query.amount_min is not None,
        amount_max=query.amount_max is not None,
        methods=bool(query.methods),
    )


def _narrowed(
    query: OrderQuery, customers: list[UUID] | None, cards: list[str] | None, named: UUID | None
) -> dict[str, Any]:
    """Returns the parameters of the filters that no counter knows."""
    return {
        "customers": customers,
        "cards": cards,
        "named": named,
        "currency": query.currency,
        "amount_min": None if query.amount_min is None else scaled(query.amount_min),
        "amount_max": None if query.amount_max is None else scaled(query.amount_max),
        "method_types": sought_bits(query.methods),
    }


def _parameters(merchant_id: UUID, query: OrderQuery, now: datetime, folded: str | None) -> dict[str, Any]:
    start, end = _range(query)
    cursor = query.cursor
    first_bit, middle_bit, last_bit = (None if folded is None else gram_bits(folded)) or (None, None, None)
    return {
        "merchant_id": merchant_id,
        "from": start,
        "to": end,
        "after_at": (start if is_ascending(query) else end) if cursor is None else cursor.created_at,
        "after_id": _NO_ID if cursor is None else cursor.entry_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
        "now": now,
        "lookups_max": LOOKUPS_MAX,
        "email_lookups_max": EMAIL_LOOKUPS_MAX,
        "scanned_max": SCANNED_MAX,
        "statuses": [status.value for status in dict.fromkeys(query.statuses)],
        "folded": folded,
        "first_bit": first_bit,
        "middle_bit": middle_bit,
        "last_bit": last_bit,
        **_spans(start, end),
    }


class _Filters(Struct, frozen=True, kw_only=True):
    """The filters that a list has, and its direction."""

    dates: bool
    statuses: bool
    customers: bool
    not_overdue: bool
    ascending: bool
    named: bool
    cards: bool
    currency: bool
    amount_min: bool
    amount_max: bool
    methods: bool
    corrected: bool = False

    @property
    def beyond_lines(self) -> bool:
        """Whether there is a filter that the lines of a search cannot answer."""
        return self.statuses or self.not_overdue or self.beyond_counters

    @property
    def beyond_counters(self) -> bool:
        """Whether there is a filter, other than dates and due dates, that the counters of days do not know."""
        return self.customers or self.named or self.cards or bool(self.columns)

    @property
    def days_tell_offset(self) -> bool:
        """Whether the counters of days have just the orders of the list."""
        return not self.dates and not self.not_overdue and not self.beyond_counters

    @property
    def columns(self) -> str:
        """The filters by columns that the list's own index has."""
        wanted = (
            (self.currency, _CURRENCY),
            (self.amount_min, _AMOUNT_MIN),
            (self.amount_max, _AMOUNT_MAX),
            (self.methods, _METHOD),
        )
        return " ".join(piece for is_wanted, piece in wanted if is_wanted)

    @property
    def in_span(self) -> str:
        """The filter by dates."""
        return _IN_RANGE if self.dates else ""

    @property
    def pieces(self) -> dict[str, str]:
        """The pieces of SQL for these filters, by their placeholders."""
        return {
            "in_range": f"{self.in_span} {_NOT_LEFT_OUT}" if self.corrected else self.in_span,
            "status": _STATUS if self.statuses else "",
            "due": _NOT_OVERDUE if self.not_overdue else "",
            "customer": _CUSTOMER if self.customers else "",
            "card": _CARD if self.cards else "",
            "named": _NAMED if self.named else "",
            "named_order": _NAMED_ORDER,
            "columns": self.columns,
            "beyond": _BEYOND[self.ascending],
            "direction": "asc" if self.ascending else "desc",
            **_BOUND[self.ascending],
        }


@cache
def _listed(filters: _Filters, *, if_everywhere: bool = False, skips: bool = False, adds: bool = False) -> str:
    """Returns the list without a search. With `if_everywhere`, it has rows only if all orders contain the text. With
    `skips`, it starts behind the whole days that lie before the offset. With a correction it has the places alone, with
    `adds` those that are added too.
    """
    pieces = filters.pieces
    if filters.beyond_counters:
        source = _source(filters)
        total, places = source.total, source.places
        pieces |= {"wanted": source.wanted, "column": source.column, "more": source.more.format(**pieces)}
        pieces["in_flight"] = _CARDS_IN_FLIGHT.format(**pieces)
        total = total.format(**pieces)
    else:
        overdue = _OVERDUE.format(**pieces) if filters.not_overdue else ""
        left_out = _LEFT_OUT.format(in_span=filters.in_span, status=pieces["status"]) if filters.corrected else ""
        total = _TOTAL.format(overdue=overdue, left_out=left_out, **pieces)
        places = _EACH_PLACES if filters.statuses else _PLACES
        if skips:
            end = _DAY_END[filters.ascending]
            total = total.rstrip() + _SKIPPED.format(**pieces, **end)
            pieces["in_range"] = _BEHIND_SKIPPED.format(**end)
        pieces |= {"wanted": "%(statuses)s::text[]", "column": "status", "more": pieces["due"]}
    condition = ""
    if if_everywhere:
        total, condition = total.rstrip() + "," + sql.EVERYWHERE, " where (select e.found from everywhere e)\n"
    if filters.corrected:
        listed = places.format(**pieces)
        return total + _CORRECTED.format(
            places=_FIRST_PLACES.format(**pieces | {"places": listed}) if adds else listed,
            direction=pieces["direction"],
        )
    page = _page(filters, places.format(**pieces), condition)
    if skips:
        page = page.replace("%(offset)s", "(%(offset)s::int8 - (select s.orders from skipped s))")
    return total + page


class _Source(Struct, frozen=True):
    """Where a list under filters that no counter knows is read from: the statement of its total and of its places, and
    the filters that remain.
    """

    total: str
    places: str
    more: str
    wanted: str = ""
    column: str = ""


def _source(filters: _Filters) -> _Source:
    """Returns the source that finds the fewest orders."""
    if filters.named:
        return _Source(_NAMED_TOTAL, _NAMED_PLACES, "{status} {due} {customer} {card} {columns}")
    if filters.customers:
        more = "{status} {due} {card} {columns}"
        return _Source(_EACH_TOTAL, _EACH_PLACES, more, "%(customers)s::uuid[]", "customer_id")
    if filters.cards:
        return _Source(_CARDS_TOTAL, _CARDS_PLACES, "{status} {due} {columns}", "%(cards)s::text[]")
    return _Source(
        _COLUMNS_TOTAL, _COLUMNS_PLACES, f"{_STATUS_OF_LIST if filters.statuses else ''} {{due}} {{columns}}"
    )


@cache
def _short(filters: _Filters) -> str:
    """Returns the search for one or two letters. It has rows only if the counters and a scan of the list answer it."""
    return sql.SHORT.format(scanned=sql.SCANNED.format(**filters.pieces)) + _page(filters, sql.SHORT_PLACES)


@cache
def _searched(filters: _Filters) -> str:
    """Returns the search for any text, under any filter."""
    pieces = filters.pieces
    finds = sql.FINDS.format(in_span=sql.IN_SPAN if filters.dates else "")
    if filters.beyond_lines or filters.dates:
        pieces["customer"] = " ".join(pieces[name] for name in ("customer", "card", "named", "columns"))
        listed = sql.LISTED_FILTERED if filters.beyond_lines else sql.LISTED
        return finds + listed.format(**pieces) + sql.LISTED_TOTAL + _page(filters, sql.LISTED_PLACES.format(**pieces))
    searched = sql.SEARCHED.format(scanned=sql.SCANNED.format(**pieces))
    return finds + searched + _page(filters, sql.SEARCHED_PLACES.format(**pieces))


def _page(filters: _Filters, places: str, condition: str = "") -> str:
    return _PAGE.format(places=places, direction=filters.pieces["direction"], condition=condition)


def _range(query: OrderQuery) -> tuple[datetime, datetime]:
    """Returns the date range, with an exclusive end."""
    start = _BEGINNING if query.created_from is None else query.created_from
    if query.created_to is None or query.created_to >= _END:
        return start, _END
    end = query.created_to
    return start, end.replace(microsecond=end.microsecond // 1000 * 1000) + _MILLISECOND


def _spans(start: datetime, end: datetime) -> dict[str, Any]:
    """Returns a range as whole UTC days, and the parts of it before (head) and after (tail) them."""
    first, last = -(-micros(start) // _DAY_US), micros(end) // _DAY_US
    if first >= last:  # no whole day: count all of it, which is nothing for an empty range
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
