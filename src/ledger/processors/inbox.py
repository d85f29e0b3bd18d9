"""The inbox: what processors tell us, on disk before anything is made of it, and handed out until it was taken in.

The rule a stranger would break: whoever handles a message may do it twice, because a worker may die between the order's
commit and the mark here. What an order already knows changes nothing; that is the order's business, not the inbox's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

import psycopg
import structlog
from msgspec import Struct

from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors import messages
from ledger.processors.messages import Message

_log = structlog.get_logger()

_NAME: Final = "ledger-inbox"

# Keep a message; nothing where it is kept already.
_KEEP: Final = """
insert into processor_message (processor, merchant_id, message_id, order_id, body) values (%s, %s, %s, %s, %s)
on conflict do nothing
"""

_READ: Final = """
select received_at, handled_at, waits_for, body from processor_message
 where processor = %s and merchant_id = %s and message_id = %s
"""

# Take what may be tried now, the oldest first, for as long as a worker should need; others pass it by. A merchant whose
# clock somebody is moving is left to that hand.
_CLAIM: Final = """
with mine as (
  select processor, merchant_id, message_id from processor_message p
   where handled_at is null and next_try_at <= now() and not exists (
     select from merchant_clock c where c.merchant_id = p.merchant_id and c.moving_until > now())
   order by next_try_at limit %s for update skip locked)
update processor_message m set tries = tries + 1, next_try_at = now() + make_interval(secs => %s)
  from mine where (m.processor, m.merchant_id, m.message_id) = (mine.processor, mine.merchant_id, mine.message_id)
returning m.received_at, m.body
"""

# An order took it in: what waits for the same order may go on now.
_HANDLED: Final = """
with handled as (
  update processor_message set handled_at = coalesce(handled_at, now()), waits_for = null
   where processor = %s and merchant_id = %s and message_id = %s returning merchant_id, order_id)
update processor_message m set next_try_at = now()
  from handled h
 where m.merchant_id = h.merchant_id and m.order_id = h.order_id and m.handled_at is null and m.waits_for is not null
"""

# Not yet: again in one second, in two, in four, at last every five minutes.
_PUT_OFF: Final = """
update processor_message
   set waits_for = %s, next_try_at = now() + make_interval(secs => least(2 ^ least(greatest(tries - 1, 0), 20), 300))
 where processor = %s and merchant_id = %s and message_id = %s and handled_at is null
"""

# Never by itself: no time comes at which it is tried, until an operator or another message of its order says so.
_SET_ASIDE: Final = """
update processor_message set waits_for = %s, next_try_at = 'infinity'
 where processor = %s and merchant_id = %s and message_id = %s and handled_at is null
"""


class InboxEntry(Struct, frozen=True, kw_only=True):
    """What is known of a message: the first one with its id, whichever was received now. Times are real.

    `waits_for` says in words why no order has taken it in yet, None where none was asked or one has.
    """

    message: Message
    received_at: datetime
    handled_at: datetime | None = None
    waits_for: str | None = None
    is_new: bool = False


class Inbox:
    """Keeps messages on a connection of its own, opened again when it was lost. All methods raise DatabaseUnavailable."""

    def __init__(self, url: str, *, lease_s: float = 30.0) -> None:
        self._url = url
        self._lease_s = lease_s
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = await connect(self._url, _NAME)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def receive(self, message: Message) -> InboxEntry:
        """Keep a verified message. Once this returns it is on disk, and its sender need not send it again."""
        body = messages.encode(message).decode()
        kept = await self._execute(_KEEP, (*_key(message), message.order_id, body))
        receipt = await self.receipt(message.processor, message.merchant_id, message.message_id)
        assert receipt is not None, "it was kept, now or before"
        if receipt.message != message:
            _log.error("processor_message_differs", processor=message.processor, message_id=message.message_id)
        return InboxEntry(
            message=receipt.message,
            received_at=receipt.received_at,
            handled_at=receipt.handled_at,
            waits_for=receipt.waits_for,
            is_new=kept.rowcount == 1,
        )

    async def receipt(self, processor: str, merchant_id: UUID, message_id: str) -> InboxEntry | None:
        """What is known of a message, None where none with this id was received."""
        rows = await (await self._execute(_READ, (processor, merchant_id, message_id))).fetchall()
        if not rows:
            return None
        received_at, handled_at, waits_for, body = rows[0]
        return InboxEntry(
            message=messages.decode(body.encode()),
            received_at=received_at,
            handled_at=handled_at,
            waits_for=waits_for,
        )

    async def claim(self, limit: int = 100) -> Sequence[Message]:
        """What is to be tried now, the oldest first. No other worker is given it before the lease has run out."""
        rows = await (await self._execute(_CLAIM, (limit, self._lease_s))).fetchall()
        return [messages.decode(body.encode()) for _, body in sorted(rows, key=lambda row: row[0])]

    async def handled(self, message: Message) -> None:
        """An order took it in, or knew it already: it is not handed out again."""
        await self._execute(_HANDLED, _key(message))

    async def retry_later(self, message: Message, waits_for: str) -> None:
        """Nothing can be made of it yet; it is handed out again later, with back-off and without end."""
        await self._execute(_PUT_OFF, (waits_for, *_key(message)))

    async def set_aside(self, message: Message, because: str) -> None:
        """Its order cannot take it in, now or later: it is kept for an operator, and handed out no more."""
        await self._execute(_SET_ASIDE, (because, *_key(message)))

    async def _execute(self, statement: str, values: tuple[Any, ...]) -> psycopg.AsyncCursor[tuple[Any, ...]]:
        async with self._one_at_a_time:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await connect(self._url, _NAME)
                return await self._connection.execute(statement, values)
            except psycopg.OperationalError as fault:
                raise DatabaseUnavailable(type(fault).__name__) from fault


def _key(message: Message) -> tuple[str, UUID, str]:
    return message.processor, message.merchant_id, message.message_id
