"""The feed of a merchant's public events, as requests need it: up to date, or not yet."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from ledger.postgres.faults import Fault


class FeedBehind(Fault):
    """The feed does not have all events yet that the merchant's log holds.

    `is_readable` is True if it may be read as far as it is: if the log cannot be read on, and after its past has been
    numbered for the first time. `cause` is why the log cannot be read on.
    """

    def __init__(self, *, is_readable: bool, cause: Exception | None = None) -> None:
        super().__init__("the feed does not have all events yet")
        self.is_readable, self.cause = is_readable, cause


class EventFeed(Protocol):
    """How a request lets the feed catch up (see `background.reactions.feed`)."""

    async def begin(self, merchant_id: UUID) -> None:
        """Begins a merchant's feed, if it has none: its events are numbered from now on. Raises a Fault."""
        ...

    async def catch_up(self, merchant_id: UUID) -> None:
        """Returns once the feed has the events of every request that was answered before. The first call for a merchant
        begins its feed.

        Raises FeedBehind if that takes longer than a few seconds, or if the log cannot be read; another Fault.
        """
        ...
