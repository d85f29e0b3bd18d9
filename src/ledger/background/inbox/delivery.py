"""The mail: the inbox with those who take messages out of it, and the sandbox's outbox that messages are fetched from.

The rule a stranger would break: a message leaves the outbox only when it is in the inbox, and the inbox only when an order
has taken it in. Between the two, anybody may be killed, and any number of workers do each message once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.background.inbox.apply import MessageApplier
from ledger.background.inbox.consumer import InboxConsumer, fetch
from ledger.background.periodic import run_periodically
from ledger.operations.ledger import Ledger
from ledger.operations.message_delivery import MessageSource
from ledger.operations.payment_lookup import PaymentLookup
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.inbox import Inbox, InboxEntry
from ledger.processors.messages import Message
from ledger.processors.sandbox.processor import SandboxProcessor

_PAUSE_S: Final = 0.5


class InboxDelivery:
    """One process's way to hand messages over."""

    def __init__(self, ledger: Ledger, inbox: Inbox, messages: InboxConsumer, outbox: MessageSource | None) -> None:
        self._ledger = ledger
        self._inbox = inbox
        self._messages = messages
        self._outbox = outbox

    async def keep(self, message: Message) -> InboxEntry:
        """Keep a message for the worker (see `operations.inbound`)."""
        return await self._inbox.receive(message)

    async def deliver(self, message: Message) -> InboxEntry:
        """Keep a message, try it at once, and take it out of the outbox."""
        receipt = await self._messages.receive_and_apply(message)
        if self._outbox is not None:
            with suppress(ProcessorTimedOut, ProcessorUnavailable):  # then the worker fetches what is known already
                await self._outbox.delivered(message)
        return receipt

    async def next_due_at(self, merchant_id: UUID, until: datetime) -> datetime | None:
        """When the next message of a merchant is due, where that is not later than `until`. Raises DatabaseUnavailable."""
        if self._outbox is None:
            return None
        with _our_database():
            due_at = await self._outbox.next_due_at(merchant_id)
        return due_at if due_at is not None and due_at <= until else None

    async def deliver_due(self, merchant_id: UUID, now: datetime) -> int:
        """Hand over what is due at a moment of the merchant's clock; how many messages that were. Raises a Fault."""
        assert self._outbox is not None, "something was due"
        with _our_database():
            due = await self._outbox.due_messages(merchant_id, now)
            for message in due:
                await self._messages.receive_and_apply(message)
                await self._outbox.delivered(message)
        return len(due)

    async def run(self, stop: asyncio.Event) -> None:
        """Fetches messages and tries them until `stop` is set. A message that has begun is finished."""

        async def work() -> None:
            busy = True
            while busy and not stop.is_set():
                fetched = await fetch(self._outbox, self._inbox, self._ledger.clock) if self._outbox else 0
                busy = bool(fetched + await self._messages.sweep())

        await run_periodically(work, stop, pause_s=_PAUSE_S, waits_event="messages_wait")


@asynccontextmanager
async def open_delivery(url: str, ledger: Ledger) -> AsyncIterator[InboxDelivery]:
    """The mail of one process, for as long as the context lasts. Raises psycopg.OperationalError."""
    async with AsyncExitStack() as stack:
        inbox = await stack.enter_async_context(Inbox(url))
        names = PaymentLookup(url)
        await names.start()
        stack.push_async_callback(names.stop)
        processor = ledger.processor
        outbox = processor.outbox if isinstance(processor, SandboxProcessor) else None
        yield InboxDelivery(ledger, inbox, InboxConsumer(inbox, MessageApplier(ledger, names).handles()), outbox)


@contextmanager
def _our_database() -> Iterator[None]:
    """The outbox is a table of ours: what a processor's call raises about it is the database's fault."""
    try:
        yield
    except (ProcessorTimedOut, ProcessorUnavailable) as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
