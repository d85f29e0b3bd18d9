"""Pages of the list of subscriptions as they were at a time.

When a subscription was requested, and for which customer, never changes, nor does it that it has started. So today's
rows, up to the time, have the places of a list. A filter by the status or the plan corrects today's list by the
subscriptions that have changed since; where those are more than the subscriptions that existed, all of these are folded
instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.plans.state import Plan
from ledger.domain.subscriptions.state import Subscription
from projections.as_of.points import around, find_position, page_stated_at
from projections.as_of.reports import FOLDED_MAX, ReportClient, too_large
from projections.as_of.snapshots import Snapshot, page_among, pieces
from projections.events.states import StateReader
from projections.lists.paging import PackedPlaces, Place, page_parameters
from projections.lists.references import is_storable
from projections.lists.related_customers import customers_found, customers_statement
from projections.subscriptions import plans
from projections.subscriptions.plans import render_plan, summary_in
from projections.subscriptions.subscriptions import SubscriptionQuery, page_body, render_subscription

_CUSTOMERS: Final = "and customer_id = any(%(customers)s::uuid[])"
_PLAN: Final = "and plan_id = any(%(plans)s::uuid[])"
_STATUSES: Final = "and status = any(%(statuses)s::text[])"
_BEYOND: Final = "and (created_at, subscription_id) < (%(after_at)s, %(after_id)s)"

# The subscriptions that had started, without those that a correction leaves out.
_THEN: Final = """
   and created_at < %(after)s
   and (select e.position from event e
         where e.merchant_id = %(merchant_id)s and e.stream_id = subscription_id and e.topic = 'subscription-started.v1'
         order by e.version limit 1) <= %(position)s
   and subscription_id not in (select unnest(%(left_out)s::uuid[]))
"""

# The total and the places of a page, with those that a correction adds.
_PLACES: Final = f"""
with counted as (
  select count(*) as total from subscription where merchant_id = %(merchant_id)s {_THEN} {{filters}})
select t.total + cardinality(%(added_ids)s::uuid[]), p.created_at, p.subscription_id
  from counted t left join lateral (
    select k.created_at, k.subscription_id from (
      (select created_at, subscription_id from subscription
        where merchant_id = %(merchant_id)s {_THEN} {{filters}} {{beyond}}
        order by created_at desc, subscription_id desc limit %(offset)s::int8 + %(limit)s::int8)
      union all
      select a.created_at, a.subscription_id
        from unnest(%(added_at)s::timestamptz[], %(added_ids)s::uuid[]) as a(created_at, subscription_id)
       where true {{beyond}}) k
     order by k.created_at desc, k.subscription_id desc offset %(offset)s limit %(limit)s) p on true
 order by p.created_at desc, p.subscription_id desc
"""  # noqa: S608 - constants

# The subscriptions with events between two positions.
_CHANGED: Final = f"""
select s.created_at, s.subscription_id
  from (select distinct stream_id from event
         where merchant_id = %(merchant_id)s and position > %(low)s and position <= %(high)s) b
 cross join lateral (
   select created_at, subscription_id from subscription
    where merchant_id = %(merchant_id)s and subscription_id between b.stream_id and b.stream_id {{customer}}
    order by subscription_id limit 1) s
 where true {_THEN}
"""  # noqa: S608 - constants

# The rows of a page, and whether the subscription and its plan have changed since.
_ROWS: Final = """
select s.subscription_id, s.doc, s.metadata, s.plan_id, p.summary,
       (select position from event
         where merchant_id = %(merchant_id)s and stream_id = s.subscription_id and version = s.version) > %(position)s,
       (select position from event
         where merchant_id = %(merchant_id)s and stream_id = s.plan_id and version = p.version) > %(until)s
  from unnest(%(ids)s::uuid[]) as k(subscription_id)
 cross join lateral (
   select subscription_id, version, plan_id, doc, metadata from subscription
    where merchant_id = %(merchant_id)s and subscription_id = k.subscription_id limit 1) s
 cross join lateral (
   select summary, version from plan where merchant_id = %(merchant_id)s and plan_id = s.plan_id limit 1) p
"""

_NONE: Final = PackedPlaces()


class PastSubscriptionReader:
    """Reads pages of the pasts of all merchants' lists, one at a time. Raises ReportTooLarge, and like
    `LogReader.opened`.
    """

    def __init__(self, reports: ReportClient, states: StateReader) -> None:
        self._reports, self._states = reports, states

    async def page(self, merchant_id: UUID, query: SubscriptionQuery, plan: bytes | None) -> bytes:
        """Returns one page of the merchant's subscriptions as of `query.as_of` as JSON. `plan` is the document of the
        plan that `query.plan` names, None if there is none.
        """
        assert query.as_of is not None, "the present has no place in the past"
        plan_ids = None if query.plan is None else [] if plan is None else [plans.plan_id_in(plan)]
        async with self._reports.snapshot(merchant_id) as connection:
            point = await find_position(connection, merchant_id, query.as_of, query.as_of)
            listing = _Listing(Snapshot(connection, self._states, merchant_id, point), query, plan_ids)
            rows = [(0, None)] if point.position == 0 else await listing.rows()
        return page_stated_at(page_body(query, rows), point)


class _Listing:
    """One page of a list."""

    def __init__(self, snapshot: Snapshot, query: SubscriptionQuery, plan_ids: list[UUID] | None) -> None:
        self._snapshot, self._query, self._plan_ids = snapshot, query, plan_ids
        self._customers: list[UUID] | None = None

    async def rows(self) -> Sequence[tuple[Any, ...]]:
        """Returns the rows of the page, as those of today's statement are."""
        query, snapshot = self._query, self._snapshot
        if query.customer is not None:
            statement = customers_statement(snapshot.merchant_id, query.customer, related=False)
            rows = await snapshot.rows(*statement) if is_storable(query.customer) else []
            self._customers = customers_found(rows)
        is_by_state = bool(query.statuses) or query.plan is not None
        total, places = await (self._listed_by_state() if is_by_state else self._listed(query))
        shown = await self._shown([subscription_id for _, subscription_id in places])
        return [(total, *place, *shown[place[1]]) for place in places] or [(total, None)]

    async def _listed(
        self, query: SubscriptionQuery, left_out: PackedPlaces = _NONE, added: PackedPlaces = _NONE
    ) -> tuple[int, list[Place]]:
        """Returns the total, and the places of a page and of one subscription more."""
        rows = await self._snapshot.rows(*self._statement(query, left_out, added))
        return rows[0][0], [(created_at, entry_id) for _, created_at, entry_id in rows if entry_id is not None]

    def _statement(
        self, query: SubscriptionQuery, left_out: PackedPlaces, added: PackedPlaces
    ) -> tuple[str, dict[str, Any]]:
        """Returns the statement of a page's places and its parameters."""
        used = (
            (self._customers is not None, _CUSTOMERS),
            (query.plan is not None, _PLAN),
            (bool(query.statuses), _STATUSES),
        )
        statement = _PLACES.format(
            filters=" ".join(piece for is_used, piece in used if is_used),
            beyond="" if query.cursor is None else _BEYOND,
        )
        of_page = page_parameters(self._snapshot.merchant_id, query)
        of_then = {"added_at": added.times, "added_ids": added.ids}
        filters = {"plans": self._plan_ids, "statuses": list(query.statuses)}
        return statement, self._values(left_out) | of_page | of_then | filters

    def _values(self, left_out: PackedPlaces = _NONE) -> dict[str, Any]:
        """Returns the parameters of _THEN, and the customers."""
        point = self._snapshot.point
        return {
            "merchant_id": self._snapshot.merchant_id,
            "position": point.position,
            "left_out": left_out.ids,
            "customers": self._customers,
            **around(point.as_of),
        }

    async def _listed_by_state(self) -> tuple[int, list[Place]]:
        """Returns what `_listed` does for a query by status or plan. Raises ReportTooLarge."""
        snapshot, query = self._snapshot, self._query
        fixed = replace(query, statuses=(), plan=None, limit=1, offset=0, cursor=None)
        existing, _ = await self._listed(fixed)
        statement = _CHANGED.format(customer="" if self._customers is None else _CUSTOMERS)
        changed = await snapshot.changed(statement, self._values(), existing)
        if changed is not None:
            left_out, added = PackedPlaces(), PackedPlaces()
            for some in pieces(changed):
                left_out.add(some)
                added.add(await self._passing(some))
            return await self._listed(query, left_out, added)
        if existing > FOLDED_MAX:
            raise too_large("list", f"more than {FOLDED_MAX} subscriptions may have changed since", existing)
        passing: list[Place] = []
        async for rows in snapshot.pieces(*self._statement(replace(fixed, limit=existing), _NONE, _NONE)):
            passing += await self._passing([place for _, *place in rows if place[1] is not None])
        return page_among(query, passing)

    async def _passing(self, rows: Sequence[Sequence[Any]]) -> list[Place]:
        """Returns the places of the subscriptions that passed the filters as they were, from rows of places."""
        states = await self._snapshot.folded([entry_id for _, entry_id in rows])
        return [(created_at, entry_id) for created_at, entry_id in rows if self._passes(states[entry_id])]

    def _passes(self, subscription: Subscription) -> bool:
        statuses, plan_ids = self._query.statuses, self._plan_ids
        assert subscription.status is not None, "it had started"
        return (not statuses or subscription.status.value in statuses) and (
            plan_ids is None or subscription.plan_id in plan_ids
        )

    async def _shown(self, entry_ids: list[UUID]) -> Mapping[UUID, tuple[Any, ...]]:
        """Returns the columns of a page behind the places, by the subscriptions' ids: what has changed since is
        rendered anew.
        """
        if not entry_ids:
            return {}
        snapshot, until = self._snapshot, self._snapshot.point.until
        rows = await snapshot.rows(_ROWS, self._values() | {"until": until, "ids": entry_ids})
        states: Mapping[UUID, Subscription] = await snapshot.folded(
            [entry_id for entry_id, *_, is_changed, _ in rows if is_changed]
        )
        changed_plans = {plan_id for _, _, _, plan_id, _, is_changed, moved in rows if moved and not is_changed}
        plan_ids = changed_plans | {subscription.plan_id for subscription in states.values()}
        found: Mapping[UUID, Plan] = await snapshot.folded(plan_ids, until)
        summaries = {plan_id: summary_in(render_plan(plan)) for plan_id, plan in found.items()}
        shown: dict[UUID, tuple[Any, ...]] = {}
        for entry_id, stored, metadata, plan_id, summary, _, _ in rows:
            subscription = states.get(entry_id)
            if subscription is None:
                shown[entry_id] = stored, metadata, summaries.get(plan_id, summary)
            else:
                document = render_subscription(snapshot.merchant_id, subscription)
                shown[entry_id] = document, subscription.metadata, summaries[subscription.plan_id]
        return shown
