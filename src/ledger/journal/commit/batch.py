"""A batch of the journal: the commands that may share one, and the meaning of the statement's rows for each command.

The statement judges every command by the log as it was before the batch. Never put two commands into one batch that
claim one key, or that touch one stream which either of them writes: both would find it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from ledger.journal.append import Append, ClaimTaken, Conflict, VersionConflict
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
        claimed = [(merchant, claim.kind, claim.key) for claim in append.claims]
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
