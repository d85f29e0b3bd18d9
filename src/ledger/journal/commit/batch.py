"""A batch of the journal: the commands that may share one, the meaning of the statement's rows for each command, and
what they settle for commands that wait.

The statement judges every command by the log as it was before the batch. Never put two commands into one batch that
claim one key, or that touch one stream which either of them writes: both would find it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from ledger.journal.append import Append, Claim, ClaimTaken, Conflict, StreamWrite, VersionConflict
from ledger.journal.commit import append_statement
from ledger.journal.commit.group_commit import PendingAppend
from ledger.postgres.pipeline import Rows

_REQUEST_IDS_MAX: Final = 20


class Batch:
    """The commands admitted so far, by what they touch. Streams that commands only check may be shared."""

    def __init__(self) -> None:
        self._checked: set[bytes] = set()
        self._written: set[bytes] = set()
        self._claimed: set[tuple[bytes, int, str]] = set()

    def admit(self, append: Append) -> bool:
        """Adds a command and returns True, unless its outcome would depend on a command of this batch."""
        merchant = append.merchant_id
        written = [merchant + stream.stream_id for stream in append.streams if stream.events]
        checked = [merchant + stream.stream_id for stream in append.streams if not stream.events]
        claimed = [_key(merchant, claim) for claim in append.claims]
        is_free = (
            self._written.isdisjoint(written + checked)
            and self._checked.isdisjoint(written)
            and self._claimed.isdisjoint(claimed)
        )
        if is_free:
            self._written.update(written)
            self._checked.update(checked)
            self._claimed.update(claimed)
        return is_free


class Overtaken:
    """The conflicts that commands in the queue will meet, by the results of a batch that they could not join.

    Each batch has room for one command of those that touch the same stream or claim the same key. Without this, a
    hundred clients who name the same new customer wait for a hundred batches, and later commands pass them.
    """

    def __init__(self, commands: Sequence[Append], results: Sequence[int | Conflict]) -> None:
        self._taken: set[tuple[bytes, int, str]] = set()
        self._versions: dict[bytes, int] = {}
        for command, result in zip(commands, results, strict=True):
            if isinstance(result, ClaimTaken):
                self._taken.add(_key(command.merchant_id, result.claim))
            elif isinstance(result, VersionConflict):
                self._note_versions(command, [s for s in command.streams if s.stream_id == result.stream_id.bytes], 1)
            elif not isinstance(result, Conflict):
                self._taken.update(_key(command.merchant_id, claim) for claim in command.claims)
                self._note_versions(command, command.streams)

    def _note_versions(self, command: Append, streams: Sequence[StreamWrite], newer: int = 0) -> None:
        for stream in streams:
            key = command.merchant_id + stream.stream_id
            version = stream.expected + (newer or len(stream.events))
            self._versions[key] = max(version, self._versions.get(key, 0))

    def conflict_of(self, command: Append) -> Conflict | None:
        """Returns the conflict that a command would meet; None if this batch does not settle it."""
        for stream in command.streams:
            if stream.expected < self._versions.get(command.merchant_id + stream.stream_id, 0):
                return VersionConflict(UUID(bytes=stream.stream_id))
        for claim in command.claims:
            if _key(command.merchant_id, claim) in self._taken:
                return ClaimTaken(claim)
        return None


def _key(merchant_id: bytes, claim: Claim) -> tuple[bytes, int, str]:
    return merchant_id, claim.kind, claim.key


def results_of(commands: Sequence[Append], rows: Rows) -> list[int | Conflict]:
    """Returns, by the statement's rows, each command's last position or the conflict that it met."""
    results: dict[int, int | Conflict] = {}
    for c, position, why, which in rows:
        results.setdefault(c, _conflict(commands[c], why, which) if position is None else position)
    return [results[c] for c in range(len(commands))]


def request_ids(batch: Sequence[PendingAppend]) -> list[str]:
    """Returns the ids of the requests that a batch comes from, the first twenty of them, for the log."""
    contexts = [msgspec.json.decode(pending.command.context) for pending in batch[:_REQUEST_IDS_MAX]]
    return [context["request"] for context in contexts if context.get("request")]


def _conflict(append: Append, why: int, which: int) -> Conflict:
    if why == append_statement.LOST_CLAIM:
        return ClaimTaken(append.claims[which])
    if why == append_statement.LOST_STREAM:
        return VersionConflict(UUID(bytes=append.streams[which].stream_id))
    return Conflict("the merchant has no log")
