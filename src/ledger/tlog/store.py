"""The tables of the trees, and the hashes of events that the database computes.

The statements here and `tlog.entries` build the same bytes of an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.codec import HAS_TIME
from ledger.journal.event_archive import CONTENT_HASH
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.tlog.growth import Growth, encode_edge
from ledger.tlog.merkle import CompactRange
from ledger.tlog.tiles import HEIGHT, LEVELS, WIDTH, tile_root

# The bytes of an event as an entry, from the columns of its row.
ENTRY: Final = f"""convert_to(
    '{{"merchantId":"' || merchant_id || '","position":' || position || ',"streamId":"' || stream_id
    || '","version":' || version || ',"topic":' || to_json(topic) || ',"recordedAtUs":'
    || (extract(epoch from recorded_at) * 1000000)::int8 || ',"commandId":"' || command_id
    || '","dataSha256":"' || encode({CONTENT_HASH}, 'hex') || '","contextSha256":"' || encode(sha256(context), 'hex')
    || '"}}', 'UTF8')"""

# A tree for each merchant that has none.
_BEGIN: Final = """
insert into log_tree (merchant_id)
select h.merchant_id from merchant_head h
 where h.position > 0 and not exists (select from log_tree t where t.merchant_id = h.merchant_id)
 order by 1 on conflict do nothing
"""

# The newest checkpoint of each merchant whose tree is shorter, or is gone.
_SHORTER: Final = """
select h.merchant_id, h.position, c.size, c.note
  from merchant_head h left join log_tree t using (merchant_id) cross join lateral (
    select size, note from log_checkpoint where merchant_id = h.merchant_id order by size desc limit 1) c
 where c.size > coalesce(t.size, 0)
"""

# Makes a tree that is shorter than a size, or is gone, one of that size.
_RESTORE: Final = """
insert into log_tree as t (merchant_id, size, edge) values (%s, %s, %s)
on conflict (merchant_id) do update set size = excluded.size, edge = excluded.edge where t.size < excluded.size
"""

_NEXT: Final = "t.merchant_id > %s order by t.merchant_id limit %s"
_LOCK: Final = "for update of t skip locked"

# Locks the trees behind a merchant's that are shorter than their log, without those that another worker extends.
_TAKE: Final = f"""
select t.merchant_id, t.size, t.edge, h.position from log_tree t join merchant_head h using (merchant_id)
 where h.position > t.size and {_NEXT} {_LOCK}
"""  # noqa: S608 - constants of this module

# The leaf hashes of stretches of logs, tile by tile. Hashed before they are sorted (`offset 0` keeps it so): a slice of
# whole events is larger than `work_mem`, and its sort would write them to temporary files.
_STRETCH: Final = f"""
select (position - 1) / {WIDTH} as number, string_agg(hash, ''::bytea order by position) as hashes
  from (select position, sha256('\\x00'::bytea || {ENTRY}) as hash from event
         where merchant_id = k.m and position > k.after and position <= k.until and {HAS_TIME} offset 0) e
 group by 1
"""  # noqa: S608 - constants of this module
_LEAVES: Final = f"""
select k.n, l.number, l.hashes
  from unnest(%s::int4[], %s::uuid[], %s::int8[], %s::int8[]) as k(n, m, after, until)
 cross join lateral ({_STRETCH}) l
"""  # noqa: S608 - constants of this module
# Those of one stretch: Citus refuses the statement for stretches of several merchants.
_LEAVES_OF_ONE: Final = _STRETCH.replace("k.m", "%s").replace("k.after", "%s").replace("k.until", "%s")

# Stores full tiles.
_PUT_TILES: Final = """
insert into log_tile (merchant_id, level, number, hashes, root)
select * from unnest(%s::uuid[], %s::int4[], %s::int8[], %s::bytea[], %s::bytea[])
"""

# The roots of the tiles below a tile.
_ROOTS: Final = f"""
select string_agg(root, ''::bytea order by number) from log_tile
 where merchant_id = %s and level = %s and number >= %s * {WIDTH} and number < (%s + 1) * {WIDTH}
"""  # noqa: S608 - a constant

# Moves trees on.
_MOVE: Final = """
update log_tree t set size = u.size, edge = u.edge
  from unnest(%s::uuid[], %s::int8[], %s::bytea[]) as u(merchant_id, size, edge) where t.merchant_id = u.merchant_id
"""

# Stores signed checkpoints.
_PUT_CHECKPOINTS: Final = """
insert into log_checkpoint (merchant_id, size, note, signed_by)
select * from unnest(%s::uuid[], %s::int8[], %s::text[], %s::text[])
"""

# The newest checkpoint of each merchant.
_NEWEST: Final = """
select c.merchant_id, c.size, c.note, c.signed_by from log_tree t join log_checkpoint c using (merchant_id, size)
 order by c.merchant_id
"""

# What is stored of trees: the note of the checkpoint of their size, and whether there is a larger one, or a tile that
# is not full yet.
_STORED: Final = f"""
select k.m, (select c.note from log_checkpoint c where c.merchant_id = k.m and c.size = k.size),
       exists (select from log_checkpoint b where b.merchant_id = k.m and b.size > k.size)
    or exists (select from generate_series(0, {LEVELS - 2}) as l(level) cross join lateral (
                 select from log_tile t
                  where t.merchant_id = k.m and t.level = l.level and t.number >= k.size >> {HEIGHT} * (l.level + 1)
                  limit 1) t)
  from unnest(%s::uuid[], %s::int8[]) as k(m, size)
"""  # noqa: S608 - constants

# The trees whose newest checkpoint other keys have signed than these, in the same way.
_TAKE_OTHERWISE: Final = f"""
select t.merchant_id, t.size, t.edge from log_tree t join log_checkpoint c using (merchant_id, size)
 where c.signed_by <> %s and {_NEXT} {_LOCK}
"""  # noqa: S608 - constants of this module

# Replaces the signatures of a checkpoint. Its size and root stay.
_SIGN_AGAIN: Final = """
update log_checkpoint c set note = u.note, signed_by = u.signed_by
  from unnest(%s::uuid[], %s::int8[], %s::text[], %s::text[]) as u(merchant_id, size, note, signed_by)
 where c.merchant_id = u.merchant_id and c.size = u.size
"""

# The sizes of the trees, of merchants that have one or a log.
_SIZES: Final = "select merchant_id, coalesce(t.size, 0) from merchant_head left join log_tree t using (merchant_id)"

# The merchants that have a tree, in the order of their ids.
_MERCHANTS: Final = "select merchant_id from log_tree order by merchant_id"

# Removes a merchant's checkpoints of before a time, without the first one of each day and the newest.
_THIN: Final = """
delete from log_checkpoint c
 where c.merchant_id = %s and c.sealed_at < %s
   and c.size < (select t.size from log_tree t where t.merchant_id = c.merchant_id)
   and (c.sealed_at at time zone 'UTC')::date = (
     select (b.sealed_at at time zone 'UTC')::date from log_checkpoint b
      where b.merchant_id = c.merchant_id and b.size < c.size order by b.size desc limit 1)
"""


class Tree(Struct, frozen=True):
    """A merchant's tree as it is stored, and the position of the last event of its log."""

    merchant_id: UUID
    size: int
    edge: bytes
    head: int


class StoredTree(Struct, frozen=True):
    """A tree with the note of the checkpoint of its size, None if there is none.

    `was_longer`: a checkpoint or a tile of more entries is stored than the tree has.
    """

    tree: Tree
    note: str | None
    was_longer: bool


class SignedCheckpoint(Struct, frozen=True):
    """A merchant's checkpoint of a size, and the keys that signed it."""

    merchant_id: UUID
    size: int
    note: str
    signed_by: str


async def begin_trees(connection: Connection) -> None:
    """Begins a tree for each merchant that has an event and no tree."""
    await connection.execute(_BEGIN)


async def take_trees(connection: Connection, after: UUID, limit: int) -> list[Tree]:
    """Locks trees that are shorter than their log, of merchants behind `after`, until the transaction ends."""
    rows = await connection.cursor(binary=True).execute(_TAKE, (after, limit))
    return [Tree(*row) for row in await rows.fetchall()]


async def shorter_trees(connection: Connection) -> list[tuple[UUID, int, int, str]]:
    """Returns the merchants whose tree is shorter than their newest checkpoint, or is gone, each with the position of
    its last event, and the size and the note of the checkpoint.
    """
    return await (await connection.execute(_SHORTER)).fetchall()


async def restore_tree(connection: Connection, merchant_id: UUID, edge: CompactRange) -> bool:
    """Makes a shorter tree, or one that is gone, this one, and returns whether it was still shorter."""
    done = await connection.execute(_RESTORE, (merchant_id, edge.size, encode_edge(edge)))
    return done.rowcount == 1


async def take_signed_otherwise(connection: Connection, after: UUID, signed_by: str, limit: int) -> list[Tree]:
    """Locks trees whose newest checkpoint other keys have signed, of merchants behind `after`, like `take_trees`."""
    rows = await connection.cursor(binary=True).execute(_TAKE_OTHERWISE, (signed_by, after, limit))
    return [Tree(merchant_id, size, edge, size) for merchant_id, size, edge in await rows.fetchall()]


async def read_leaves(
    connection: Connection, stretches: Sequence[tuple[UUID, int, int]]
) -> list[list[tuple[int, bytes]]]:
    """Returns the leaf hashes of each stretch, tile by tile: the tile's number and its hashes within the stretch.

    A stretch is a merchant, the index of its first entry and that behind its last one.
    """
    if connection.has_citus:
        cursor = connection.cursor(binary=True)
        return [await (await cursor.execute(_LEAVES_OF_ONE, stretch)).fetchall() for stretch in stretches]
    merchants, starts, ends = zip(*stretches, strict=True)
    rows = await connection.cursor(binary=True).execute(
        _LEAVES,
        (
            ENCODE_ARRAY["int4"](range(len(stretches))),
            ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id in merchants]),
            ENCODE_ARRAY["int8"](starts),
            ENCODE_ARRAY["int8"](ends),
        ),
    )
    found: list[list[tuple[int, bytes]]] = [[] for _ in stretches]
    for n, number, hashes in await rows.fetchall():
        found[n].append((number, hashes))
    return found


async def write_growth(connection: Connection, grown: Sequence[tuple[UUID, Growth]]) -> None:
    """Stores the tiles that have become full, with those above them, and moves the trees on."""
    tiles = [(merchant_id, 0, *tile) for merchant_id, growth in grown for tile in growth.tiles]
    while tiles:
        merchants, levels, numbers, *contents = zip(*tiles, strict=True)
        keys = (
            ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id in merchants]),
            ENCODE_ARRAY["int4"](levels),
            ENCODE_ARRAY["int8"](numbers),
        )
        await connection.execute(_PUT_TILES, (*keys, *map(ENCODE_ARRAY["bytea"], contents)))
        tiles = [await _parent(connection, *tile[:3]) for tile in tiles if tile[2] % WIDTH == WIDTH - 1]
    await connection.execute(
        _MOVE,
        (
            [merchant_id for merchant_id, _ in grown],
            [growth.edge.size for _, growth in grown],
            [encode_edge(growth.edge) for _, growth in grown],
        ),
    )


async def _parent(
    connection: Connection, merchant_id: UUID, level: int, number: int
) -> tuple[UUID, int, int, bytes, bytes]:
    """Returns the tile above the 256th tile of 256."""
    above = number // WIDTH
    row = await (await connection.cursor(binary=True).execute(_ROOTS, (merchant_id, level, above, above))).fetchone()
    assert row is not None, "an aggregate has one row"
    return merchant_id, level + 1, above, row[0], tile_root(row[0])


async def newest_checkpoints(connection: Connection) -> list[SignedCheckpoint]:
    """Returns the newest checkpoint of each merchant."""
    rows = await connection.cursor(binary=True).execute(_NEWEST)
    return [SignedCheckpoint(*row) for row in await rows.fetchall()]


async def read_stored(connection: Connection, trees: Sequence[Tree]) -> list[StoredTree]:
    """Returns these trees with what is stored of each.

    Lock them before, in a statement of its own: one that locks a tree may read its checkpoint of before.
    """
    rows = await connection.execute(_STORED, ([tree.merchant_id for tree in trees], [tree.size for tree in trees]))
    stored = {merchant_id: (note, was_longer) for merchant_id, note, was_longer in await rows.fetchall()}
    return [StoredTree(tree, *stored[tree.merchant_id]) for tree in trees]


async def write_checkpoints(connection: Connection, signed: Sequence[SignedCheckpoint], *, again: bool = False) -> None:
    """Stores checkpoints; with `again`, the signatures of checkpoints that are stored."""
    columns = zip(*[(each.merchant_id, each.size, each.note, each.signed_by) for each in signed], strict=True)
    await connection.execute(_SIGN_AGAIN if again else _PUT_CHECKPOINTS, [list(column) for column in columns])


async def tree_sizes(connection: Connection) -> dict[UUID, int]:
    """Returns how many entries the tree of each merchant has, 0 for a log without one."""
    return dict(await (await connection.execute(_SIZES)).fetchall())


async def merchants_with_trees(connection: Connection) -> list[UUID]:
    """Returns the merchants that have a tree, in the order of their ids."""
    return [merchant_id for (merchant_id,) in await (await connection.execute(_MERCHANTS)).fetchall()]


async def thin_checkpoints(connection: Connection, merchant_id: UUID, before: datetime) -> int:
    """Removes a merchant's checkpoints that were signed before a time, and returns how many.

    The first one of each day (UTC) and the newest stay.
    """
    return (await connection.execute(_THIN, (merchant_id, before))).rowcount
