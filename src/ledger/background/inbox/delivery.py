"""Delivers messages of processors to the inbox, and fetches them from the sandbox's outbox.

A message leaves the outbox only when it is in the inbox, and the inbox only when an order has recorded it. Any process
may be killed in between, and any number of workers apply each message once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from ledger.background.inbox.consumer import InboxConsumer, fetch
from ledger.background.inbox.message_handlers import MessageApplier
from ledger.background.inbox.notices import ASKING_S, NoticeHandler
from ledger.background.periodic import run_periodically
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import MessageSource
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.inbox_store import Inbox, InboxEntry
from ledger.processors.messages import Message, NoticeReceived

_log = structlog.get_logger()

_PAUSE_S: Final = 0.5
_LEASE_MARGIN_S: Final = 10.0
"""How much longer a claim on a message lasts than what follows from it: a question, and a call to a processor."""


class InboxDelivery:
    """One process's delivery of messages (see `operations.message_delivery`). Only the sandbox has an `outbox`."""

    def __init__(self, ledger: Ledger, inbox: Inbox, consumer: InboxConsumer, outbox: MessageSource | None) -> None:
        self._ledger = ledger
        self._inbox = inbox
        self._consumer = consumer
        self._outbox = outbox

    async def keep(self, message: Message) -> InboxEntry:
        """Stores a message for the worker; returns the entry of the first message with its id."""
        return await self._inbox.receive(message)

    @property
    def inbox(self) -> Inbox:
        """Where the messages are stored."""
        return self._inbox

    async def deliver(self, message: Message) -> InboxEntry:
        """Stores a message, tries it at once, and takes it out of the outbox."""
        entry = await self._consumer.receive_and_apply(message)
        if self._outbox is not None:
            with suppress(ProcessorTimedOut, ProcessorUnavailable):  # then the worker fetches the message once more
                await self._outbox.delivered(message)
        return entry

    async def next_due_at(self, merchant_id: UUID, until: datetime) -> datetime | None:
        """Returns when a merchant's next message is due, or None if that is later than `until`.

        Raises DatabaseUnavailable.
        """
        if self._outbox is None:
            return None
        with _as_database_fault():
            due_at = await self._outbox.next_due_at(merchant_id)
        return due_at if due_at is not None and due_at <= until else None

    async def deliver_due(self, merchant_id: UUID, now: datetime, limit: int = 100) -> int:
        """Delivers at most `limit` messages that are due at `now` by the merchant's clock; returns how many.

        Raises a Fault.
        """
        if self._outbox is None:
            return 0
        with _as_database_fault():
            due = await self._outbox.due_messages(merchant_id, now, limit)
            for message in due:
                await self._consumer.receive_and_apply(message)
                await self._outbox.delivered(message)
        return len(due)

    async def run(self, stop: asyncio.Event) -> None:
        """Fetches messages and tries them until `stop` is set. A message that has begun is finished."""

        async def fetch_due() -> None:
            while self._outbox and not stop.is_set() and await fetch(self._outbox, self._inbox, self._ledger.clock):
                pass

        fetching = run_periodically(
            fetch_due,
            stop,
            pause_s=_PAUSE_S,
            log_waiting=lambda reason: _log.warning("messages_wait", reason=reason),
        )
        await asyncio.gather(fetching, self._consumer.run(stop))


@asynccontextmanager
async def open_delivery(url: str, ledger: Ledger) -> AsyncIterator[InboxDelivery]:
    """Yields one process's delivery, open for as long as the context lasts. Raises psycopg.OperationalError."""
    async with AsyncExitStack() as stack:
        lease_s = ASKING_S + ledger.call_timeouts.processor_timeout_s + _LEASE_MARGIN_S
        inbox = await stack.enter_async_context(Inbox(url, lease_s=lease_s))
        names = PaymentLookup(url)
        await names.start()
        stack.push_async_callback(names.stop)
        sandbox = ledger.processors.sandbox
        outbox = None if sandbox is None else sandbox.outbox
        handles = {**MessageApplier(ledger, names).handles(), NoticeReceived: NoticeHandler(ledger, inbox).take}
        yield InboxDelivery(ledger, inbox, InboxConsumer(inbox, handles), outbox)


@contextmanager
def _as_database_fault() -> Iterator[None]:
    """Turns errors of the outbox into a Fault: the sandbox's outbox is a table of the ledger's own database."""
    try:
        yield
    except (ProcessorTimedOut, ProcessorUnavailable) as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
