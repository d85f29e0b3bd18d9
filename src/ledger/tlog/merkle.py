"""The hashes of a Merkle tree over a list of entries, and proofs about them (RFC 9162, section 2.1).

A part of the tree is a range of entries. In every range of a proof, the start is a multiple of a power of two that is
at least the length, so that the range has one hash in each tree that contains it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""The root of the tree without entries."""


class Subtree(NamedTuple):
    """The complete subtree over the entries from `number << level` to before `(number + 1) << level`."""

    level: int
    number: int


def leaf_hash(entry: bytes) -> bytes:
    """Returns the hash of an entry."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the hash of a node from those of its two children."""
    return hashlib.sha256(b"\1" + left + right).digest()


def subtrees_of(entries: range) -> Iterator[Subtree]:
    """Yields the complete subtrees that a range of a proof consists of, from left to right and from large to small."""
    start, left = entries.start, len(entries)
    while left:
        level = left.bit_length() - 1
        yield Subtree(level, start >> level)
        start += 1 << level
        left -= 1 << level


def join_hashes(hashes: Sequence[bytes]) -> bytes:
    """Returns the hash of a range from those of its subtrees, in the order of `subtrees_of`."""
    *others, joined = hashes
    for left in reversed(others):
        joined = node_hash(left, joined)
    return joined


class CompactRange:
    """The right edge of a tree: the hashes of the subtrees of all its entries, at most 63, which an entry extends.

    `hashes` has one for each bit of `size`, the largest subtree first.
    """

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size, self.hashes = size, list(hashes)
        assert len(self.hashes) == size.bit_count(), "one hash for each bit of the size"

    def append(self, leaf: bytes) -> None:
        """Adds an entry by its leaf hash."""
        self._add(leaf, 0)

    def append_subtree(self, root: bytes, level: int) -> None:
        """Adds `1 << level` entries by the root of their subtree. The size must be a multiple of their number."""
        assert self.size & ((1 << level) - 1) == 0, "the subtree would begin within another one"
        self._add(root, level)

    def _add(self, root: bytes, level: int) -> None:
        carried = self.size >> level
        while carried & 1:
            root = node_hash(self.hashes.pop(), root)
            carried >>= 1
        self.hashes.append(root)
        self.size += 1 << level

    def root(self) -> bytes:
        """Returns the root of the tree."""
        return join_hashes(self.hashes) if self.hashes else EMPTY_ROOT


def inclusion_ranges(index: int, size: int) -> list[range]:
    """Returns the ranges whose hashes prove that entry `index` is in the tree of this size, from the leaf to the root.

    The index must be below the size.
    """
    assert 0 <= index < size, "the entry is in the tree"
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + _left_part(end - start)
        if index < middle:
            path.append(range(middle, end))
            end = middle
        else:
            path.append(range(start, middle))
            start = middle
    return path[::-1]


def consistency_ranges(old: int, new: int) -> list[range]:
    """Returns the ranges whose hashes prove that the tree of `old` entries is the beginning of that of `new` entries.

    None for equal sizes. `old` must be at least 1 and at most `new`.
    """
    assert 1 <= old <= new, "the older tree has an entry and is not the larger one"
    path, start, end = [], 0, new
    while old != end:
        middle = start + _left_part(end - start)
        if old <= middle:
            path.append(range(middle, end))
            end = middle
        else:
            path.append(range(start, middle))
            start = middle
    if start:  # otherwise the hash is the root of the old tree, which the verifier has
        path.append(range(start, end))
    return path[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Returns whether a proof shows that the tree of this size and root has this leaf hash at `index` (2.1.3.2)."""
    if not 0 <= index < size or not _are_hashes([leaf, root, *proof]):
        return False
    node, last, computed = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed = node_hash(computed, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> bool:
    """Returns whether a proof shows that the old tree, of at least one entry, begins the new one (2.1.4.2)."""
    if not 1 <= old <= new or not _are_hashes([old_root, new_root, *proof]):
        return False
    if old == new:
        return not proof and old_root == new_root
    if not proof:
        return False
    hashes = [old_root, *proof] if old & (old - 1) == 0 else proof
    node, last = old - 1, new - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    computed_old = computed_new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed_old, computed_new = node_hash(sibling, computed_old), node_hash(sibling, computed_new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed_new = node_hash(computed_new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed_old == old_root and computed_new == new_root


def _left_part(length: int) -> int:
    """Returns the largest power of two below a length of at least 2: how many entries the left child has."""
    return 1 << ((length - 1).bit_length() - 1)


def _are_hashes(values: Iterable[bytes]) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
