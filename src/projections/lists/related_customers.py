"""The customers that a chain of sourceId connects: those of a list of orders by customer, and those that one customer
shows.

Follow the chain in both directions and to its end (contract N50). Refuse a chain with more customers than a list can
hold; never shorten it silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import InvalidField

RELATED_MAX: Final = 1_000

# The customer with this service id, else with this external id (kind 2 is ClaimKind.CUSTOMER_EXTERNAL_ID).
_NAMED: Final = """
select customer_id from customer where merchant_id = %(merchant_id)s and customer_id = %(customer_id)s
union all
select stream_id from claim where merchant_id = %(merchant_id)s and kind = 2 and key = %(reference)s
 limit 1
"""

_ONE: Final = "select %(customer_id)s::uuid as customer_id"

# The connected component around that customer, step by step: the customers it was derived from, those derived from it,
# and those that share with it a source without a row. UNION visits each customer once.
_FAMILY: Final = """
with recursive {past} named as ({named}),
family as (
  select c.customer_id, c.source_id from named n cross join lateral (
    select customer_id, source_id from {customers}
     where merchant_id = %(merchant_id)s and customer_id = n.customer_id offset 0) c
  union
  select c.customer_id, c.source_id from family f cross join lateral (
    (select customer_id, source_id from {customers} where merchant_id = %(merchant_id)s and customer_id = f.source_id)
    union all
    (select customer_id, source_id from {customers} where merchant_id = %(merchant_id)s and source_id = f.customer_id)
    union all
    (select customer_id, source_id from {customers} where merchant_id = %(merchant_id)s and source_id = f.source_id)) c)
{shown}
"""
_NOW: Final = {"past": "", "customers": "customer"}

# The customers as they were at a position, of which some had other sources than now.
_PAST: Final = """
past as not materialized (
  select merchant_id, customer_id, source_id from customer
   where merchant_id = %(merchant_id)s and customer_id <> all(%(moved)s::uuid[])
  union all
  select %(merchant_id)s::uuid, u.* from unnest(%(moved)s::uuid[], %(sources)s::uuid[]) as u),
"""
_THEN: Final = {"past": _PAST, "customers": "past"}

# The customers of which the source has changed since a position.
_MOVED: Final = """
select distinct stream_id from event
 where merchant_id = %(merchant_id)s and topic = 'customer-source-changed.v1' and position > %(position)s
"""

_IDS: Final = "select customer_id from family limit %(limit)s"

# The documents of the family without the customer itself and those that were erased.
_DOCUMENTS: Final = """
select c.doc from family f join lateral (
  select doc from customer
   where merchant_id = %(merchant_id)s and customer_id = f.customer_id and not erased limit 1) c on true
 where f.customer_id <> %(customer_id)s limit %(limit)s"""

# The family as it was at a position, in the same way.
_EXISTING: Final = """
select f.customer_id from family f join lateral (
  select from customer
   where merchant_id = %(merchant_id)s and customer_id = f.customer_id and not erased limit 1) c on true
 where f.customer_id <> %(customer_id)s
   and exists (select from event where merchant_id = %(merchant_id)s and stream_id = f.customer_id and version = 1
                and position <= %(position)s)
 limit %(limit)s"""


def customers_statement(merchant_id: UUID, reference: str, *, related: bool) -> tuple[str, dict[str, Any]]:
    """Returns the statement for the customers of a reference (service id or external id), and its parameters."""
    parameters: dict[str, Any] = {
        "merchant_id": merchant_id,
        "customer_id": parse_uuid(reference),
        "reference": reference,
    }
    if related:
        parameters["limit"] = RELATED_MAX + 1
    return (_FAMILY.format(named=_NAMED, shown=_IDS, **_NOW) if related else _NAMED), parameters


def customers_found(rows: Sequence[tuple[Any, ...]]) -> list[UUID]:
    """Returns the customers of the statement's rows. Raises InvalidField if they are too many."""
    if len(rows) > RELATED_MAX:
        raise InvalidField("includeRelatedCustomers", f"leads to more than {RELATED_MAX} customers")
    return [customer_id for (customer_id,) in rows]


def related_documents_statement(merchant_id: UUID, customer_id: UUID, limit: int) -> tuple[str, dict[str, Any]]:
    """Returns the statement for the documents of at most `limit` related customers, and its parameters."""
    parameters = {"merchant_id": merchant_id, "customer_id": customer_id, "limit": limit}
    return _FAMILY.format(named=_ONE, shown=_DOCUMENTS, **_NOW), parameters


def moved_statement(merchant_id: UUID, position: int) -> tuple[str, dict[str, Any]]:
    """Returns the statement for the customers whose source has changed behind a position, and its parameters."""
    return _MOVED, {"merchant_id": merchant_id, "position": position}


def past_statement(
    merchant_id: UUID, customer_id: UUID, position: int, moved: Mapping[UUID, UUID | None], limit: int
) -> tuple[str, dict[str, Any]]:
    """Returns the statement for at most `limit` customers who were related at a position, and its parameters.

    `moved` has the source at the position of every customer whose source has changed since. Erased customers are left
    out.
    """
    parameters = {"merchant_id": merchant_id, "customer_id": customer_id, "position": position, "limit": limit}
    return _FAMILY.format(named=_ONE, shown=_EXISTING, **_THEN), parameters | _moved(moved)


def past_customers_statement(
    merchant_id: UUID, reference: str, moved: Mapping[UUID, UUID | None]
) -> tuple[str, dict[str, Any]]:
    """Returns what `customers_statement` does with `related`, as it was. `moved` is that of `past_statement`."""
    _, parameters = customers_statement(merchant_id, reference, related=True)
    return _FAMILY.format(named=_NAMED, shown=_IDS, **_THEN), parameters | _moved(moved)


def _moved(moved: Mapping[UUID, UUID | None]) -> dict[str, Any]:
    return {"moved": list(moved), "sources": list(moved.values())}
