"""How a processor's message is handed over: what routes and clocks ask of the mail, without knowing the reactions.

The rule a stranger would break: a message that was handed over is on disk. Whether an order has taken it in is another
question, which the receipt answers.
"""

from __future__ import annotations

from typing import Protocol

from ledger.processors.inbox import InboxEntry
from ledger.processors.messages import Message


class MessageDelivery(Protocol):
    """Where messages go (see `reactions.mail`). Both raise a Fault."""

    async def keep(self, message: Message) -> InboxEntry:
        """Keep a message for the worker; the receipt of the first one with its id."""
        ...

    async def deliver(self, message: Message) -> InboxEntry:
        """Keep a message and try it at once; the receipt says whether an order has taken it in."""
        ...
