"""How a tree grows by the hashes of new entries, and what shows that the log behind it was changed.

The tiles that become full are hashed from all their entries again. So a change of an entry that a checkpoint has is
noticed before its hash is stored for ever, and no checkpoint is signed that contradicts an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ledger.tlog.merkle import HASH_BYTES, CompactRange
from ledger.tlog.tiles import HEIGHT, WIDTH, split_hashes, tile_root


class LogChanged(Exception):
    """Entries that a checkpoint has were changed or are missing: `first` to `last` are the positions to look at."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(f"an event of the positions {first} to {last} was changed or removed")
        self.first, self.last = first, last


class Growth(Struct, frozen=True):
    """A tree after it has grown, and the tiles of level 0 that have become full: number, hashes, root."""

    edge: CompactRange
    tiles: list[tuple[int, bytes, bytes]]


def first_read(size: int, until: int) -> int:
    """Returns from which index entries are read for a tree of `size` entries to grow to `until`.

    From the beginning of its last tile if that becomes full, else only the new ones.
    """
    return size // WIDTH * WIDTH if until // WIDTH > size // WIDTH else size


def grow(edge: CompactRange, until: int, leaves: Sequence[tuple[int, bytes]]) -> Growth:
    """Returns a tree that has grown to `until` entries by leaf hashes: pairs of a tile's number and of its hashes, from
    the index `first_read` on.

    Raises LogChanged if hashes are missing, or the old ones are not those of the tree.
    """
    grown, tiles = CompactRange(edge.size, edge.hashes), []
    at, hashes = first_read(edge.size, until), dict(leaves)
    while at < until:
        number, end = at // WIDTH, min((at // WIDTH + 1) * WIDTH, until)
        found = split_hashes(hashes.get(number, b""))
        if len(found) != end - at:
            raise LogChanged(at + 1, end)
        old = max(0, edge.size - at)
        _require_old(edge, at, found[:old])
        if end % WIDTH == 0 and at % WIDTH == 0:
            tiles.append((number, hashes[number], tile_root(hashes[number])))
        if end % WIDTH == 0 and at % WIDTH == 0 and not old:
            grown.append_subtree(tiles[-1][2], HEIGHT)
        else:
            for leaf in found[old:]:
                grown.append(leaf)
        at = end
    return Growth(grown, tiles)


def encode_edge(edge: CompactRange) -> bytes:
    """Returns the hashes of an edge as they are stored."""
    return b"".join(edge.hashes)


def decode_edge(size: int, edge: bytes) -> CompactRange:
    """Returns a stored edge. Raises LogChanged if it is not one of this size."""
    if len(edge) != HASH_BYTES * size.bit_count():
        raise LogChanged(1, size)
    return CompactRange(size, split_hashes(edge))


def _require_old(edge: CompactRange, start: int, leaves: Sequence[bytes]) -> None:
    """Raises LogChanged unless the edge ends in these leaf hashes, which begin a tile at index `start`."""
    read = CompactRange()
    for leaf in leaves:
        read.append(leaf)
    if leaves and read.hashes != edge.hashes[-len(read.hashes) :]:
        raise LogChanged(start + 1, start + len(leaves))
