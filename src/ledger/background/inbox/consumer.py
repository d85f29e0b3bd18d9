"""From the inbox to the orders: hands every message to what is registered for its kind, until an order has taken it in.

The rule a stranger would break: a message is never dropped. What nobody can use yet - no such order, or one that has not
heard of what the message follows - is put off; what contradicts its order for good is set aside, where an operator sees it. Only
`Taken` ends it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from msgspec import Struct

from ledger.journal.append import KeyUnavailable
from ledger.operations.clock import Clock
from ledger.operations.message_delivery import MessageSource
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.inbox import Inbox, InboxEntry
from ledger.processors.messages import Message
from ledger.telemetry.logs import stack_locations

_log = structlog.get_logger()

_LIMIT: Final = 100


class Applied(Struct, frozen=True):
    """An order took the message in, or had done so before."""


class RetryLater(Struct, frozen=True):
    """Nothing can be made of the message now; `waits_for` says in words what is missing."""

    waits_for: str


class DeadLetter(Struct, frozen=True):
    """The order can never take the message in as it is; `because` says in words what is wrong with it."""

    because: str


Disposition = Applied | RetryLater | DeadLetter

Handle = Callable[[Any], Awaitable[Disposition]]
"""Makes of a message what follows for its order. It may be called twice for one message. Raises Fault."""

Handles = Mapping[type[Message], Handle]


class InboxConsumer:
    """Works the inbox off. `handles` says what each kind of message is for."""

    def __init__(self, inbox: Inbox, handles: Handles) -> None:
        self._inbox = inbox
        self._handles = handles

    async def receive_and_apply(self, message: Message) -> InboxEntry:
        """Keep a message and try it at once: the receipt as it stands then. Raises Fault."""
        received = await self._inbox.receive(message)
        if received.handled_at is None:
            await self._try(received.message)
        receipt = await self._inbox.receipt(message.processor, message.merchant_id, message.message_id)
        assert receipt is not None, "it was kept"
        return receipt

    async def sweep(self) -> int:
        """Try everything that may be tried now; how many messages that were. Raises Fault."""
        claimed = await self._inbox.claim(_LIMIT)
        for message in claimed:
            await self._try(message)
        return len(claimed)

    async def _try(self, message: Message) -> None:
        handle = self._handles.get(type(message))
        verdict = (
            await self._verdict(handle, message) if handle else RetryLater(f"nobody takes {type(message).__name__}")
        )
        match verdict:
            case Applied():
                await self._inbox.handled(message)
            case RetryLater(waits_for=reason):
                await self._inbox.retry_later(message, reason)
            case DeadLetter(because=reason):
                about = {"processor": message.processor, "merchant_id": str(message.merchant_id)}
                _log.error("processor_message_set_aside", message_id=message.message_id, reason=reason, **about)
                await self._inbox.set_aside(message, reason)

    async def _verdict(self, handle: Handle, message: Message) -> Disposition:
        try:
            return await handle(message)
        except KeyUnavailable:  # a Fault of this one order, logged where it was found: the others' messages go on
            return RetryLater("the key of its customer's data is not to be had")
        except Fault:
            raise  # the database is away: the lease runs out and the message comes again
        except Exception as fault:  # noqa: BLE001 - one message that we cannot use holds up no other
            reason = type(fault).__name__
            _log.error(
                "processor_message_failed", message_id=message.message_id, reason=reason, at=stack_locations(fault)
            )
            return RetryLater(f"it failed with {reason}")


async def fetch(sender: MessageSource, inbox: Inbox, clock: Clock) -> int:
    """Bring what a sender has to tell into the inbox, by each merchant's clock; how many messages that were. Raises Fault."""
    fetched = 0
    try:
        for merchant_id in await sender.merchants_waiting():
            await clock.refresh(merchant_id)
            for message in await sender.due_messages(merchant_id, clock.now(merchant_id)):
                await inbox.receive(message)
                await sender.delivered(message)
                fetched += 1
    except (ProcessorTimedOut, ProcessorUnavailable) as fault:
        _log.warning("messages_wait", reason=type(fault).__name__)
    return fetched
