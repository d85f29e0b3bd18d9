"""Numbered public events as they are stored, and the queries of a feed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import takewhile
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.public_events.kinds import KIND_OF, Kind
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.postgres.faults import Fault

_LOOKED_AT_MAX: Final = 20_000
"""How many events of a feed one request looks at: a rare kind is found by several requests."""

_KIND: Final = 2  # of these columns
_COLUMNS: Final = """sequence, id, kind, resource_id, stream_id, version, until_position, payment_id, refund_id,
       dispute_id, document_id, previous_status, at"""

# The last number of a merchant's feed.
_LAST: Final = "select sequence from event_feed where merchant_id = %s"

# The number up to which a filter by kinds looks, none if there are fewer events.
_BOUND: Final = """
select sequence from public_event where merchant_id = %s and sequence > %s order by sequence offset %s limit 1
"""

# The next events of a feed.
_PAGE: Final = """
select {columns} from public_event
 where merchant_id = %(merchant_id)s and sequence > %(after)s and sequence <= %(until)s {filters}
 order by {stream} sequence limit %(limit)s
"""
_OF_STREAMS: Final = "and stream_id = %(stream_id)s"
# Not by the wanted kinds: a pattern may choose a newer release's kind, whose event this release must not pass.
_OF_KINDS: Final = "and kind <> all(%(unwanted)s::text[])"

# One event by its id.
_BY_ID: Final = "select {columns} from public_event where merchant_id = %s and id = %s"
_ONE: Final = _BY_ID.format(columns=_COLUMNS)
_NAMED: Final = f"select {_COLUMNS} from public_event where merchant_id = %s and id = any(%s)"  # noqa: S608 - a constant

# Where merchants' logs end. Each row begins with the number of the key that it answers.
FIND_HEAD: Final = """
select q.n, h.position
  from unnest(%s::int4[], %s::uuid[]) as q(n, merchant_id) join merchant_head h on h.merchant_id = q.merchant_id
"""


class NumberedEvent(Struct, frozen=True):
    """A public event with its number. What it shows is as it was after its command, which ends at `until_position`."""

    sequence: int
    id: UUID
    kind: Kind
    resource_id: UUID
    stream_id: UUID
    version: int
    until_position: int
    payment_id: UUID | None
    refund_id: UUID | None
    dispute_id: str | None
    document_id: UUID | None
    previous_status: str | None
    at: datetime


class EventQuery(Struct, frozen=True, kw_only=True):
    """A page of the feed: the events after a number. `kinds` are names, None for all.

    `stream_id` is an order or a subscription, None for all. A query that `matches_nothing` names one that cannot be.
    """

    after: int = 0
    limit: int = 100
    kinds: frozenset[str] | None = None
    stream_id: UUID | None = None
    matches_nothing: bool = False
    is_thin: bool = False


class Found(Struct, frozen=True):
    """The events of a page, up to which number was looked, and whether there are more to look at."""

    events: Sequence[NumberedEvent]
    last_sequence: int
    has_more: bool


async def find_page(connection: Connection, merchant_id: UUID, query: EventQuery) -> Found:
    """Returns the events of a page, oldest first.

    The page ends before an event of a kind that this release does not know. Raises a Fault if that is the first one: a
    process of a newer release answers it.
    """
    last = await _number(connection, _LAST, merchant_id) or 0
    if query.matches_nothing or query.after >= last:
        return Found([], max(query.after, last), has_more=False)
    until = last
    if query.kinds is not None and query.stream_id is None:
        until = await _number(connection, _BOUND, merchant_id, query.after, _LOOKED_AT_MAX - 1) or last
    values = {
        "merchant_id": merchant_id,
        "after": query.after,
        "until": until,
        "unwanted": [] if query.kinds is None else sorted(KIND_OF.keys() - query.kinds),
        "stream_id": query.stream_id,
        "limit": query.limit + 1,
    }
    statement = _page(query.kinds is not None, query.stream_id is not None)
    rows = await (await connection.execute(statement, values, binary=True)).fetchall()
    known = list(takewhile(lambda row: row[_KIND] in KIND_OF, rows))
    if rows and not known:
        raise Fault("the next event is of a kind that a newer release has")
    events = [numbered(row) for row in known[: query.limit]]
    if len(rows) > len(events):
        return Found(events, events[-1].sequence, has_more=True)
    return Found(events, until, has_more=until < last)


async def _number(connection: Connection, statement: str, *parameters: Any) -> int | None:
    row = await (await connection.execute(statement, parameters)).fetchone()
    return None if row is None else row[0]


async def find_one(connection: Connection, merchant_id: UUID, event_id: UUID) -> NumberedEvent | None:
    """Returns the event with this id, None if the merchant has none."""
    row = await (await connection.execute(_ONE, (merchant_id, event_id), binary=True)).fetchone()
    return None if row is None or row[_KIND] not in KIND_OF else numbered(row)


async def find_named(connection: Connection, merchant_id: UUID, ids: Sequence[UUID]) -> list[NumberedEvent]:
    """Returns the events of a merchant with these ids, without those of a kind that this release does not know."""
    rows = await (await connection.execute(_NAMED, (merchant_id, list(ids)), binary=True)).fetchall()
    return [numbered(row) for row in rows if row[_KIND] in KIND_OF]


def numbered(row: Sequence[Any]) -> NumberedEvent:
    """Returns an event from its row."""
    sequence, event_id, kind, *others, at = row
    values: list[Any] = [sequence, event_id, KIND_OF[kind], *others, at.astimezone(UTC)]
    return NumberedEvent(*values)


@cache
def _page(has_kinds: bool, has_stream: bool) -> str:
    filters = " ".join([_OF_KINDS] * has_kinds + [_OF_STREAMS] * has_stream)
    # By the index of streams: the plan by number alone would look at the whole feed for the events of one order.
    return _PAGE.format(columns=_COLUMNS, filters=filters, stream="stream_id," if has_stream else "")


def find_head_parameters(keys: Sequence[bytes]) -> list[bytes]:
    """Returns the columns that FIND_HEAD unnests, for merchants' ids as bytes."""
    return [ENCODE_ARRAY["int4"](range(len(keys))), ENCODE_ARRAY["uuid"](keys)]


def found_head(row: Sequence[Any]) -> int:
    """Returns the position from a row of FIND_HEAD."""
    position: int = row[1]
    return position
