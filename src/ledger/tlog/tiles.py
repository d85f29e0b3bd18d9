"""The pieces in which a tree is stored and published (C2SP tlog-tiles): tiles of 256 hashes, bundles of 256 entries.

A tile at level L has the roots of complete subtrees of 256 ** L entries. A tile is full and never changes again, or
partial: the last one of its level in a tree of some size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from ledger.tlog.merkle import EMPTY_ROOT, HASH_BYTES, Subtree, join_hashes, node_hash, subtrees_of

WIDTH: Final = 256
HEIGHT: Final = 8
"""The levels of the tree that a tile spans: `WIDTH` is two to this power."""
LEVEL_MAX: Final = 63
"""The highest level of a path (tlog-tiles)."""
LEVELS: Final = 8
"""How many levels of tiles a tree can have."""
ENTRY_BYTES_MAX: Final = (1 << 16) - 1
_PATH: Final = re.compile(r"(entries|0|[1-9]\d?)/((?:x\d{3}/){0,6}\d{3})(?:\.p/([1-9]\d{0,2}))?", re.ASCII)

Level = int | Literal["entries"]


class Tile(NamedTuple):
    """A tile by its level, its number within the level, and its width: 256, or less if it is partial."""

    level: Level
    number: int
    width: int = WIDTH


ReadTile = Callable[[int, int], bytes]
"""Returns the hashes of the tile at a level with a number: all that the tree has there, one after another."""


def tile_path(tile: Tile) -> str:
    """Returns the path of a tile or bundle, below `tile/`: `0/x001/x234/067.p/5` is 5 hashes of tile 1,234,067."""
    digits = f"{tile.number:03d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    number = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    return f"{tile.level}/{number}{'' if tile.width == WIDTH else f'.p/{tile.width}'}"


def parse_tile_path(path: str) -> Tile | None:
    """Returns the tile or bundle of a path, None if it is none: each tile has one path."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    level: Level = "entries" if found[1] == "entries" else int(found[1])
    tile = Tile(level, int(found[2].replace("x", "").replace("/", "")), int(found[3] or WIDTH))
    is_tile = (level == "entries" or level <= LEVEL_MAX) and tile_path(tile) == path
    return tile if is_tile else None


def width_in(level: Level, number: int, size: int) -> int:
    """Returns how many hashes or entries a tile or bundle has in the tree of this size; 0 if it is not there."""
    hashes = size if level == "entries" else size >> (HEIGHT * level)
    return max(0, min(hashes - number * WIDTH, WIDTH))


def tiles_in(size: int) -> Iterator[Tile]:
    """Yields the tiles of the tree of this size, level by level, the partial ones included."""
    for level in range(LEVELS):
        for number in range(-(-(size >> (HEIGHT * level)) // WIDTH)):
            yield Tile(level, number, width_in(level, number, size))


def bundles_in(size: int) -> Iterator[Tile]:
    """Yields the bundles of the entries of a tree of this size."""
    for number in range(-(-size // WIDTH)):
        yield Tile("entries", number, width_in("entries", number, size))


def tile_root(hashes: bytes) -> bytes:
    """Returns the root of the hashes of a tile. That of a full tile is a hash of the level above."""
    level = split_hashes(hashes)
    while len(level) > 1:
        without_neighbour = level[-1:] if len(level) % 2 else []
        level = [node_hash(left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
        level += without_neighbour
    return level[0] if level else EMPTY_ROOT


def split_hashes(hashes: bytes) -> list[bytes]:
    """Returns the hashes of a tile one by one."""
    return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]


def tile_of(subtree: Subtree) -> tuple[int, int]:
    """Returns the level and number of the tile from which the root of a complete subtree follows."""
    level, height = divmod(subtree.level, HEIGHT)
    return level, (subtree.number << height) // WIDTH


def range_hash(entries: range, read: ReadTile) -> bytes:
    """Returns the hash of a range of a proof from the tiles."""
    return join_hashes([_subtree_root(subtree, read) for subtree in subtrees_of(entries)])


def tiles_of(ranges: Iterable[range]) -> set[tuple[int, int]]:
    """Returns the levels and numbers of the tiles from which the hashes of ranges follow."""
    return {tile_of(subtree) for entries in ranges for subtree in subtrees_of(entries)}


def _subtree_root(subtree: Subtree, read: ReadTile) -> bytes:
    level, number = tile_of(subtree)
    height = subtree.level % HEIGHT
    first = (subtree.number << height) % WIDTH
    hashes = read(level, number)[first * HASH_BYTES : (first + (1 << height)) * HASH_BYTES]
    assert len(hashes) == HASH_BYTES << height, "the tile has every hash of the subtree"
    return tile_root(hashes)


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """Returns entries as a bundle: each behind its length in two bytes, the higher one first."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def decode_bundle(bundle: bytes) -> list[bytes]:
    """Returns the entries of a bundle. Raises ValueError if its end is missing."""
    entries, at = [], 0
    while at < len(bundle):
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        if at + 2 > len(bundle) or end > len(bundle):
            raise ValueError(f"the bundle has {len(bundle)} bytes, and its last entry ends behind them")
        entries.append(bundle[at + 2 : end])
        at = end
    return entries
