"""A log as a folder of files that any web server or program for C2SP tlog-tiles serves or reads."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from msgspec import Struct

from ledger.tlog.checkpoints import open_checkpoint
from ledger.tlog.growth import LogChanged
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import CompactRange, leaf_hash
from ledger.tlog.notes import Unverified
from ledger.tlog.reading import Place, TreeReader
from ledger.tlog.tiles import (
    HEIGHT,
    LEVELS,
    WIDTH,
    bundles_in,
    encode_bundle,
    split_hashes,
    tile_path,
    tile_root,
    tiles_in,
)


class ExportedLog(Struct, frozen=True, rename="camel"):
    """A log that was written as files: its merchant, the size of its tree, and how many files there are."""

    merchant_id: UUID
    size: int
    files: int


async def export_log(trees: TreeReader, keys: LogKeys, merchant_id: UUID, place: Place, folder: Path) -> ExportedLog:
    """Writes a log up to its newest checkpoint as files, and compares its events, tiles and checkpoint meanwhile.

    Raises LogChanged if they differ, Unverified if no key of `keys` has signed the checkpoint, or it or a tile above
    the hashes of events has other ones. The checkpoint is written last: a folder with one is complete.
    """
    assert place.checkpoint is not None, "a log without a checkpoint has no files"
    checkpoint = open_checkpoint(place.checkpoint.encode(), keys.verifiers(merchant_id))
    files = 0
    tree = CompactRange()
    levels: list[list[bytes]] = [[] for _ in range(LEVELS + 1)]  # the roots of the full tiles below each level
    for bundle in bundles_in(place.size):
        start = bundle.number * WIDTH
        entries = await trees.entries(merchant_id, start, start + bundle.width)
        tile = await trees.tile(merchant_id, 0, bundle.number, bundle.width)
        _require_same([leaf_hash(entry) for entry in entries], split_hashes(tile), start, bundle.width)
        if bundle.width == WIDTH:
            tree.append_subtree(tile_root(tile), HEIGHT)
            _add_root(levels, tile_root(tile))
        else:
            for leaf in split_hashes(tile):
                tree.append(leaf)
        _write(folder / "tile" / tile_path(bundle), encode_bundle(entries))
        files += 1
    if tree.root() != checkpoint.root:
        raise Unverified(f"the checkpoint of {place.size} entries has another root than the entries")
    for tile_ in tiles_in(place.size):
        assert tile_.level != "entries", "those are the bundles"
        hashes = await trees.tile(merchant_id, tile_.level, tile_.number, tile_.width)
        first = tile_.number * WIDTH
        if tile_.level and hashes != b"".join(levels[tile_.level][first : first + WIDTH]):
            raise Unverified(f"tile {tile_.level}/{tile_.number} has not the roots of the tiles below it")
        _write(folder / "tile" / tile_path(tile_), hashes)
        files += 1
    _write(folder / "key", "".join(f"{each}\n" for each in keys.verifiers(merchant_id)).encode())
    _write(folder / "checkpoint", place.checkpoint.encode())
    return ExportedLog(merchant_id, place.size, files + 2)


def _add_root(levels: list[list[bytes]], root: bytes) -> None:
    """Adds the root of a full tile of level 0, and those of the tiles above that become full by it."""
    for roots in levels[1:]:
        roots.append(root)
        if len(roots) % WIDTH:
            return
        root = tile_root(b"".join(roots[-WIDTH:]))


def _require_same(found: list[bytes], stored: list[bytes], start: int, width: int) -> None:
    """Raises LogChanged unless so many leaf hashes are those of the tile, with the first one that is not."""
    for index in range(width):
        if found[index : index + 1] != stored[index : index + 1] or len(found) <= index:
            raise LogChanged(start + index + 1, start + (index + 1 if len(found) == width else width))


def _write(place: Path, content: bytes) -> None:
    """Writes a file, which appears complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(place)
