"""The audit of a log's tree: the events against the tiles, the tiles against the checkpoints, and these against those
that were written outside the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.audit.leaves import LeafFile
from ledger.audit.report import ROW, TREE, Sealed, Violation
from ledger.audit.snapshot import Connection, MerchantRows
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint
from ledger.tlog.growth import encode_edge
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import HASH_BYTES, CompactRange
from ledger.tlog.notes import Malformed, Unverified, Verifier
from ledger.tlog.tiles import HEIGHT, LEVELS, WIDTH, split_hashes, tile_root

_TREES: Final = """
select merchant_id, size, edge from log_tree where merchant_id between %s and %s order by merchant_id
"""
_TILES: Final = """
select merchant_id, level, number, hashes, root from log_tile where merchant_id between %s and %s
 order by merchant_id, level, number
"""
_CHECKPOINTS: Final = """
select merchant_id, size, note, signed_by from log_checkpoint where merchant_id between %s and %s order by merchant_id, size
"""
_TILES_AT_ONCE: Final = 64


class StoredTree(Struct, frozen=True):
    """How far a merchant's log is sealed, and the hashes of the right edge of its tree."""

    merchant_id: UUID
    size: int
    edge: bytes


def read_trees(connection: Connection, first: UUID, last: UUID) -> dict[UUID, StoredTree]:
    """Returns the trees of the merchants in a range, as they are stored."""
    rows = connection.execute(_TREES, (first, last), binary=True)
    return {merchant_id: StoredTree(merchant_id, size, edge) for merchant_id, size, edge in rows}


class TreeAuditor:
    """Audits the trees of the merchants in a range, in their order. The leaf hashes of their logs are in `leaves`.
    `written` are the checkpoints outside the database, by merchant, with the name of each one's file.
    """

    def __init__(
        self,
        connection: Connection,
        leaves: LeafFile,
        keys: LogKeys,
        written: Mapping[UUID, Sequence[tuple[str, str]]],
        first: UUID,
        last: UUID,
    ) -> None:
        self._leaves, self._keys, self._written = leaves, keys, written
        self.tiles = MerchantRows(connection, _TILES, first, last, _TILES_AT_ONCE)
        self.checkpoints = MerchantRows(connection, _CHECKPOINTS, first, last)
        self._roots: dict[int, bytes] = {}
        """The roots of the merchant's tiles of level 0, by number."""

    def audit(self, merchant_id: UUID, size: int, stored: StoredTree | None) -> tuple[Sealed, list[Violation]]:
        """Returns how far a log is sealed, and what is wrong with it.

        `size` is how many leaf hashes the file has: those of all events that a tree or a checkpoint may have.
        """
        verifiers = self._keys.verifiers(merchant_id)
        self._roots = {}
        found = list(self._tiles(merchant_id, 0 if stored is None else max(0, min(stored.size, size))))
        claims = [*self._stored_checkpoints(merchant_id, verifiers, found)]
        newest = claims[-1] if claims else None
        written = [*self._written_checkpoints(merchant_id, verifiers, found)]
        claims += written
        found += self._compare(merchant_id, size, stored, [(checkpoint, where) for checkpoint, where, _ in claims])
        note = None if newest is None else newest[2]
        if stored is not None and stored.size and (newest is None or newest[0].size != stored.size):
            at = "none" if newest is None else f"the newest is of {newest[0].size}"
            what = f"the tree has {stored.size} entries without a checkpoint under the name {verifiers[0].name}: {at}"
            found.append(_violation(merchant_id, what))
        signed_to = 0 if newest is None else newest[0].size
        keys = [str(verifier) for verifier in verifiers]
        sealed = Sealed(merchant_id=merchant_id, size=signed_to, checkpoint=note, keys=keys, outside=len(written))
        return sealed, found

    def _tiles(self, merchant_id: UUID, size: int) -> Iterator[Violation]:
        """Compares every stored tile with the events, or with the tiles below it."""
        full = [size >> HEIGHT * (level + 1) for level in range(LEVELS)]
        roots: list[dict[int, bytes]] = [{} for _ in full]
        after = [0 for _ in full]
        for level, number, hashes, root in self.tiles.of(merchant_id):
            if not (0 <= level < LEVELS and 0 <= number < full[level]):
                what = f"tile {level}/{number} is beyond the tree of {size} entries"
                yield _violation(merchant_id, what)
                continue
            yield from _missing_tiles(merchant_id, level, after[level], number)
            after[level], roots[level][number] = number + 1, root
            computed = tile_root(hashes)
            if level == 0:
                yield from self._other_leaves(merchant_id, number, hashes)
                if root == computed and len(hashes) == WIDTH * HASH_BYTES:
                    self._roots[number] = root
            elif hashes != b"".join(roots[level - 1].get(n, b"") for n in range(number * WIDTH, (number + 1) * WIDTH)):
                yield _violation(merchant_id, f"tile {level}/{number} has not the roots of the tiles below it")
            if root != computed:
                yield _violation(merchant_id, f"the root of tile {level}/{number} is not that of its hashes")
        for level, end in enumerate(full):
            yield from _missing_tiles(merchant_id, level, after[level], end)

    def _other_leaves(self, merchant_id: UUID, number: int, tile: bytes) -> Iterator[Violation]:
        """Yields the events whose hashes are not those of their tile, by position. The tile's are in their place then:
        where a checkpoint contradicts them too, more was changed than these events.
        """
        first = number * WIDTH
        events = self._leaves.read(merchant_id.bytes, first, first + WIDTH)
        if events == tile:
            return
        wanted = split_hashes(tile)
        for index, leaf in enumerate(split_hashes(events)):
            if index >= len(wanted) or leaf != wanted[index]:
                position = first + index + 1
                is_there = leaf != bytes(HASH_BYTES)
                what = "is not the one that was sealed" if is_there else "was removed after it was sealed"
                yield _violation(merchant_id, f"the event at position {position} {what}", position)
        if len(tile) == len(events):
            self._leaves.replace(merchant_id.bytes, first, tile)

    def _stored_checkpoints(
        self, merchant_id: UUID, verifiers: Sequence[Verifier], found: list[Violation]
    ) -> Iterator[tuple[Checkpoint, str, str]]:
        for size, note, signed_by in self.checkpoints.of(merchant_id):
            where = f"checkpoint of {size} entries"
            checkpoint = _opened(merchant_id, note, verifiers, where, found)
            if checkpoint is None:
                continue
            if checkpoint.size != size:
                found.append(_violation(merchant_id, f"the {where} is one of {checkpoint.size}"))
                continue
            named = self._keys.signers_named_by(merchant_id, note)
            if named is not None and signed_by != named.encode():
                found.append(_other_signers(merchant_id, where, named, signed_by.decode(errors="replace")))
            yield checkpoint, where, note.decode()

    def _written_checkpoints(
        self, merchant_id: UUID, verifiers: Sequence[Verifier], found: list[Violation]
    ) -> Iterator[tuple[Checkpoint, str, str]]:
        for file, note in self._written.get(merchant_id, ()):
            where = f"checkpoint in the file {file}"
            checkpoint = _opened(merchant_id, note.encode(), verifiers, where, found)
            if checkpoint is not None:
                yield checkpoint, where, note

    def _compare(
        self, merchant_id: UUID, size: int, stored: StoredTree | None, claims: Sequence[tuple[Checkpoint, str]]
    ) -> Iterator[Violation]:
        """Compares checkpoints, and the edge of the tree, with the tree of the tiles and of the events behind them. The
        size of the last checkpoint that agrees and that of the first one that does not limit the positions that were
        changed.
        """
        tree, agreed = CompactRange(), 0
        is_reported = False
        ends = sorted({*(checkpoint.size for checkpoint, _ in claims), 0 if stored is None else stored.size})
        by_size: dict[int, list[tuple[Checkpoint, str]]] = {}
        for checkpoint, where in claims:
            by_size.setdefault(checkpoint.size, []).append((checkpoint, where))
        for end in ends:
            if end > size:
                for _, where in by_size.get(end, [])[:1]:
                    what = f"an event of the positions {agreed + 1} to {end} was removed"
                    what = f"the {where} has {end} entries, and the log ends at position {size}: {what}"
                    yield _violation(merchant_id, what, size + 1)
                continue
            self._grow(tree, merchant_id, end)
            others = [where for checkpoint, where in by_size.get(end, ()) if checkpoint.root != tree.root()]
            if others and not is_reported:  # every later one has another root too
                is_reported = True
                what = f"the {others[0]} has another root: an event of the positions {agreed + 1} to {end} was changed"
                yield _violation(merchant_id, what, end if end == agreed + 1 else None)
            elif not others:
                agreed = end
            if stored is not None and end == stored.size and stored.edge != encode_edge(tree) and not others:
                yield _violation(merchant_id, f"the right edge of the tree of {end} entries is not that of its events")

    def _grow(self, tree: CompactRange, merchant_id: UUID, end: int) -> None:
        """Adds the leaf hashes of the events up to index `end`."""
        while tree.size < end:
            start = tree.size
            until = min(end, (start // WIDTH + 1) * WIDTH)
            root = self._roots.get(start // WIDTH) if until - start == WIDTH else None
            if root is not None:
                tree.append_subtree(root, HEIGHT)
                continue
            for leaf in split_hashes(self._leaves.read(merchant_id.bytes, start, until)):
                tree.append(leaf)


def _opened(
    merchant_id: UUID, note: bytes, verifiers: Sequence[Verifier], where: str, found: list[Violation]
) -> Checkpoint | None:
    if _is_of_another_log(merchant_id, note, verifiers):
        return None
    try:
        return open_checkpoint(note, verifiers)
    except (Malformed, Unverified) as forged:
        found.append(_violation(merchant_id, f"the {where} is not signed by the log's keys: {forged}"))
        return None


def _is_of_another_log(merchant_id: UUID, note: bytes, verifiers: Sequence[Verifier]) -> bool:
    """Returns whether a checkpoint was signed under an earlier name of the merchant's log, which LEDGER_LOG_ORIGIN had.

    It claims nothing of the log that has the name of now. A row or a file that was given another name is as one that
    was removed: the newest checkpoint must have the name of now in any case.
    """
    origin = note.partition(b"\n")[0].decode(errors="replace")
    return origin.endswith(f"/{merchant_id}") and all(verifier.name != origin for verifier in verifiers)


def removed_logs(
    keys: LogKeys, written: Mapping[UUID, Sequence[tuple[str, str]]], heads: Mapping[UUID, int]
) -> Iterator[Violation]:
    """Yields the logs of which a checkpoint is outside the database, signed by the keys, and that are not there at all:
    those of no merchant that has a head.
    """
    for merchant_id in sorted(written.keys() - heads.keys()):
        signed = [
            (checkpoint.size, file)
            for file, note in written[merchant_id]
            if (checkpoint := _opened(merchant_id, note.encode(), keys.verifiers(merchant_id), "", [])) is not None
        ]
        if signed:
            size, file = max(signed)
            what = f"all events of the positions 1 to {size} were removed"
            what = f"the checkpoint in the file {file} has {size} entries, and there is no such merchant: {what}"
            yield _violation(merchant_id, what, 1)


def _missing_tiles(merchant_id: UUID, level: int, first: int, end: int) -> Iterator[Violation]:
    """Yields that the tiles of a level from number `first` to before `end` are missing, if there are any."""
    if end - first == 1:
        yield _violation(merchant_id, f"tile {level}/{first} is missing")
    elif first < end:
        yield _violation(merchant_id, f"the tiles {level}/{first} to {level}/{end - 1} are missing")


def _other_signers(merchant_id: UUID, where: str, expected: str, found: str) -> Violation:
    return Violation(
        invariant=ROW,
        merchant_id=merchant_id,
        message=f"signed_by of the {where} does not name the keys that signed it",
        table="log_checkpoint",
        column="signed_by",
        expected=expected,
        found=found,
    )


def _violation(merchant_id: UUID, message: str, position: int | None = None) -> Violation:
    return Violation(invariant=TREE, merchant_id=merchant_id, message=message, position=position)
