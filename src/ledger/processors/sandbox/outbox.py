"""The sandbox processor's outbox: its messages to the ledger, each due at a time of its merchant's clock.

A message is written in the commit of what it reports, and stays until the ledger has received it. It may be delivered
twice; the ledger recognises it by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from ledger.postgres.connection import Connection
from ledger.processors import messages
from ledger.processors.messages import Message
from ledger.processors.sandbox.books import book_of, owner_of
from ledger.processors.sandbox.call_executor import CallExecutor

M = TypeVar("M", bound=Message)

# A message, due at the time that it reports.
_ENQUEUE: Final = """
insert into sandbox_message (merchant_id, message_id, due_at, body) values (%s, %s, %s, %s) on conflict do nothing
"""

# A merchant's due messages of all its accounts, the oldest first. A message is kept in the book of its account.
_DUE: Final = """
select body from sandbox_message
 where merchant_id = any(%(merchant)s::uuid || array(select book_id from sandbox_account where merchant_id = %(merchant)s))
   and delivered_at is null and due_at <= %(now)s order by due_at, message_id limit %(limit)s
"""

# When the next of a merchant's messages is due.
_NEXT: Final = """
select min(due_at) from sandbox_message
 where merchant_id = any(%(merchant)s::uuid || array(select book_id from sandbox_account where merchant_id = %(merchant)s))
   and delivered_at is null
"""

# The merchants with undelivered messages. While a merchant's clock is being moved, the process that moves it delivers
# this merchant's messages in the order of their times.
_MERCHANTS_WAITING: Final = """
select distinct coalesce(a.merchant_id, m.merchant_id)
  from sandbox_message m left join sandbox_account a on a.book_id = m.merchant_id
 where delivered_at is null and not exists (
   select from merchant_clock c where c.merchant_id = coalesce(a.merchant_id, m.merchant_id) and c.moving_until > now())
"""

_DELIVERED: Final = "update sandbox_message set delivered_at = now() where merchant_id = %s and message_id = %s"


class Outbox:
    """The messages that the ledger has not received yet.

    All methods raise ProcessorTimedOut and ProcessorUnavailable.
    """

    def __init__(self, executor: CallExecutor) -> None:
        self._executor = executor

    async def merchants_waiting(self) -> Sequence[UUID]:
        """Returns the merchants with undelivered messages, due or not."""
        async with self._executor.connection() as connection:
            return [row[0] for row in await (await connection.execute(_MERCHANTS_WAITING)).fetchall()]

    async def next_due_at(self, merchant_id: UUID) -> datetime | None:
        """Returns when the merchant's next message is due by its clock, None if none waits."""
        async with self._executor.connection() as connection:
            row = await (await connection.execute(_NEXT, {"merchant": merchant_id})).fetchone()
            return None if row is None else row[0]

    async def due_messages(self, merchant_id: UUID, now: datetime, limit: int = 100) -> Sequence[Message]:
        """Returns at most `limit` undelivered messages, due at `now` by the merchant's clock, the oldest first."""
        async with self._executor.connection() as connection:
            values = {"merchant": merchant_id, "now": now, "limit": limit}
            rows = await (await connection.execute(_DUE, values)).fetchall()
        return [messages.decode(body.encode()) for (body,) in rows]

    async def delivered(self, message: Message) -> None:
        """Marks a message as received by the ledger."""
        async with self._executor.connection() as connection:
            book_id = book_of(message.merchant_id, message.account)
            await connection.execute(_DELIVERED, (book_id, message.message_id))


async def enqueue(connection: Connection, message: M) -> M:
    """Writes a message, to be delivered when the merchant's clock shows the time that it reports.

    Its `merchant_id` is the id of a book. Returns the message as it is delivered, to the merchant whose book it is.
    """
    book_id = message.merchant_id
    owner = await owner_of(connection, book_id)
    message = replace(message, merchant_id=owner.merchant_id, account=owner.account)
    body = messages.encode(message).decode()
    await connection.execute(_ENQUEUE, (book_id, message.message_id, message.occurred_at, body))
    return message
