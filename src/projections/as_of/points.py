"""Where in a merchant's log a time or a version of a stream is.

A time means a position: the one before the first event that was recorded after it. Times are compared to the
millisecond, as answers show them: the `updatedAt` of an answer includes the event that set it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ledger.postgres.connection import Connection
from projections.formats import Moment, encode, moment

_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Before every log."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_DISORDER_MAX: Final = timedelta(seconds=10)
"""How much later an event may be recorded than one with a higher position: by the difference of the processes' clocks,
and by the time from the decision of an event to its commit.
"""
_OVERTAKEN_MAX: Final = 500
"""How many positions before an event may have later ones than that: where a merchant's clock is moved by days while a
command is under way, the command's events are dated before the move, and come behind its first events.
"""

# How many of them are looked at: none if the merchant's clock was never moved. On Citus, where clocks are on the
# coordinator, the answer is sent to the node as a table, which has to have a column.
OVERTAKEN: Final = f"""
case when exists (select 1 from merchant_clock where merchant_id = %(merchant_id)s) then {_OVERTAKEN_MAX} else 0 end
"""  # noqa: S608 - a constant

# The end of the command whose event is at p.position: the events of a command have adjacent positions. A stream that is
# made with the order, such as its customer's, has its events in the same command.
_END: Final = """
coalesce((select n.position - 1 from event n
           where n.merchant_id = %(merchant_id)s and n.position > p.position and n.command_id <> p.command_id
           order by n.position limit 1),
         (select position from merchant_head where merchant_id = %(merchant_id)s))
"""

# The event of a version.
_OF_VERSION: Final = f"""
select p.position, {_END}, p.version, p.recorded_at
  from event p where p.merchant_id = %(merchant_id)s and p.stream_id = %(stream_id)s and p.version = %(version)s
"""  # noqa: S608 - constants

# The position of a time behind a position whose event, like all before it, was recorded before the time.
_END_OF_TIME: Final = """
at as (
  select coalesce((select e.position - 1 from event e
                    where e.merchant_id = %(merchant_id)s
                      and e.position > {low} - {overtaken}
                      and e.recorded_at >= %(after)s
                    order by e.position limit 1),
                  (select position from merchant_head where merchant_id = %(merchant_id)s)) as position)
"""
# The position of a time. The binary search finds a position whose event, like all before it, was recorded before the
# time; from there on the log is read to the first event that was recorded after it. If the merchant's clock was ever
# moved, a move may have overtaken that event: then it is read from shortly before it.
_AT: Final = f"""
search (low, high) as (
  select 0::int8, position + 1 from merchant_head where merchant_id = %(merchant_id)s
  union all
  select case when m.is_late then s.low else m.position end, case when m.is_late then m.position else s.high end
    from search s cross join lateral (
      select position, recorded_at >= %(surely_before)s as is_late from event
       where merchant_id = %(merchant_id)s and position = (s.low + s.high) / 2) m
   where s.high - s.low > 1),
{_END_OF_TIME.format(low="(select max(low) from search)", overtaken=OVERTAKEN)}
"""  # noqa: S608 - a constant
# The same on Citus, which has no recursion on a node: the search is made of statements of its own.
_AT_GIVEN: Final = _END_OF_TIME.format(low="%(low)s::int8", overtaken="%(overtaken)s::int8")
_HEAD: Final = "select position from merchant_head where merchant_id = %(merchant_id)s"
_IS_LATE: Final = """
select recorded_at >= %(surely_before)s from event where merchant_id = %(merchant_id)s and position = %(middle)s
"""
_FIND_OVERTAKEN: Final = f"select {OVERTAKEN}"

# The position with the end of its command; none of an empty log, or of a time before it.
_PLACE_AT: Final = f"""
select p.position, {_END}, p.recorded_at
  from at join event p on p.merchant_id = %(merchant_id)s and p.position = at.position
"""  # noqa: S608 - constants
_POSITION, _POSITION_GIVEN = f"with recursive {_AT}{_PLACE_AT}", f"with {_AT_GIVEN}{_PLACE_AT}"

# The last event of a stream up to a time.
_LAST_AT: Final = f"""
select p.position, {_END}, s.version, p.recorded_at
  from at join event p on p.merchant_id = %(merchant_id)s and p.position = at.position
 cross join lateral (
   select version from event
    where merchant_id = %(merchant_id)s and stream_id = %(stream_id)s and position <= at.position
    order by version desc limit 1) s
"""  # noqa: S608 - constants
_OF_TIME, _OF_TIME_GIVEN = f"with recursive {_AT}{_LAST_AT}", f"with {_AT_GIVEN}{_LAST_AT}"

# The version of the last event of a stream.
_NEWEST_VERSION: Final = """
select version from event where merchant_id = %(merchant_id)s and stream_id = %(stream_id)s
 order by version desc limit 1
"""

# The newest event of a merchant, and when it was recorded.
_NEWEST: Final = """
select position, position, recorded_at from event
 where merchant_id = %(merchant_id)s
   and position = (select position from merchant_head where merchant_id = %(merchant_id)s)
"""


class Asked(Struct, frozen=True):
    """The past state that a request asks for: by a time, cut to the millisecond, or by a version of the resource."""

    as_of: datetime | None
    version: int | None


class LogPoint(Struct, frozen=True):
    """A place in a merchant's log. Position 0 is before its first event.

    A resource has its events up to `position`. What it contains of other streams has the events up to `until`, the end
    of the command at `position`.
    """

    as_of: datetime
    position: int
    until: int


class PastPoint(LogPoint, frozen=True):
    """A place in a merchant's log, at which the last event of a stream has the version `version`."""

    version: int

    def stated_in(self, document: bytes) -> bytes:
        """Returns a JSON object with the place as its last members."""
        members = _Place(as_of=moment(self.as_of), position=self.position, version=self.version)
        return b"%b,%b" % (document[:-1], encode(members)[1:])


class _ListPlace(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a page of a past list has besides."""

    as_of: Annotated[Moment, Meta(description="The time that the page shows. Only with `asOf`.")]
    position: Annotated[
        int, Meta(description="The position in the merchant's log up to which events are included. Only with `asOf`.")
    ]


class _Place(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What an answer about the past of a resource has besides."""

    as_of: Annotated[Moment, Meta(description="The time that the answer shows. Only with `asOf` or `version`.")]
    position: Annotated[
        int,
        Meta(
            description="The position in the merchant's log up to which its events are included. Only with `asOf` or "
            "`version`."
        ),
    ]
    version: Annotated[
        int, Meta(description="The number of the resource's own events up to there. Only with `asOf` or `version`.")
    ]


def page_stated_at(page: bytes, point: LogPoint) -> bytes:
    """Returns the JSON object of a page with the place that it shows as its last members."""
    return b"%b,%b" % (page[:-1], encode(_ListPlace(as_of=moment(point.as_of), position=point.position))[1:])


def with_place(document: type[Struct], name: str, place: type[Struct] = _Place) -> type[Struct]:
    """Returns the description of an answer that is either a document of today or one of the past."""
    fields = [(each.name, each.type | UnsetType, UNSET) for each in msgspec.structs.fields(place)]
    return msgspec.defstruct(
        name, fields, bases=(document,), namespace={"__doc__": document.__doc__}, rename="camel", kw_only=True
    )


def page_with_place(page: type[Struct], name: str) -> type[Struct]:
    """Returns the description of a page that is either one of today or one of the past."""
    return with_place(page, name, _ListPlace)


async def find_point(connection: Connection, merchant_id: UUID, stream_id: UUID, asked: Asked) -> PastPoint | None:
    """Returns the place that is asked for, None if the stream did not exist then or has no such version."""
    values: dict[str, Any] = {"merchant_id": merchant_id, "stream_id": stream_id}
    if asked.as_of is None:
        statement, values["version"] = _OF_VERSION, asked.version
    elif asked.as_of < _BEGINNING:
        return None
    elif connection.has_citus:
        statement, values = _OF_TIME_GIVEN, await _searched(connection, values | around(asked.as_of))
    else:
        statement, values = _OF_TIME, values | around(asked.as_of)
    row = await (await connection.execute(statement, values, binary=True)).fetchone()
    if row is None:
        return None
    position, until, version, recorded_at = row
    return PastPoint(asked.as_of or recorded_at.astimezone(UTC), position, until, version)


async def newest_version(connection: Connection, merchant_id: UUID, stream_id: UUID) -> int:
    """Returns how many events a stream has: 0 if it does not exist."""
    values = {"merchant_id": merchant_id, "stream_id": stream_id}
    row = await (await connection.execute(_NEWEST_VERSION, values, binary=True)).fetchone()
    return 0 if row is None else row[0]


async def find_position(connection: Connection, merchant_id: UUID, as_of: datetime | None, now: datetime) -> LogPoint:
    """Returns the place of a time in a merchant's log. `now` is by the merchant's clock.

    None is the present: the end of the log, whose newest event may be dated by a clock that is ahead.
    """
    values: dict[str, Any] = {"merchant_id": merchant_id}
    if as_of is not None and as_of < _BEGINNING:
        return LogPoint(as_of, 0, 0)
    if as_of is None:
        statement = _NEWEST
    elif connection.has_citus:
        statement, values = _POSITION_GIVEN, await _searched(connection, values | around(as_of))
    else:
        statement, values = _POSITION, values | around(as_of)
    row = await (await connection.execute(statement, values, binary=True)).fetchone()
    position, until, recorded_at = row or (0, 0, _BEGINNING)
    return LogPoint(as_of or max(now, recorded_at.astimezone(UTC)), position, until)


async def _searched(connection: Connection, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a time with a position whose event, like all before it, was recorded before it."""
    head = await (await connection.execute(_HEAD, values)).fetchone()
    low, high = 0, 1 if head is None else head[0] + 1
    while high - low > 1:
        middle = (low + high) // 2
        late = await (await connection.execute(_IS_LATE, {**values, "middle": middle})).fetchone()
        if late is None or late[0]:
            high = middle
        else:
            low = middle
    overtaken = await (await connection.execute(_FIND_OVERTAKEN, values)).fetchone()
    assert overtaken is not None, "the statement has one row"
    return {**values, "low": low, "overtaken": overtaken[0]}


async def newest_at(connection: Connection, merchant_id: UUID) -> datetime | None:
    """Returns when the newest event of a merchant was recorded, None for an empty log."""
    row = await (await connection.execute(_NEWEST, {"merchant_id": merchant_id}, binary=True)).fetchone()
    return None if row is None else row[2].astimezone(UTC)


def around(as_of: datetime) -> dict[str, Any]:
    """Returns when the events after a time begin, and a time before which an event is surely in the log up to it: the
    parameters of _AT.
    """
    after = as_of + _MILLISECOND
    return {"after": after, "surely_before": after - _DISORDER_MAX}
