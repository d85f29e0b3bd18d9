"""How messages of processors come to the ledger: where they are fetched from, and how one is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from ledger.processors.inbox_store import InboxEntry
from ledger.processors.messages import Message

UNKNOWN_NAME: Final = "no order knows what it is about"
UNKNOWN_ORDER: Final = "its order is not known"
UNMATCHED: Final = (UNKNOWN_NAME, UNKNOWN_ORDER)
"""What messages wait for that no order matches: they name the payment or the order."""


class MessageSource(Protocol):
    """A processor whose messages are fetched, each due at a time of its merchant's clock (see
    `processors.sandbox.outbox`).

    All methods raise ProcessorTimedOut, ProcessorUnavailable.
    """

    async def merchants_waiting(self) -> Sequence[UUID]: ...

    async def next_due_at(self, merchant_id: UUID) -> datetime | None: ...

    async def due_messages(self, merchant_id: UUID, now: datetime, limit: int = 100) -> Sequence[Message]: ...

    async def delivered(self, message: Message) -> None: ...


class MessageDelivery(Protocol):
    """Where messages are delivered (see `background.inbox.delivery`). All methods raise a Fault."""

    async def keep(self, message: Message) -> InboxEntry:
        """Stores a message for the worker; returns the entry of the first message with its id."""
        ...

    async def deliver(self, message: Message) -> InboxEntry:
        """Stores a message and tries it at once; the entry shows whether an order has recorded it."""
        ...

    async def next_due_at(self, merchant_id: UUID, until: datetime) -> datetime | None:
        """Returns when the merchant's next message is due in the outbox, or None if that is later than `until`."""
        ...

    async def deliver_due(self, merchant_id: UUID, now: datetime, limit: int = 100) -> int:
        """Delivers at most `limit` messages that are due at `now` by the merchant's clock; returns how many."""
        ...
