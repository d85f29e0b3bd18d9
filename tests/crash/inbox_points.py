"""Kills a worker while it applies messages of processors: before, between and after its three commits.

The product has no hooks: these functions wrap it in the process that is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ledger.domain.orders.events import DepositReceived, RefundRequested
from ledger.journal.journal import Journal
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import DepositReceived as DepositMessage

INBOX_POINTS: Final = ("claimed", "before-taken", "taken", "before-extra", "extra-asked", "marked")
"""After messages were claimed and before one is tried, before the order's commit of a deposit, after it and before the
message is marked, before the intent to refund what was paid too much, after that and before the call, after the mark
of the deposit and before the next message. Messages of other orders are applied side by side with it.
"""


def arm(point: str, die: Callable[[], NoReturn]) -> None:
    """Makes this process die at a point."""
    claim, handled, commit = Inbox.claim, Inbox.handled, Journal.commit

    async def deadly_claim(inbox: Inbox, limit: int = 100, **named: Any) -> Any:
        claimed = await claim(inbox, limit, **named)
        if claimed and point == "claimed":
            die()
        return claimed

    async def deadly_handled(inbox: Inbox, message: Any) -> None:
        await handled(inbox, message)
        if point == "marked" and isinstance(message, DepositMessage):
            die()

    async def deadly_commit(journal: Journal, *given: Any, **named: Any) -> int:
        events = [event for change in given[2] for event in change.events]
        takes = any(isinstance(event, DepositReceived) for event in events)
        gives_back = any(isinstance(event, RefundRequested) for event in events)
        if (takes and point == "before-taken") or (gives_back and point == "before-extra"):
            die()
        position = await commit(journal, *given, **named)
        if (takes and point == "taken") or (gives_back and point == "extra-asked"):
            die()
        return position

    Inbox.claim = deadly_claim  # type: ignore[method-assign]
    Inbox.handled = deadly_handled  # type: ignore[method-assign]
    Journal.commit = deadly_commit  # type: ignore[method-assign, assignment]
