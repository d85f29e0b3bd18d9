"""From the inbox to the orders: passes every message to the handler of its kind until an order has recorded it.

Never drop a message; only `Applied`, `Dismissed` and an operator's dismissal end it. A message that cannot be applied
yet, because its order does not exist or has not recorded what the message follows, is retried later. A message that
contradicts its order for good becomes a dead letter, which operators see.

Messages are tried side by side, one at a time of each order, and at most eight at a time of each merchant: a merchant
whose processor is slow delays its own messages alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from msgspec import Struct

from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.journal.append import KeyUnavailable
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.operations.context.clock import Clock
from ledger.operations.message_delivery import MessageSource
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.inbox_store import Inbox, InboxEntry, MessageKey, key_of
from ledger.processors.messages import Message
from ledger.telemetry.logs import stack_locations

_log = structlog.get_logger()

_PAUSE_S: Final = 0.25


class Applied(Struct, frozen=True):
    """An order has recorded the message, now or before."""


class RetryLater(Struct, frozen=True):
    """The message cannot be applied yet; `waits_for` is the reason in words."""

    waits_for: str


class Dismissed(Struct, frozen=True):
    """The processor knows nothing of what the message is about, so nothing is recorded. `because` is that in words."""

    because: str


class DeadLetter(Struct, frozen=True):
    """The order can never record the message as it is; `because` is the reason in words."""

    because: str


Disposition = Applied | RetryLater | Dismissed | DeadLetter

Handle = Callable[[Any], Awaitable[Disposition]]
"""Applies a message to its order. It may be called twice for one message. Raises a Fault."""

Handles = Mapping[type[Message], Handle]


class InboxConsumer:
    """Tries the messages of the inbox. `handles` has the handler of each kind of message."""

    def __init__(self, inbox: Inbox, handles: Handles) -> None:
        self._inbox = inbox
        self._handles = handles
        self._slots = FairSlots[MessageKey]()

    async def receive_and_apply(self, message: Message) -> InboxEntry:
        """Stores a message, tries it at once, and returns its entry afterwards. Raises a Fault."""
        received = await self._inbox.receive(message)
        if received.handled_at is None:
            await self._try(received.message)
        entry = await self._inbox.receipt(key_of(message))
        assert entry is not None, "the message was stored"
        return entry

    async def run(self, stop: asyncio.Event) -> None:
        """Tries messages until `stop` is set. A message that has begun is finished."""
        try:
            await run_periodically(
                partial(self.sweep, stop),
                stop,
                pause_s=_PAUSE_S,
                log_waiting=lambda reason: _log.warning("messages_wait", reason=reason),
            )
        finally:
            await self._slots.stop()

    async def sweep(self, stop: asyncio.Event | None = None) -> int:
        """Tries messages until none may be tried now and none runs, or `stop` is set; returns how many it has tried.

        Raises a Fault.
        """
        tried = 0
        try:
            while stop is None or not stop.is_set():
                claimed = await self._start_claimed()
                tried += claimed
                if not claimed and not self._slots.keys:
                    break
                await self._slots.ended(_PAUSE_S)  # messages of other merchants may arrive meanwhile
        except asyncio.CancelledError:
            await self._slots.cancel()
            raise
        return tried

    async def _start_claimed(self) -> int:
        """Claims as many messages as may begin now and starts them; returns how many. Raises a Fault."""
        slots = self._slots
        if not slots.free:
            return 0
        claimed = await self._inbox.claim(slots.free, of_a_merchant=slots.of_a_merchant, running=slots.running)
        for message in claimed:
            slots.start(message.merchant_id, key_of(message), partial(self._try, message))
        return len(claimed)

    async def _try(self, message: Message) -> None:
        match await self._handle(message):
            case Applied():
                await self._inbox.handled(message)
            case RetryLater(waits_for=reason):
                await self._inbox.retry_later(message, reason)
            case Dismissed(because=reason):
                _log.warning(
                    "processor_message_dismissed", message_id=message.message_id, reason=reason, **_ids(message)
                )
                await self._inbox.dismiss(message, reason)
            case DeadLetter(because=reason):
                _log.error("processor_message_set_aside", message_id=message.message_id, reason=reason, **_ids(message))
                await self._inbox.set_aside(message, reason)

    async def _handle(self, message: Message) -> Disposition:
        handle = self._handles.get(type(message))
        if handle is None:
            return RetryLater(f"this release has no handler for {type(message).__name__}")
        try:
            return await handle(message)
        except KeyUnavailable:  # a Fault of this one order, logged where it was found: other orders' messages continue
            return RetryLater("the key of its customer's data is unavailable")
        except ArchiveUnavailable:  # likewise: a file of this order's archived events
            return RetryLater("a file of its order's archived events cannot be read")
        except Fault:
            raise  # the database is unreachable: the lease on the message expires and the message is tried again
        except Exception as fault:  # noqa: BLE001 - a message that fails must not delay the others
            reason = type(fault).__name__
            _log.error(
                "processor_message_failed", message_id=message.message_id, reason=reason, at=stack_locations(fault)
            )
            return RetryLater(f"it failed with {reason}")


def _ids(message: Message) -> dict[str, str]:
    return {
        "processor": message.processor,
        "account": message.account_name,
        "merchant_id": str(message.merchant_id),
    }


async def fetch(source: MessageSource, inbox: Inbox, clock: Clock) -> int:
    """Fetches the messages that are due by their merchants' clocks into the inbox; returns how many. Raises a Fault."""
    fetched = 0
    try:
        for merchant_id in await source.merchants_waiting():
            now = await clock.refresh(merchant_id)
            for message in await source.due_messages(merchant_id, now):
                await inbox.receive(message)
                await source.delivered(message)
                fetched += 1
    except (ProcessorTimedOut, ProcessorUnavailable) as fault:
        _log.warning("messages_wait", reason=type(fault).__name__)
    return fetched
