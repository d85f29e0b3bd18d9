"""Proofs against trees that are hashed by the recursion of RFC 9162, and forgeries of them."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.tlog.merkle import (
    CompactRange,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    subtrees_of,
    verify_consistency,
    verify_inclusion,
)

# The inputs and roots with which implementations of RFC 6962 test themselves, one root for each size from 1.
INPUTS = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657",
                                           "606162636465666768696a6b6c6d6e6f")]  # fmt: skip
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
SIZES = st.integers(1, 300)


def leaves_of(size):
    return [leaf_hash(b"%d" % n) for n in range(size)]


def tree_hash(leaves):
    """MTH of RFC 9162, 2.1.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


def hashes_of(leaves, ranges):
    return [tree_hash(leaves[entries.start : entries.stop]) for entries in ranges]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_published_trees_have_their_roots(size):
    tree = CompactRange()
    for entry in INPUTS[:size]:
        tree.append(leaf_hash(entry))
    assert tree.root().hex() == ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing():
    assert CompactRange().root().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(SIZES, st.data())
def test_every_entry_is_proved(size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    proof = hashes_of(leaves, inclusion_ranges(index, size))
    assert verify_inclusion(leaves[index], index, size, proof, tree_hash(leaves))


@given(SIZES, st.data())
def test_every_beginning_is_proved(new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(1, new))
    proof = hashes_of(leaves, consistency_ranges(old, new))
    assert verify_consistency(old, new, proof, tree_hash(leaves[:old]), tree_hash(leaves))


@given(SIZES, st.data())
def test_an_edge_extends_like_the_tree(size, data):
    leaves = leaves_of(size)
    at = data.draw(st.integers(0, size))
    tree = CompactRange()
    for leaf in leaves[:at]:
        tree.append(leaf)
    stored = CompactRange(tree.size, tree.hashes)
    for leaf in leaves[at:]:
        stored.append(leaf)
    assert stored.root() == tree_hash(leaves)
    assert stored.hashes == hashes_of(leaves, [range(s.number << s.level, s.number + 1 << s.level)
                                               for s in subtrees_of(range(size))])  # fmt: skip


@given(st.integers(0, 40), st.integers(0, 5))
def test_a_subtree_extends_an_edge_like_its_entries(full, level):
    leaves = leaves_of((full << level) + (1 << level))
    one_by_one, at_once = CompactRange(), CompactRange()
    for leaf in leaves:
        one_by_one.append(leaf)
    for leaf in leaves[: full << level]:
        at_once.append(leaf)
    at_once.append_subtree(tree_hash(leaves[full << level :]), level)
    assert (at_once.size, at_once.hashes) == (one_by_one.size, one_by_one.hashes)


def change(data, hashes):
    """A list of hashes with one change: a bit, the order, one more, one less."""
    changed = list(hashes)
    kind = data.draw(st.sampled_from(("bit", "swap", "more", "less", "twice", "short")))
    at = data.draw(st.integers(0, max(0, len(hashes) - 1)))
    if kind == "more" or not hashes:
        changed.insert(at, data.draw(st.binary(min_size=32, max_size=32)))
    elif kind == "less":
        del changed[at]
    elif kind == "twice":
        changed.insert(at, changed[at])
    elif kind == "swap":
        changed[at], changed[-1 - at] = changed[-1 - at], changed[at]
    elif kind == "short":
        changed[at] = changed[at][:-1]
    else:
        bit = data.draw(st.integers(0, 255))
        changed[at] = (int.from_bytes(changed[at], "big") ^ (1 << bit)).to_bytes(32, "big")
    return changed


@given(SIZES, st.data())
def test_no_changed_proof_of_an_entry_is_accepted(size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    proof, root = hashes_of(leaves, inclusion_ranges(index, size)), tree_hash(leaves)
    forged = change(data, proof)
    assert forged == proof or not verify_inclusion(leaves[index], index, size, forged, root)


@given(SIZES, st.data())
def test_no_entry_is_proved_at_another_place_or_in_another_tree(size, data):
    leaves = leaves_of(size)
    index, at = (data.draw(st.integers(0, size - 1)) for _ in range(2))
    proof, root = hashes_of(leaves, inclusion_ranges(index, size)), tree_hash(leaves)
    assert at == index or not verify_inclusion(leaves[index], at, size, proof, root)
    assert at == index or not verify_inclusion(leaves[at], index, size, proof, root)
    assert not verify_inclusion(leaf_hash(b"another"), index, size, proof, root)
    assert not verify_inclusion(leaves[index], index, size, proof, leaf_hash(b"another"))
    assert not verify_inclusion(leaves[index], size, size, proof, root)
    assert not verify_inclusion(leaves[index], -1, size, proof, root)


@given(SIZES, SIZES, st.data())
def test_a_proof_is_accepted_only_for_its_shape_of_tree(size, other, data):
    """The size is bound by the checkpoint's signature. A proof alone shows the shape of its path, not more."""
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, min(size, other) - 1))
    ranges = inclusion_ranges(index, size)
    accepted = verify_inclusion(leaves[index], index, other, hashes_of(leaves, ranges), tree_hash(leaves))
    sides = [entries.start > index for entries in ranges]
    assert accepted == (sides == [entries.start > index for entries in inclusion_ranges(index, other)])


@given(SIZES, st.data())
def test_no_changed_proof_of_a_beginning_is_accepted(new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(1, new))
    proof = hashes_of(leaves, consistency_ranges(old, new))
    old_root, new_root = tree_hash(leaves[:old]), tree_hash(leaves)
    forged = change(data, proof)
    assert forged == proof or not verify_consistency(old, new, forged, old_root, new_root)


@given(st.integers(2, 300), st.data())
def test_a_tree_with_a_changed_entry_continues_no_other(new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(1, new))
    changed_at = data.draw(st.integers(0, old - 1))
    edited = [*leaves[:changed_at], leaf_hash(b"edited"), *leaves[changed_at + 1 :]]
    proof = hashes_of(edited, consistency_ranges(old, new))
    assert not verify_consistency(old, new, proof, tree_hash(leaves[:old]), tree_hash(edited))


def test_the_empty_tree_and_a_smaller_one_are_refused():
    root = tree_hash(leaves_of(3))
    assert not verify_consistency(0, 3, [], hashlib.sha256(b"").digest(), root)
    assert not verify_consistency(4, 3, [], root, root)
    assert not verify_consistency(3, 3, [root], root, root)
    assert not verify_consistency(2, 3, [], root, root)
