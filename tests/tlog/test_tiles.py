"""Tiles and their paths, by the examples of tlog-tiles, and the hashes of ranges that follow from tiles."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tlog.test_merkle import leaves_of, tree_hash

from ledger.tlog.merkle import CompactRange, consistency_ranges, inclusion_ranges, leaf_hash
from ledger.tlog.tiles import (
    Tile,
    bundles_in,
    decode_bundle,
    encode_bundle,
    parse_tile_path,
    range_hash,
    split_hashes,
    tile_path,
    tile_root,
    tiles_in,
    tiles_of,
    width_in,
)

TILES = st.builds(
    Tile,
    st.one_of(st.just("entries"), st.integers(0, 63)),
    st.integers(0, 10**20),
    st.integers(1, 256),
)


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 1234067), "0/x001/x234/067"),
        (Tile(0, 0), "0/000"),
        (Tile(1, 999, 17), "1/999.p/17"),
        (Tile("entries", 1000, 255), "entries/x001/000.p/255"),
        (Tile(63, 7), "63/007"),
    ],
)
def test_a_tile_has_its_path(tile, path):
    assert tile_path(tile) == path
    assert parse_tile_path(path) == tile


@given(TILES)
def test_every_path_leads_back_to_its_tile(tile):
    assert parse_tile_path(tile_path(tile)) == tile


@pytest.mark.parametrize(
    "path",
    ["", "0", "0/", "0/1", "0/0001", "0/x000/001", "00/000", "64/000", "-1/000", "0/x01/000", "0/000.p/0", "0/000.p/256",
     "0/000.p/01", "0/000.p/", "0/000/", "entries", "entry/000", "0/٠٠٠", "0/x001", "0/001/x000", "0/000.p/5/", "100/000"],
)  # fmt: skip
def test_another_spelling_is_no_path(path):
    assert parse_tile_path(path) is None


@given(st.text(alphabet="0123456789x/.pentris", max_size=30))
def test_a_text_that_is_a_path_is_the_path_of_its_tile(text):
    tile = parse_tile_path(text)
    assert tile is None or tile_path(tile) == text


def test_a_tree_of_seventy_thousand_has_the_tiles_of_the_specification():
    tiles = list(tiles_in(70_000))
    assert [tile for tile in tiles if tile.width < 256] == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert sum(tile.level == 0 and tile.width == 256 for tile in tiles) == 273
    assert sum(tile.level == 1 and tile.width == 256 for tile in tiles) == 1
    assert len(tiles) == 277
    assert sum(tile.width for tile in bundles_in(70_000)) == 70_000


def test_a_tree_of_one_tile_has_its_root_above():
    assert list(tiles_in(256)) == [Tile(0, 0, 256), Tile(1, 0, 1)]
    assert list(tiles_in(0)) == list(bundles_in(0)) == []


@pytest.mark.parametrize(("size", "width"), [(0, 0), (256, 0), (257, 1), (511, 255), (512, 256), (10_000, 256)])
def test_a_tile_is_as_wide_as_the_tree_fills_it(size, width):
    assert width_in(0, 1, size) == width_in("entries", 1, size) == width_in(1, 1, size << 8) == width


@settings(deadline=None, max_examples=30)  # the other way hashes up to 70,000 entries
@given(st.integers(1, 70_000), st.data())
def test_proofs_follow_from_tiles(size, data):
    """They are those that follow from the entries, and no other tile is read."""
    leaves = LEAVES[:size]

    def read(level, number):
        reads.add((level, number))
        return b"".join(_hashes_at(level)[number * 256 : (number * 256) + width_in(level, number, size)])

    reads = set()
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    ranges = [*inclusion_ranges(index, size), *consistency_ranges(old, size)]
    assert [range_hash(entries, read) for entries in ranges] == [_root(leaves[e.start : e.stop]) for e in ranges]
    assert reads == tiles_of(ranges)


LEAVES = leaves_of(70_000)
_LEVELS = {0: LEAVES}


def _hashes_at(level):
    if level not in _LEVELS:
        below = _hashes_at(level - 1)
        _LEVELS[level] = [_root(below[at : at + 256]) for at in range(0, len(below) // 256 * 256, 256)]
    return _LEVELS[level]


def _root(leaves):
    tree = CompactRange()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()


@given(st.integers(1, 256))
def test_the_root_of_a_tile_is_that_of_its_hashes(width):
    leaves = leaves_of(width)
    assert tile_root(b"".join(leaves)) == tree_hash(leaves)
    assert split_hashes(b"".join(leaves)) == leaves


@given(st.lists(st.binary(max_size=600), max_size=256))
def test_a_bundle_has_its_entries(entries):
    bundle = encode_bundle(entries)
    assert decode_bundle(bundle) == entries
    if bundle:
        with pytest.raises(ValueError, match="ends behind"):
            decode_bundle(bundle[:-1])


def test_an_entry_begins_with_its_length():
    assert encode_bundle([b"ab", b"x" * 65_535])[:6] == b"\0\2ab\xff\xff"
    assert leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
