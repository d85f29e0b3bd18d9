"""Extends the Merkle trees of merchants' logs behind the writers, and signs a checkpoint of each.

Never sign before the transaction has locked the tree and compared what it has: two checkpoints that contradict each
other cannot be taken back. What was signed before a database was restored is outside of it, so a worker compares with
that first: each group of merchants on each connection, because another one may be to a server whose log is older. A
round seals on the connections with which it began, and on no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.background.periodic import pause, run_periodically
from ledger.postgres.connection import Connection, DatabaseClient
from ledger.postgres.faults import UNAVAILABLE, DatabaseUnavailable
from ledger.postgres.merchant_transactions import Group, MerchantTransactions
from ledger.telemetry.metrics import CHECKPOINT_FILES, LOG_CHANGED, LOG_SEALED, PROCESS
from ledger.tlog.checkpoint_files import CheckpointFiles, CheckpointsUnavailable, SavedCheckpoints
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint, sign_checkpoint
from ledger.tlog.growth import Growth, LogChanged, decode_edge, first_read, grow
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import CompactRange
from ledger.tlog.notes import Malformed, Unverified
from ledger.tlog.reading import read_edge, read_hashes
from ledger.tlog.store import (
    SignedCheckpoint,
    StoredTree,
    Tree,
    begin_trees,
    merchants_with_trees,
    newest_checkpoints,
    read_leaves,
    read_stored,
    restore_tree,
    shorter_trees,
    take_signed_otherwise,
    take_trees,
    thin_checkpoints,
    tree_sizes,
    write_checkpoints,
    write_growth,
)

T = TypeVar("T")

_log = structlog.get_logger()

_TREES_AT_ONCE: Final = 64
_SLICE: Final = 4096
"""How many events of a merchant are hashed at once. The other merchants with new events come before its next slice."""
_EVENTS_AT_ONCE: Final = 16_384
"""How many events one transaction hashes: about a fifth of a second of the database's processor time."""
_KEPT_WHOLE: Final = timedelta(days=7)
"""An auditor compares all checkpoints of so many days, and of the time before the first one of a day."""
_FIRST: Final = UUID(int=0)


class _State(Struct):
    """What is known of the logs of a group of merchants on one connection."""

    is_compared: bool = False
    may_be_shorter: bool = True
    """Whether a tree may be shorter than its newest checkpoint."""
    are_signed_by_keys_of_now: bool = False
    """The newest checkpoints, when they were looked at last."""


class LogSealer(DatabaseClient):
    """One worker's share of the sealing. Workers divide the merchants by the locks of their trees.

    A group of merchants that cannot be reached, as on a node of Citus that is down, keeps no other from being sealed.
    """

    def __init__(self, url: str, keys: LogKeys, files: CheckpointFiles, *, every_s: float) -> None:
        super().__init__(url, "ledger-log-sealing")
        self._transactions = MerchantTransactions(url, "ledger-log-sealing")
        self._keys, self._files, self._every_s = keys, files, every_s
        self._changed: set[UUID] = set()
        self._unwritten: dict[UUID, SignedCheckpoint] = {}
        self._day: date | None = None  # the last one that began with a file of all checkpoints
        self._thinned: date | None = None
        self._states: dict[tuple[Connection, int | None], _State] = {}  # by the keys of groups
        self._of_round: list[Group] | None = None  # that have not failed, while a round lasts
        self._fault: DatabaseUnavailable | None = None  # the first one of a round
        self._is_whole = True  # there is no node that does not answer
        self._known: dict[UUID, SignedCheckpoint] = {}  # the largest one of each log that was signed or read
        self._refused: dict[UUID, SignedCheckpoint] = {}  # what is outside of a log that is older, or another one

    async def __aexit__(self, *exception: object) -> None:
        await self._transactions.stop()
        await super().__aexit__(*exception)

    async def run(self, stop: asyncio.Event) -> None:
        """Seals every `every_s` seconds until `stop` is set; never if that is 0."""
        if self._every_s:
            await run_periodically(
                lambda: self.round(stop, datetime.now(UTC)), stop, pause_s=self._every_s, log_waiting=_log_waiting
            )

    async def round(self, stop: asyncio.Event, now: datetime) -> None:
        """Compares, seals, and writes what was signed outside the database. Raises a Fault of the database, also at its
        end if it has kept the round from some merchants.

        Nothing is written or thinned outside before it was compared with what is there: the first file of a day with
        the sizes of an older database would hide the larger ones of the day before.
        """
        self._of_round, self._fault = list(await self._groups()), None
        try:
            if not self._of_round:
                raise DatabaseUnavailable("no node answers")
            await self.restore()
            await self.compare()
            await self.seal(stop)
            if all(self._state(group).is_compared for group in self._of_round):
                await self.write_checkpoints(now)
                await self.thin(now, stop)
        finally:
            self._of_round = None
        if self._fault is not None:
            raise self._fault
        if not self._is_whole:
            raise DatabaseUnavailable("a node does not answer: the logs on it are sealed later")

    async def _groups(self) -> Sequence[Group]:
        """Returns the groups of this round that have not failed; outside of a round, all that can be reached now."""
        if self._of_round is not None:
            return list(self._of_round)
        async with self._connected() as connection:
            groups, self._is_whole = await self._transactions.groups(connection)
        if any(group.key not in self._states for group in groups):
            # The last commit on the connection before may be done: the next file has all newest checkpoints.
            self._day = None
        self._states = {group.key: self._states.get(group.key) or _State() for group in groups}
        return groups

    def _state(self, group: Group) -> _State:
        return self._states[group.key]

    @asynccontextmanager
    async def _in(self, group: Group) -> AsyncIterator[Connection]:
        """Yields the connection of a group for a transaction. Raises DatabaseUnavailable, also for the block."""
        try:
            async with self._transactions.begin_group(group) as connection:
                yield connection
        except UNAVAILABLE as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault

    async def _tried(self, group: Group, work: Coroutine[Any, Any, T]) -> T | None:
        """Returns what work on a group returns. Returns None if the group cannot be reached, which is left out of the
        rest of the round then. Raises DatabaseUnavailable if there is no other.
        """
        try:
            return await work
        except DatabaseUnavailable as fault:
            if self._of_round is not None and group in self._of_round:
                self._of_round.remove(group)
                self._fault = self._fault or fault
            if not self._of_round:
                raise
            return None

    async def restore(self) -> None:
        """Makes trees again that are gone, or are shorter than their newest checkpoint, once for each connection and
        after each round that has found one. Raises a Fault of the database.

        A tree has the root of that checkpoint then, which the keys of now have signed, so that what it grows to does
        not contradict it. If the tiles and the events have another root, nothing is made.
        """
        for group in await self._groups():
            if self._state(group).may_be_shorter:
                await self._tried(group, self._restore(group))

    async def _restore(self, group: Group) -> None:
        async with self._in(group) as connection:
            shorter = await shorter_trees(connection)
        for merchant_id, head, size, note in shorter:
            async with self._in(group) as connection:
                try:
                    checkpoint = open_checkpoint(note.encode(), self._keys.verifiers(merchant_id))
                    if checkpoint.size != size or size > head:
                        continue
                    edge = await read_edge(connection, merchant_id, size)
                except (Malformed, Unverified, LogChanged):
                    continue
                if edge.root() == checkpoint.root and await restore_tree(connection, merchant_id, edge):
                    _log.warning("log_tree_restored", merchant_id=str(merchant_id), size=size)
        self._state(group).may_be_shorter = False

    def _look_for_shorter(self) -> None:
        """Has the next round look for trees that are shorter than their newest checkpoint."""
        for state in self._states.values():
            state.may_be_shorter = True

    def sample(self) -> None:
        """Sets the metric of the logs that were changed."""
        LOG_CHANGED.labels(PROCESS).set(len(self._changed))

    async def seal(self, stop: asyncio.Event) -> list[SignedCheckpoint]:
        """Seals what the logs hold now, and returns the newest checkpoint that it has signed of each. Raises a Fault.

        It ends before the next transaction once `stop` is set.
        """
        signed: dict[UUID, SignedCheckpoint] = {}
        changed: set[UUID] = set(self._refused)
        groups = await self._groups()
        for group in groups:
            await self._tried(group, self._begin_trees(group))
        # A slice of each merchant, up to the end that its log has then: what is written meanwhile is the next round's.
        behind = self._left(groups)
        while behind and not stop.is_set():
            behind = [
                group for group in behind if await self._tried(group, self._seal_slices(group, stop, signed, changed))
            ]
        for group in self._left(groups):
            if not self._state(group).are_signed_by_keys_of_now:
                await self._tried(group, self._sign_again(group, stop, changed))
        self._changed = changed
        return list(signed.values())

    def _left(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Returns those of these groups that have not failed in this round."""
        return groups if self._of_round is None else [group for group in groups if group in self._of_round]

    async def _begin_trees(self, group: Group) -> None:
        async with self._in(group) as connection:
            await begin_trees(connection)

    async def _seal_slices(
        self, group: Group, stop: asyncio.Event, signed: dict[UUID, SignedCheckpoint], changed: set[UUID]
    ) -> bool:
        """Seals a slice of each merchant of a group. Returns whether the log of one goes on behind it.

        Adds to `signed` the checkpoints, and to `changed` the merchants whose log was changed.
        """
        is_behind, after = False, _FIRST
        while not stop.is_set():
            began = time.monotonic()
            taken = await self._seal_some(group, after, signed, changed)
            if not taken:
                break
            is_behind = is_behind or any(until < tree.head and tree.merchant_id not in changed for tree, until in taken)
            after = taken[-1][0].merchant_id
            await pause(stop, time.monotonic() - began)  # a long past leaves half of the time to the writers
        return is_behind

    async def _seal_some(
        self, group: Group, after: UUID, signed: dict[UUID, SignedCheckpoint], changed: set[UUID]
    ) -> list[tuple[Tree, int]]:
        """Seals a slice of some merchants behind `after`. Returns their trees as they were before, and their new sizes.

        Adds to `signed` their checkpoints, and to `changed` the merchants whose log was changed.
        """
        async with self._in(group) as connection:
            trees = await take_trees(connection, after, _TREES_AT_ONCE)
            taken, checkpoints = await self._write(connection, trees, changed)
        # Noted once it is committed.
        LOG_SEALED.inc(sum(until - tree.size for tree, until in taken if tree.merchant_id not in changed))
        new = {checkpoint.merchant_id: checkpoint for checkpoint in checkpoints}
        signed |= new
        self._known |= new
        self._unwritten |= new
        return taken

    async def _write(
        self, connection: Connection, trees: Sequence[Tree], changed: set[UUID]
    ) -> tuple[list[tuple[Tree, int]], list[SignedCheckpoint]]:
        """Lets locked trees grow by a slice and signs them. Returns them with their new sizes, and the checkpoints."""
        taken = _slices(trees)
        grown = await self._grow(connection, taken, changed) if taken else []
        checkpoints = [self._sign(merchant_id, growth.edge) for merchant_id, growth in grown]
        if grown:
            await write_growth(connection, grown)
            await write_checkpoints(connection, checkpoints)
        return taken, checkpoints

    async def _grow(
        self, connection: Connection, taken: Sequence[tuple[Tree, int]], changed: set[UUID]
    ) -> list[tuple[UUID, Growth]]:
        """Returns the grown trees, without those whose log was changed, and adds these to `changed`."""
        taken = [(tree, until) for tree, until in taken if self._continues(tree, changed)]
        if not taken:
            return []
        stretches = [(tree.merchant_id, first_read(tree.size, until), until) for tree, until in taken]
        leaves = await read_leaves(connection, stretches)
        stored = await read_stored(connection, [tree for tree, _ in taken])
        grown = []
        for each, (tree, until), found in zip(stored, taken, leaves, strict=True):
            try:
                edge = await self._edge(connection, each)
                grown.append((tree.merchant_id, grow(edge, until, found)))
            except LogChanged as change:
                _note_changed(tree.merchant_id, change, changed)
        return grown

    async def _edge(self, connection: Connection, stored: StoredTree) -> CompactRange:
        """Returns the edge of a tree, which has the root that its newest checkpoint has: this worker's own, or the
        stored one.

        Where none of the keys of now has signed it, the edge is compared with the tiles and the events behind them.
        Raises LogChanged, also if the tree was longer before.
        """
        tree = stored.tree
        if stored.was_longer:
            self._look_for_shorter()
            raise LogChanged(tree.size + 1, max(tree.size + 1, tree.head))
        edge = decode_edge(tree.size, tree.edge)
        known = self._known.get(tree.merchant_id)
        root = self._root_in(tree, None if known is None else known.note) or self._root_in(tree, stored.note)
        if root is None and tree.size:
            (root,) = await read_hashes(connection, tree.merchant_id, [range(tree.size)], tree.size)
        if tree.size and edge.root() != root:
            raise LogChanged(1, tree.size)
        return edge

    def _root_in(self, tree: Tree, note: str | None) -> bytes | None:
        """Returns the root of a checkpoint of a tree, None if it is of another size, or signed by no key of now."""
        if note is None:
            return None
        try:
            checkpoint = open_checkpoint(note.encode(), self._keys.verifiers(tree.merchant_id))
        except (Malformed, Unverified):
            return None
        return checkpoint.root if checkpoint.size == tree.size else None

    def _continues(self, tree: Tree, changed: set[UUID]) -> bool:
        """Returns whether a tree may grow; if not, adds its merchant to `changed`."""
        signed = self._known.get(tree.merchant_id)
        if signed is not None and tree.size < signed.size and tree.merchant_id not in self._refused:
            _log_refused(tree.merchant_id, tree.size, signed.size)  # the connection may be to another server now
            self._look_for_shorter()
            changed.add(tree.merchant_id)
        return tree.merchant_id not in changed

    async def compare(self) -> None:
        """Compares the trees with the newest checkpoints outside the database, once for each connection, those to nodes
        of Citus among them, and for each shard that has come to a node: while their store does not answer, it is tried
        again. A tree that is smaller, or another one, gets no further checkpoint. Raises a Fault of the database.
        """
        groups = [group for group in await self._groups() if not self._state(group).is_compared]
        if not groups:
            return
        try:
            saved = await self._files.saved(date.max)
        except CheckpointsUnavailable as fault:
            CHECKPOINT_FILES.labels("failed").inc()
            _log.warning("checkpoints_not_compared", reason=str(fault))
            return
        outside = self._learn(saved)
        for group in groups:
            await self._tried(group, self._compare(group, {id_: outside[id_] for id_ in outside if group.has(id_)}))

    async def _compare(self, group: Group, outside: Mapping[UUID, tuple[SignedCheckpoint, bytes]]) -> None:
        """Compares the trees of a group with the newest checkpoints outside of its merchants, each with its root."""
        refused: dict[UUID, SignedCheckpoint] = {}
        async with self._in(group) as connection:
            sizes = await tree_sizes(connection)
        left = iter(outside.items())
        while some := list(islice(left, _TREES_AT_ONCE)):
            async with self._in(group) as connection:
                for merchant_id, (signed, root) in some:
                    size = sizes.get(merchant_id, 0)  # the database may be one of before the merchant
                    if not await _has_root(connection, merchant_id, size, signed.size, root):
                        refused[merchant_id] = signed
                        _log_refused(merchant_id, size, signed.size)
        self._refused = {id_: each for id_, each in self._refused.items() if not group.has(id_)} | refused
        self._state(group).is_compared = True

    def _learn(self, saved: SavedCheckpoints) -> dict[UUID, tuple[SignedCheckpoint, bytes]]:
        """Notes the newest checkpoints of what is saved outside, and returns them with their roots, by merchant."""
        outside: dict[UUID, tuple[SignedCheckpoint, bytes]] = {}
        for merchant_id, some in saved.found.items():
            if (newest := self._newest(merchant_id, some)) is not None:
                outside[merchant_id] = newest
                self._known[merchant_id] = _larger(newest[0], self._known.get(merchant_id))
        return outside

    def _newest(
        self, merchant_id: UUID, saved: Sequence[tuple[str, int, str]]
    ) -> tuple[SignedCheckpoint, bytes] | None:
        """Returns the largest of a merchant's checkpoints that the keys of now have signed for its log, with its root.

        A checkpoint under another origin is of another log.
        """
        verifiers = self._keys.verifiers(merchant_id)
        for _, size, note in sorted(saved, key=lambda each: each[1], reverse=True):
            try:
                checkpoint = open_checkpoint(note.encode(), verifiers)
            except (Malformed, Unverified):
                continue
            if checkpoint.size == size:
                return SignedCheckpoint(merchant_id, size, note, self._keys.signed_by), checkpoint.root
        return None

    async def thin(self, now: datetime, stop: asyncio.Event) -> None:
        """Removes, once a day, checkpoints older than a week in the database and in a folder outside of it, without the
        first one of each day and the newest: once all nodes answer. Raises a Fault of the database.
        """
        groups = await self._groups()
        if self._thinned == now.date() or not self._is_whole:
            return
        before = datetime.combine(now.date() - _KEPT_WHOLE, time_of_day.min, UTC)
        for group in groups:
            async with self._in(group) as connection:
                merchants = await merchants_with_trees(connection)
            for merchant_id in merchants:
                if stop.is_set():
                    return
                async with self._in(group) as connection:
                    await thin_checkpoints(connection, merchant_id, before)
                await asyncio.sleep(0)
        try:
            await self._files.thin(before.date())
        except CheckpointsUnavailable as fault:
            _log.warning("checkpoints_not_thinned", reason=str(fault))
        self._thinned = now.date()

    async def write_checkpoints(self, now: datetime) -> None:
        """Writes the checkpoints signed since the last file outside the database: the first time of a day, the
        newest of every merchant. What cannot be written now is written the next time. Raises a Fault of the database.
        """
        groups = await self._groups()
        begins_day, newest = self._day != now.date(), dict[UUID, SignedCheckpoint]()
        for group in groups if begins_day else ():
            # A worker with the keys of before may have run meanwhile.
            self._state(group).are_signed_by_keys_of_now = False
            async with self._in(group) as connection:
                newest |= {each.merchant_id: each for each in await newest_checkpoints(connection)}
        try:
            if begins_day:
                if not self._is_whole or self._fault is not None:
                    self._learn(await self._files.saved(date.max))  # of those who cannot be read, also by other workers
                known = {id_: _larger(each, newest.get(id_)) for id_, each in self._known.items()}
                # So that the newest file has what is newest of each log.
                self._unwritten = newest | known | self._refused
            if not self._unwritten:
                return
            await self._files.write(self._unwritten.values(), now)
        except CheckpointsUnavailable as fault:
            CHECKPOINT_FILES.labels("failed").inc()
            _log.warning("checkpoints_not_written", reason=str(fault))
            return
        CHECKPOINT_FILES.labels("written").inc()
        self._unwritten, self._day = {}, now.date()

    async def _sign_again(self, group: Group, stop: asyncio.Event, changed: set[UUID]) -> None:
        """Signs the newest checkpoints of a group again that other keys have signed than those of now: a key was
        replaced.

        Without those of the merchants in `changed`, and of logs that were changed, whose merchants it adds to them:
        each round looks at them again. Where there are none, the next look is that of the next connection or day.
        """
        after, are_signed = _FIRST, True
        while not stop.is_set():
            async with self._in(group) as connection:
                trees = await take_signed_otherwise(connection, after, self._keys.signed_by, _TREES_AT_ONCE)
                signed = await self._write_again(connection, trees, changed)
            if not trees:
                self._state(group).are_signed_by_keys_of_now = are_signed
                return
            are_signed = are_signed and signed == len(trees)
            after = trees[-1].merchant_id

    async def _write_again(self, connection: Connection, trees: Sequence[Tree], changed: set[UUID]) -> int:
        """Signs the newest checkpoints of locked trees again. Returns how many it has signed."""
        signed = []
        for each in await read_stored(connection, trees) if trees else ():
            merchant_id = each.tree.merchant_id
            if merchant_id in changed:
                continue
            try:
                signed.append(self._sign(merchant_id, await self._edge(connection, each)))
            except LogChanged as change:
                _note_changed(merchant_id, change, changed)
        if signed:
            await write_checkpoints(connection, signed, again=True)
        return len(signed)

    def _sign(self, merchant_id: UUID, edge: CompactRange) -> SignedCheckpoint:
        checkpoint = Checkpoint(self._keys.origin(merchant_id), edge.size, edge.root())
        note = sign_checkpoint(checkpoint, self._keys.signers(merchant_id))
        return SignedCheckpoint(merchant_id, edge.size, note, self._keys.signed_by)


async def _has_root(connection: Connection, merchant_id: UUID, size: int, signed: int, root: bytes) -> bool:
    """Returns whether the tree of a log, which has so many entries, had this root when it had `signed` entries."""
    if size < signed:
        return False
    try:
        (found,) = await read_hashes(connection, merchant_id, [range(signed)], signed)
    except LogChanged:
        return False
    return found == root


def _larger(one: SignedCheckpoint, other: SignedCheckpoint | None) -> SignedCheckpoint:
    """Returns the checkpoint of more entries; the other one of two of the same size."""
    return one if other is None or one.size > other.size else other


def _note_changed(merchant_id: UUID, change: LogChanged, changed: set[UUID]) -> None:
    """Reports that a log was changed, and adds its merchant to `changed`."""
    changed.add(merchant_id)
    _log.error("log_changed", merchant_id=str(merchant_id), first=change.first, last=change.last)


def _log_refused(merchant_id: UUID, size: int, signed: int) -> None:
    _log.error("log_contradicts_checkpoint", merchant_id=str(merchant_id), size=size, signed=signed)


def _slices(trees: Sequence[Tree]) -> list[tuple[Tree, int]]:
    """Returns up to which size each tree grows in one transaction: as many as fit into it, at least one."""
    taken: list[tuple[Tree, int]] = []
    left = _EVENTS_AT_ONCE
    for tree in trees:
        until = min(tree.head, tree.size // _SLICE * _SLICE + _SLICE)
        left -= until - first_read(tree.size, until)
        if taken and left < 0:
            break
        taken.append((tree, until))
    return taken


def _log_waiting(reason: str) -> None:
    _log.warning("log_sealing_waits", reason=reason)
