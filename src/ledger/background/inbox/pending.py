"""Messages of processors that no order has recorded: lists them for operators, and has them tried again at once.

Never end a message here: it may report money. An order ends it by recording it, or an operator dismisses it with a
reason (see `dismissal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from psycopg.rows import class_row

from ledger.postgres.connection import Connection

# The messages that no order has recorded, the oldest first. A dead letter has no time of a next attempt.
_FIND: Final = """
select message_id as message, body::json->>'type' as kind, processor,
       coalesce(nullif(account, ''), processor) as account, merchant_id, order_id, received_at, tries,
       next_try_at = 'infinity' as set_aside, nullif(next_try_at, 'infinity') as next_at, waits_for
  from processor_message where handled_at is null order by received_at, message_id
"""

_RETRY: Final = """
update processor_message set next_try_at = now(), tries = 0
 where handled_at is null and (%s::text[] is null or message_id = any(%s::text[]))
returning message_id
"""


class PendingMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that no order has recorded. Times are real; `next_at` is None for a dead letter (`set_aside`).

    `waits_for` is what is missing or wrong, in words; None if the message was not tried yet.
    """

    message: str
    kind: str
    processor: str
    account: str
    merchant_id: UUID
    order_id: UUID | None
    received_at: datetime
    tries: int
    set_aside: bool
    next_at: datetime | None
    waits_for: str | None


async def pending_messages(connection: Connection) -> Sequence[PendingMessage]:
    """Returns every message that no order has recorded. Raises psycopg.OperationalError."""
    return await (await connection.cursor(row_factory=class_row(PendingMessage)).execute(_FIND)).fetchall()


async def retry_messages(connection: Connection, messages: Sequence[str] | None) -> Sequence[str]:
    """Has the messages with these ids, or all, tried again at once; returns their ids. Raises psycopg.OperationalError.

    A worker tries them within a second. An id that two processors have used means both of their messages.
    """
    ids = None if messages is None else list(messages)
    return sorted(message for (message,) in await (await connection.execute(_RETRY, (ids, ids))).fetchall())
