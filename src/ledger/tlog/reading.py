"""Reads of the trees: tiles, entries and the hashes of proofs, each of one merchant.

Full tiles are stored. Partial ones follow from the events and from the roots of the tiles below, so that one of any
width can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.codec import HAS_TIME
from ledger.postgres.connection import Connection, SharedClient
from ledger.tlog.growth import LogChanged
from ledger.tlog.merkle import HASH_BYTES, CompactRange, subtrees_of
from ledger.tlog.store import ENTRY, merchants_with_trees, read_leaves
from ledger.tlog.tiles import WIDTH, range_hash, tiles_of, width_in

# Where a merchant's log ends, the size of its tree, and the checkpoint of that size.
_PLACE: Final = """
select h.position, coalesce(t.size, 0), c.note
  from merchant_head h left join log_tree t using (merchant_id)
  left join log_checkpoint c on c.merchant_id = h.merchant_id and c.size = t.size
 where h.merchant_id = %s
"""

# A checkpoint by its size.
_CHECKPOINT: Final = "select note from log_checkpoint where merchant_id = %s and size = %s"

# A full tile.
_TILE: Final = "select hashes from log_tile where merchant_id = %s and level = %s and number = %s"

# The roots of tiles of a level from one number to before another.
_ROOTS: Final = """
select string_agg(root, ''::bytea order by number) from log_tile
 where merchant_id = %s and level = %s and number >= %s and number < %s
"""

# The entries behind a position and up to another one.
_ENTRIES: Final = f"""
select {ENTRY} from event
 where merchant_id = %s and position > %s and position <= %s and {HAS_TIME} order by position
"""  # noqa: S608 - constants


class Place(Struct, frozen=True):
    """The position of a log's last event, the size of its tree, and the checkpoint of that size, if there is one."""

    head: int
    size: int
    checkpoint: str | None


class TreeReader:
    """The trees of all merchants, read on one connection in turn. Call `stop` at the end."""

    def __init__(self, url: str) -> None:
        self._client = SharedClient(url, "ledger-log-proofs")

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def merchants(self) -> list[UUID]:
        """Returns the merchants that have a tree, in the order of their ids."""
        async with self._client.turn() as connection:
            return await merchants_with_trees(connection)

    async def place(self, merchant_id: UUID) -> Place:
        """Returns where a merchant's log and its tree end. Raises a Fault, as every read here."""
        async with self._client.turn() as connection:
            row = await (await connection.execute(_PLACE, (merchant_id,))).fetchone()
        assert row is not None, "every merchant has a log"
        return Place(*row)

    async def checkpoint(self, merchant_id: UUID, size: int) -> str | None:
        """Returns the checkpoint of a size, None if none was signed."""
        async with self._client.turn() as connection:
            row = await (await connection.execute(_CHECKPOINT, (merchant_id, size))).fetchone()
        return None if row is None else str(row[0])

    async def entries(self, merchant_id: UUID, start: int, end: int) -> list[bytes]:
        """Returns the entries from index `start` to before `end`. Those of removed events are left out."""
        async with self._client.turn() as connection:
            rows = await connection.cursor(binary=True).execute(_ENTRIES, (merchant_id, start, end))
            return [entry for (entry,) in await rows.fetchall()]

    async def tile(self, merchant_id: UUID, level: int, number: int, width: int) -> bytes:
        """Returns the first `width` hashes of a tile; fewer if the tree does not have them."""
        async with self._client.turn() as connection:
            return await _tile(connection, merchant_id, level, number, width)

    async def hashes(self, merchant_id: UUID, ranges: Sequence[range], size: int) -> list[bytes]:
        """Returns the hashes of the ranges of a proof in the tree of `size` entries. Raises LogChanged."""
        async with self._client.turn() as connection:
            return await read_hashes(connection, merchant_id, ranges, size)


async def read_hashes(connection: Connection, merchant_id: UUID, ranges: Sequence[range], size: int) -> list[bytes]:
    """Returns what `TreeReader.hashes` returns, on a connection of the caller. Raises LogChanged."""
    tiles: dict[tuple[int, int], bytes] = {}
    for level, number in sorted(tiles_of(ranges)):
        width = width_in(level, number, size)
        tile = await _tile(connection, merchant_id, level, number, width)
        if len(tile) != width * HASH_BYTES:
            raise LogChanged((number * WIDTH << (8 * level)) + 1, size)
        tiles[level, number] = tile
    return [range_hash(entries, lambda level, number: tiles[level, number]) for entries in ranges]


async def read_edge(connection: Connection, merchant_id: UUID, size: int) -> CompactRange:
    """Returns the right edge that a tree has, or had, at a size, by its tiles and the events behind them. Raises
    LogChanged.
    """
    parts = [range(part.number << part.level, part.number + 1 << part.level) for part in subtrees_of(range(size))]
    return CompactRange(size, await read_hashes(connection, merchant_id, parts, size))


async def _tile(connection: Connection, merchant_id: UUID, level: int, number: int, width: int) -> bytes:
    row = await (await connection.cursor(binary=True).execute(_TILE, (merchant_id, level, number))).fetchone()
    if row is None and level == 0:
        (leaves,) = await read_leaves(connection, [(merchant_id, number * WIDTH, number * WIDTH + width)])
        row = (leaves[0][1],) if leaves else None
    elif row is None:
        below = (merchant_id, level - 1, number * WIDTH, number * WIDTH + width)
        row = await (await connection.cursor(binary=True).execute(_ROOTS, below)).fetchone()
    return b"" if row is None or row[0] is None else bytes(row[0])[: width * HASH_BYTES]
