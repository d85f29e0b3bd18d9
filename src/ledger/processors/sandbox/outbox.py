"""What the sandbox processor has to tell: messages in its book, each due at a moment of its merchant's clock.

The rule a stranger would break: a message is written in the commit of what it tells, and stays until it was taken in. It
may be handed out twice; whoever takes it in knows it by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from uuid import UUID

from ledger.postgres.connection import Connection
from ledger.processors import messages
from ledger.processors.contract import Request
from ledger.processors.messages import Message
from ledger.processors.sandbox.call_executor import CallExecutor

# A message, due when it says that it happened.
_PUT: Final = """
insert into sandbox_message (merchant_id, message_id, due_at, body) values (%s, %s, %s, %s) on conflict do nothing
"""

# What of a merchant's is due, the oldest first.
_DUE: Final = """
select body from sandbox_message
 where merchant_id = %s and delivered_at is null and due_at <= %s order by due_at, message_id limit %s
"""

# When the next of a merchant's messages is due.
_NEXT: Final = "select min(due_at) from sandbox_message where merchant_id = %s and delivered_at is null"

# Whose messages wait at all. Somebody who moves a merchant's clock hands that merchant's over in the order of time.
_WAITING: Final = """
select distinct merchant_id from sandbox_message m
 where delivered_at is null and not exists (
   select from merchant_clock c where c.merchant_id = m.merchant_id and c.moving_until > now())
"""

_DELIVERED: Final = "update sandbox_message set delivered_at = now() where merchant_id = %s and message_id = %s"


class Outbox:
    """Hands out what is due, to whoever passes it on to the ledger's inbox."""

    def __init__(self, teller: CallExecutor) -> None:
        self._teller = teller

    async def merchants_waiting(self) -> Sequence[UUID]:
        """Merchants to whom something will be told, due or not. Raises like a processor's call, as all of these do."""
        async with self._teller.connection() as connection:
            return [row[0] for row in await (await connection.execute(_WAITING)).fetchall()]

    async def next_due_at(self, merchant_id: UUID) -> datetime | None:
        """When the merchant's next message is due by its clock, None where none waits."""
        async with self._teller.connection() as connection:
            row = await (await connection.execute(_NEXT, (merchant_id,))).fetchone()
            return None if row is None else row[0]

    async def due_messages(self, merchant_id: UUID, now: datetime, limit: int = 100) -> Sequence[Message]:
        """What is due at `now` by the merchant's clock and was not taken in yet, the oldest first."""
        async with self._teller.connection() as connection:
            rows = await (await connection.execute(_DUE, (merchant_id, now, limit))).fetchall()
        return [messages.decode(body.encode()) for (body,) in rows]

    async def delivered(self, message: Message) -> None:
        """The message was taken in: it is not handed out again."""
        async with self._teller.connection() as connection:
            await connection.execute(_DELIVERED, (message.merchant_id, message.message_id))


async def enqueue(connection: Connection, message: Message) -> None:
    """Tell this when the merchant's clock shows the time at which it happened."""
    body = messages.encode(message).decode()
    await connection.execute(_PUT, (message.merchant_id, message.message_id, message.occurred_at, body))


def at(request: Request) -> datetime:
    """The merchant's moment at which a call was made."""
    return request.at or datetime.now(UTC)


def reference_for(prefix: str, request: Request) -> str:
    """The processor's name for what a call does: drawn from its key, so that it can be no other the second time."""
    digest = blake2b(request.idempotency_key.encode(), digest_size=10, key=request.merchant_id.bytes).digest()
    return f"sbx_{prefix}_{digest.hex()}"
