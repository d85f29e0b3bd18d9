"""The SQL statement that appends a batch, the statements around it, and the arrays that they take.

Lock the heads of the batch's merchants in an earlier statement of the same transaction. The probes of the append then
see every competing commit, and a competitor commits only afterwards. `on conflict do nothing` does not replace the
check: half of an acknowledged command would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.journal.append import Append
from ledger.journal.inline import InlineTable
from ledger.postgres.arrays import ENCODE_ARRAY, Array

LOST_STREAM, LOST_CLAIM, LOST_MERCHANT = 1, 2, 3

# Locks the heads of the batch's merchants, always in the same order, so that writers queue and never deadlock. Returns
# the merchants whose log is followed, and null for the others.
LOCK_HEADS: Final = """
select case when followed_until > now() then merchant_id end
  from merchant_head where merchant_id = any($1::uuid[]) order by merchant_id for update
"""

# Wakes the followers of these merchants' logs. For a transaction of its own, after the commit: at its commit a
# notification locks the whole database, and that lock must not be held while the disk is flushed.
WAKE_FOLLOWERS: Final = "select pg_notify('ledger_' || m, '') from unnest($1::uuid[]) as m"

# Which of these commands are committed, asked with each command's last event after a connection was lost.
COMMITTED: Final = """
select c.n, e.position
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::int4[], %s::uuid[]) as c(n, m, o, v, command_id)
  join event e on e.merchant_id = c.m and e.stream_id = c.o and e.version = c.v and e.command_id = c.command_id
"""

# c numbers the commands of the batch, i the streams or claims of a command. The probes are lateral with LIMIT 1 because
# a plan that was made while the tables were empty would otherwise scan them permanently. The latest version is asked
# for in its order, which the primary key alone has: where statistics know of one event for each merchant, any index
# that begins with the merchant costs the planner the same, and event_position would read the merchant's whole log. The
# losers are one array because each `not in (select …)` builds a hash table of its own.
_APPEND: Final = """
with stream as (  -- the streams each command touches, and the version it expects there: 0 or less for a new one
  select * from unnest(%s::int4[], %s::int4[], %s::uuid[], %s::uuid[], %s::int4[]) as s(c, i, m, o, x)),
claimed as (  -- the keys each command wants to take
  select * from unnest(%s::int4[], %s::int4[], %s::uuid[], %s::int4[], %s::text[], %s::uuid[])
    as k(c, i, m, kind, key, o)),
lost as (  -- the commands that cannot be written, and the reason
  select s.c, {lost_stream} as why, s.i from stream s
    left join lateral (select e.version from event e
      where e.merchant_id = s.m and e.stream_id = s.o order by e.version desc limit 1) latest on true
    where coalesce(latest.version, least(s.x, 0)) <> s.x
  union all
  select k.c, {lost_claim}, k.i from claimed k join lateral (select true from claim t
    where t.merchant_id = k.m and t.kind = k.kind and t.key = k.key limit 1) taken on true
  union all
  select s.c, {lost_merchant}, s.i from stream s
    left join merchant_head h on h.merchant_id = s.m where h.merchant_id is null),
losers as (select coalesce(array_agg(c), '{{}}') as c from lost),
won as (  -- the winners' events, numbered within their merchant from its head
  select e.*, h.position + row_number() over (partition by e.m order by e.n) as position
    from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::int4[], %s::uuid[], %s::timestamptz[], %s::text[], %s::bytea[],
                %s::bytea[]) with ordinality as e(c, m, o, v, command_id, recorded_at, topic, data, context, n)
    join merchant_head h on h.merchant_id = e.m
   where e.c <> all ((select c from losers)::int4[])),
appended as (
  insert into event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context)
  select m, o, v, position, command_id, recorded_at, topic, data, context from won),
advanced as (
  update merchant_head h set position = w.position
    from (select m, max(position) as position from won group by m) w where h.merchant_id = w.m),
taken as (
  insert into claim (merchant_id, kind, key, stream_id)
  select m, kind, key, o from claimed where c <> all ((select c from losers)::int4[])){inline}
select c, max(position), 0, 0 from won group by c
union all select c, null, why, i from lost
"""

_INLINE: Final = """,
{name}_rows as (
  select {columns} from unnest(%s::int4[], {types}) as r(c, {columns}) where c <> all ((select c from losers)::int4[])),
{name}_written as ({write})"""


# What a trigger does on an ordinary Postgres, beside the rows of a table.
_BESIDE: Final = """,
{name}_beside as ({beside})"""

_AFTER: Final = "with {name}_rows as (select {columns} from unnest(%s::int4[], {types}) as r(c, {columns})) {after}"


def build_statement(tables: Sequence[InlineTable], *, is_on_shard: bool = False) -> str:
    """Returns the statement of a journal that writes these read models in the same commit.

    The tables of a shard have no triggers: the statement for one also has what tables write `beside_on_shards`.

    The statement returns a row `(command, last position, 0, 0)` for each winner, and `(command, null, why, which)` for
    each loser: `why` is one of the `LOST_…` numbers, `which` the index of the stream or claim.
    """
    inline = "".join(
        _INLINE.format(write=table.write.format(rows=f"{table.name}_rows"), **_names(table)) for table in tables
    )
    if is_on_shard:
        inline += "".join(
            _BESIDE.format(name=table.name, beside=table.beside_on_shards.format(rows=f"{table.name}_rows"))
            for table in tables
            if table.beside_on_shards
        )
    statement = _APPEND.format(
        inline=inline, lost_stream=LOST_STREAM, lost_claim=LOST_CLAIM, lost_merchant=LOST_MERCHANT
    )
    return _numbered(statement.strip())


def build_after(table: InlineTable) -> str:
    """Returns the statement that follows the append in its transaction, on a shard. It reads the rows of losers too."""
    return _numbered(_AFTER.format(after=table.after_on_shards.format(rows=f"{table.name}_rows"), **_names(table)))


def _names(table: InlineTable) -> dict[str, str]:
    return {
        "name": table.name,
        "columns": ", ".join(column for column, _ in table.columns),
        "types": ", ".join(f"%s::{type_}[]" for _, type_ in table.columns),
    }


def _numbered(statement: str) -> str:
    """Returns the statement with Postgres' own `$1`, `$2` …

    psycopg would otherwise parse its five kilobytes for each batch.
    """
    parts = statement.split("%s")
    return parts[0] + "".join(f"${n}{part}" for n, part in enumerate(parts[1:], 1))


def lock_parameters(batch: Sequence[Append]) -> tuple[Array]:
    """Returns the merchants of a batch, for `LOCK_HEADS`."""
    return (ENCODE_ARRAY["uuid"](sorted({append.merchant_id for append in batch})),)


def append_parameters(batch: Sequence[Append], tables: Sequence[InlineTable]) -> list[Array]:
    """Returns the batch as the columns that the statement of `append_statement` unnests."""
    return [*_streams(batch), *_claims(batch), *_events(batch), *_rows(batch, tables)]


def committed_parameters(batch: Sequence[Append]) -> list[Array]:
    """Returns the last event of each command of a batch, as the columns that `COMMITTED` unnests."""
    rows = []
    for n, append in enumerate(batch):
        last = [stream for stream in append.streams if stream.events][-1]
        rows.append((n, append.merchant_id, last.stream_id, last.expected + len(last.events), append.command_id))
    return _columns(rows, ("int4", "uuid", "uuid", "int4", "uuid"))


def _streams(batch: Sequence[Append]) -> list[Array]:
    rows = [
        (c, i, a.merchant_id, s.stream_id, s.expected) for c, a in enumerate(batch) for i, s in enumerate(a.streams)
    ]
    return _columns(rows, ("int4", "int4", "uuid", "uuid", "int4"))


def _claims(batch: Sequence[Append]) -> list[Array]:
    rows = [
        (c, i, a.merchant_id, claim.kind, claim.key.encode(), claim.stream_id.bytes)
        for c, a in enumerate(batch)
        for i, claim in enumerate(a.claims)
    ]
    return _columns(rows, ("int4", "int4", "uuid", "int4", "text", "uuid"))


def _events(batch: Sequence[Append]) -> list[Array]:
    rows = [
        (c, a.merchant_id, s.stream_id, version, a.command_id, e.recorded_at, e.topic, e.data, a.context)
        for c, a in enumerate(batch)
        for s in a.streams
        for version, e in enumerate(s.events, s.expected + 1)
    ]
    return _columns(rows, ("int4", "uuid", "uuid", "int4", "uuid", "timestamptz", "text", "bytea", "bytea"))


def _rows(batch: Sequence[Append], tables: Sequence[InlineTable]) -> list[Array]:
    columns: list[Array] = []
    for table in tables:
        columns += table_parameters(batch, table)
    return columns


def table_parameters(batch: Sequence[Append], table: InlineTable) -> list[Array]:
    """Returns the rows that a batch writes to a table, as the columns that the statement unnests."""
    rows = [(c, *row) for c, append in enumerate(batch) for row in append.rows.get(table.name, ())]
    return _columns(rows, ("int4", *(type_ for _, type_ in table.columns)))


def _columns(rows: Sequence[tuple[object, ...]], types: Sequence[str]) -> list[Array]:
    if not rows:
        return [ENCODE_ARRAY[type_](()) for type_ in types]
    return [ENCODE_ARRAY[type_](column) for type_, column in zip(types, zip(*rows, strict=True), strict=True)]
