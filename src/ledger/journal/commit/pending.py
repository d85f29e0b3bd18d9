"""Commands that wait for the writer, each with the future of whoever submitted it.

The rule a stranger would break: every future is told exactly once, and one that nobody waits for any more is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from ledger.journal.append import Append, ClaimTaken, Conflict, VersionConflict
from ledger.journal.commit import statement

PendingCommand = tuple[Append, "asyncio.Future[int]", float]
"""A command, its future, and when it was submitted by the monotonic clock."""

_SHOWN_MAX: Final = 20


def resolve_batch(batch: Sequence[PendingCommand], rows: Sequence[tuple[Any, ...]]) -> int:
    """Tell each command of a batch what the statement said of it; how many met a conflict."""
    verdicts: dict[int, int | Conflict] = {}
    for c, position, why, which in rows:
        verdicts.setdefault(c, _conflict(batch[c][0], why, which) if position is None else position)
    for c, (_, future, _) in enumerate(batch):
        if future.done():
            continue
        verdict = verdicts[c]
        if isinstance(verdict, Conflict):
            future.set_exception(verdict)
        else:
            future.set_result(verdict)
    return sum(isinstance(verdict, Conflict) for verdict in verdicts.values())


def reject_batch(
    batch: Iterable[PendingCommand], fault: type[Exception], message: str, cause: Exception | None = None
) -> None:
    """Tell each command that nothing of it was written."""
    for _, future, _ in batch:
        if not future.done():
            exception = fault(message)
            exception.__cause__ = cause
            future.set_exception(exception)


def request_ids(batch: Sequence[PendingCommand]) -> list[str]:
    """The ids of the requests that a batch comes from, the first few of them: for the log."""
    contexts = [msgspec.json.decode(append.context) for append, _, _ in batch[:_SHOWN_MAX]]
    return [context["request"] for context in contexts if context.get("request")]


def _conflict(append: Append, why: int, which: int) -> Conflict:
    if why == statement.LOST_CLAIM:
        return ClaimTaken(append.claims[which])
    if why == statement.LOST_STREAM:
        return VersionConflict(UUID(bytes=append.streams[which].stream_id))
    return Conflict("the merchant has no log")
