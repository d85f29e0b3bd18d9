"""Pages of the order list as they were at a time.

When an order was created, for which customer and under which ids never changes. So today's indexes, up to the time,
have the places of a list by these alone, and only the orders of the page are folded, if they have changed since. For
every other filter today's list is corrected by the orders that have changed since; where those are more than the orders
that existed, all of these are folded instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.customers.state import Customer
from ledger.domain.money import scaled
from ledger.domain.orders.state import Order
from ledger.postgres.faults import ReadModelBehind
from projections.as_of.points import OVERTAKEN, around, find_position, page_stated_at
from projections.as_of.reads import sources_then
from projections.as_of.reports import FOLDED_MAX, ReportClient, SnapshotClient, too_large
from projections.as_of.snapshots import Snapshot, page_among, pieces
from projections.customers import render_customer
from projections.events.states import StateReader
from projections.lists import references
from projections.lists.pages import OrderQuery, is_ascending, page_body
from projections.lists.paging import PackedPlaces, Place
from projections.lists.references import is_storable
from projections.lists.related_customers import customers_found, customers_statement, past_customers_statement
from projections.lists.statements import Correction, changed_statement, corrected_statement
from projections.orders.head import render_head
from projections.orders.table import filtered_by, sought_bits
from projections.search.lines import fold

# The orders that were created before the time but recorded behind its position: by a process whose clock was behind, or
# by a request that a move of the merchant's clock has overtaken.
_NOT_YET: Final = f"""
select o.created_at, o.order_id from payment_order o
 where o.merchant_id = %(merchant_id)s and o.created_at >= %(surely_before)s and o.created_at < %(after)s
   and (select position from event
         where merchant_id = %(merchant_id)s and stream_id = o.order_id and version = 1) > %(position)s
union all
select o.created_at, o.order_id
  from event e join payment_order o on o.merchant_id = e.merchant_id and o.order_id = e.stream_id
 where e.merchant_id = %(merchant_id)s and e.position > %(position)s and e.position <= %(position)s + {OVERTAKEN}
   and e.version = 1 and o.created_at < %(surely_before)s
"""  # noqa: S608 - constants

# The customers with events between two positions.
_CUSTOMERS: Final = """
select c.customer_id
  from (select distinct stream_id from event
         where merchant_id = %(merchant_id)s and position > %(low)s and position <= %(high)s) b
 cross join lateral (
   select customer_id from customer
    where merchant_id = %(merchant_id)s and customer_id between b.stream_id and b.stream_id
    order by customer_id limit 1) c
"""

# The rows of a page, and whether the order and its customer have changed since.
_ROWS: Final = """
select o.order_id, o.version, o.status, o.due_at, o.head, o.customer_id, c.doc,
       (select position from event
         where merchant_id = %(merchant_id)s and stream_id = o.order_id and version = o.version) > %(position)s,
       (select position from event
         where merchant_id = %(merchant_id)s and stream_id = o.customer_id and version = c.version) > %(until)s
  from unnest(%(ids)s::uuid[]) as k(order_id)
 cross join lateral (
   select order_id, version, status, due_at, head, customer_id from payment_order
    where merchant_id = %(merchant_id)s and order_id between k.order_id and k.order_id order by order_id limit 1) o
 cross join lateral (
   select doc, version from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
"""


class PastOrderReader:
    """Reads pages of the pasts of all merchants' lists. Raises ReportTooLarge, and like `LogReader.opened`.

    A page for which many orders may be folded is read with the reports, one at a time; every other one is read like a
    single order.
    """

    def __init__(self, client: SnapshotClient, reports: ReportClient, states: StateReader) -> None:
        self._client, self._reports, self._states = client, reports, states

    async def page(self, merchant_id: UUID, query: OrderQuery) -> bytes:
        """Returns one page of the merchant's orders as of `query.as_of` as JSON.

        Raises InvalidField if a filter refers to too many customers or cards, ReadModelBehind like `Queries.orders`.
        """
        assert query.as_of is not None, "the present has no place in the past"
        is_short = query.is_of_fixed_fields and query.email is None and not query.related
        client = self._client if is_short else self._reports
        async with client.snapshot(merchant_id) as connection:
            point = await find_position(connection, merchant_id, query.as_of, query.as_of)
            snapshot = Snapshot(connection, self._states, merchant_id, point)
            rows = [(0, None)] if point.position == 0 else await _rows(snapshot, query)
        return page_stated_at(page_body(query, rows, query.as_of), point)


class _Named(Struct, frozen=True):
    """What the filters of a query refer to, as `page_statements` takes it."""

    customers: list[UUID] | None
    cards: list[str] | None
    named: UUID | None


async def _rows(snapshot: Snapshot, query: OrderQuery) -> Sequence[tuple[Any, ...]]:
    """Returns the rows of a page, as those of today's statement are."""
    merchant_id = snapshot.merchant_id
    if query.has_columns and await snapshot.rows(*references.unfilled_statement(merchant_id)):
        raise ReadModelBehind("orders lack the columns of filters")
    named = await _named(snapshot, query)
    values = {"merchant_id": merchant_id, "position": snapshot.point.position, **around(snapshot.point.as_of)}
    not_yet = PackedPlaces(await snapshot.rows(_NOT_YET, values))
    if query.is_of_fixed_fields:
        total, places = await _listed(snapshot, query, named, Correction(not_yet, PackedPlaces()))
    else:
        total, places = await _listed_by_state(snapshot, query, named, not_yet)
    shown = await _shown(snapshot, [order_id for _, order_id in places])
    return [(total, *place, *shown[place[1]]) for place in places] or [(total, None)]


def _statement(
    snapshot: Snapshot, query: OrderQuery, named: _Named, correction: Correction
) -> tuple[str, dict[str, Any]]:
    """Returns the statement of a page's places and its parameters."""
    merchant_id = snapshot.merchant_id
    return corrected_statement(merchant_id, query, correction, named.customers, named.cards, named.named)


async def _listed(
    snapshot: Snapshot, query: OrderQuery, named: _Named, correction: Correction
) -> tuple[int, list[Place]]:
    """Returns the total, and the places of a page and of one order more."""
    rows = await snapshot.rows(*_statement(snapshot, query, named, correction))
    return rows[0][0], [(created_at, order_id) for _, created_at, order_id in rows if order_id is not None]


async def _listed_by_state(
    snapshot: Snapshot, query: OrderQuery, named: _Named, not_yet: PackedPlaces
) -> tuple[int, list[Place]]:
    """Returns what `_listed` does for a query with filters by what events change. Raises ReportTooLarge."""
    correction, ascending = Correction(not_yet, PackedPlaces()), is_ascending(query)
    fixed = replace(query.of_fixed_fields(), ascending=ascending, limit=1, offset=0, cursor=None)
    named_alone = replace(named, cards=None)
    existing, _ = await _listed(snapshot, fixed, named_alone, correction)
    statement = changed_statement(snapshot.merchant_id, fixed, correction, named.customers, named.named)
    changed = await snapshot.changed(*statement, existing)
    if changed is not None:
        added = PackedPlaces()
        for some in pieces(changed):
            not_yet.add(some)
            added.add(await _passing(snapshot, query, some))
        return await _listed(snapshot, query, named, Correction(not_yet, added))
    if existing > FOLDED_MAX:
        raise too_large("list", f"more than {FOLDED_MAX} orders may have changed since", existing)
    passing: list[Place] = []
    everything = replace(fixed, limit=existing)
    async for rows in snapshot.pieces(*_statement(snapshot, everything, named_alone, correction)):
        passing += await _passing(snapshot, query, [place for _, *place in rows if place[1] is not None])
    return page_among(query, passing, ascending=ascending)


async def _passing(snapshot: Snapshot, query: OrderQuery, rows: Sequence[Sequence[Any]]) -> list[Place]:
    """Returns the places of the orders that passed the filters as they were, from rows of places.

    One that was recorded much later than it was created may not be among `not_yet`, and did not exist.
    """
    orders = await snapshot.folded([order_id for _, order_id in rows])
    return [
        (created_at, order_id)
        for created_at, order_id in rows
        if order_id in orders and _passes(query, orders[order_id])
    ]


def _passes(query: OrderQuery, order: Order) -> bool:
    """Returns whether an order passes the filters by what events change, as the columns of its row would."""
    if query.statuses and order.status not in query.statuses:
        return False
    due_at = order.terms.due_date
    if query.exclude_overdue and due_at is not None and query.as_of is not None and due_at < query.as_of:
        return False
    _, amount, method_bits, last4s = filtered_by(order)
    if query.amount_min is not None and amount < scaled(query.amount_min):
        return False
    if query.amount_max is not None and amount > scaled(query.amount_max):
        return False
    if query.methods and not method_bits & sought_bits(query.methods):
        return False
    return query.last4 is None or query.last4 in (last4s or b"").decode().split(",")


async def _named(snapshot: Snapshot, query: OrderQuery) -> _Named:
    """Returns what the filters refer to. Raises InvalidField if it is too much, ReportTooLarge."""
    merchant_id, named, cards = snapshot.merchant_id, None, None
    if query.external_id is not None and is_storable(query.external_id):
        rows = await snapshot.rows(*references.named_statement(merchant_id, query.external_id))
        named = rows[0][0] if rows else None
    if query.last4 is not None:
        rows = await snapshot.rows(*references.cards_statement(merchant_id, query.last4))
        cards = [query.last4, *references.found(rows, "last4")]
    customers = None if query.customer is None else await _customers(snapshot, query.customer, related=query.related)
    if query.email is not None:
        owners = await _owners(snapshot, query.email)
        customers = list(owners) if customers is None else list(owners.intersection(customers))
    return _Named(customers, cards, named)


async def _customers(snapshot: Snapshot, reference: str, *, related: bool) -> list[UUID]:
    """Returns the customer with a service id or external id, and those that were related to it."""
    if not is_storable(reference):
        return []
    merchant_id = snapshot.merchant_id
    statement = customers_statement(merchant_id, reference, related=False)
    if related:
        sources = await sources_then(snapshot.connection, snapshot.states, merchant_id, snapshot.point.position)
        statement = past_customers_statement(merchant_id, reference, sources)
    return customers_found(await snapshot.rows(*statement))


async def _owners(snapshot: Snapshot, email: str) -> set[UUID]:
    """Returns the customers who had an e-mail, whatever its case: today's, corrected by those who have changed since.

    An order has a customer of its own command, whose event is behind it.
    """
    if not is_storable(email):
        return set()
    merchant_id, wanted = snapshot.merchant_id, fold(email)
    owners = set(references.found(await snapshot.rows(*references.email_statement(merchant_id, email)), "email"))
    changed = await snapshot.changed(_CUSTOMERS, {"merchant_id": merchant_id})
    if changed is None:
        raise too_large("list", f"more than {FOLDED_MAX} customers may have changed since", FOLDED_MAX + 1)
    for some in pieces([customer_id for (customer_id,) in changed]):
        owners.difference_update(some)
        customers = (await snapshot.folded(some, snapshot.point.until)).values()
        owners.update(each.customer_id for each in customers if each.email and fold(each.email) == wanted)
    return owners


async def _shown(snapshot: Snapshot, order_ids: list[UUID]) -> Mapping[UUID, tuple[Any, ...]]:
    """Returns the columns of a page behind the places, by the orders' ids: what has changed since is rendered anew."""
    if not order_ids:
        return {}
    point = snapshot.point
    values = {"merchant_id": snapshot.merchant_id, "position": point.position, "until": point.until, "ids": order_ids}
    rows = await snapshot.rows(_ROWS, values)
    to_fold = [order_id for order_id, _, _, _, head, _, _, is_changed, _ in rows if is_changed or not head]
    moved = {customer_id for *_, customer_id, _, _, is_changed in rows if is_changed}
    orders: Mapping[UUID, Order] = await snapshot.folded(to_fold)
    customers: Mapping[UUID, Customer] = await snapshot.folded(moved, point.until)
    documents = {customer_id: render_customer(customer) for customer_id, customer in customers.items()}
    shown: dict[UUID, tuple[Any, ...]] = {}
    for order_id, version, status, due_at, head, customer_id, stored, _, _ in rows:
        order, document = orders.get(order_id), documents.get(customer_id, stored)
        if order is None:
            shown[order_id] = version, status, due_at, head, document
        else:
            shown[order_id] = version, order.status, order.terms.due_date, render_head(order), document
    return shown
