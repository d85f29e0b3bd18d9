"""The inbox: stores each message of a processor before it is processed, and returns it until its order has applied it.

A worker that is killed between the order's commit and the mark here processes a message twice. The order recognises the
repeated message and changes nothing; the inbox does not check for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import msgspec
import psycopg
import structlog
from msgspec import Struct

from ledger.postgres.connection import SharedClient
from ledger.postgres.replication import wait_for_standbys
from ledger.postgres.skip_scan import skip_scan
from ledger.processors import messages
from ledger.processors.messages import Message

_log = structlog.get_logger()

M = TypeVar("M", bound=Message)

_NAME: Final = "ledger-inbox"

# Stores a message, unless it is stored already.
_STORE: Final = """
insert into processor_message (processor, account, merchant_id, message_id, order_id, body)
values (%s, %s, %s, %s, %s, %s)
on conflict do nothing
"""

_READ: Final = """
select received_at, handled_at, waits_for, body from processor_message
 where processor = %s and account = %s and merchant_id = %s and message_id = %s
"""

# Which of an account's messages are stored.
_KNOWN: Final = """
select message_id from processor_message
 where processor = %s and account = %s and merchant_id = %s and message_id = any(%s)
"""

# Claims messages that may be tried now, for as long as a worker should need; other workers skip them. The merchants
# have their turn one after another: first those with the fewest running messages, after the merchant that was last. Of
# each merchant the oldest messages are claimed, at most as many as it may have running. A message stays if another
# message of its order is claimed, or is older and may be tried too. While a merchant's clock is being moved, the
# process that moves it applies this merchant's messages. The statement reads no message that waits, and nothing if
# every message waits: `offset 0` keeps the planner from joining with all messages of a merchant, and the places of the
# claimed rows from reading the whole table where its statistics are older than most of its rows.
_PENDING: Final = """
handled_at is null and exists (select from processor_message where handled_at is null and next_try_at <= now())"""
_CLAIM: Final = skip_scan(
    table="processor_message",
    column="merchant_id",
    where=_PENDING,
    then=""", turn as (
  select f.value as merchant_id, coalesce(r.n, 0) as running, f.value <= %(after)s as had_turn
    from found f left join unnest(%(merchants)s::uuid[], %(running)s::int[]) as r(merchant_id, n) on r.merchant_id = f.value
   where coalesce(r.n, 0) < %(of_a_merchant)s
     and exists (select from processor_message p
                  where p.merchant_id = f.value and p.handled_at is null and p.next_try_at <= now() offset 0)
     and not exists (select from merchant_clock c where c.merchant_id = f.value and c.moving_until > now())
   order by running, had_turn, merchant_id limit %(limit)s),
mine as (
  select next.place from turn t cross join lateral (
    select due.place, row_number() over (order by due.next_try_at) as n from (
      select p.ctid as place, p.next_try_at from processor_message p
       where p.merchant_id = t.merchant_id and p.handled_at is null and p.next_try_at <= now() and not exists (
         select from processor_message o
          where o.order_id = p.order_id and (o.merchant_id = p.merchant_id) is true and o.handled_at is null
            and (o.processor, o.account, o.message_id) <> (p.processor, p.account, p.message_id)
            and (o.claimed_until > now() or (o.next_try_at <= now()
              and (o.received_at, o.processor, o.account, o.message_id)
                < (p.received_at, p.processor, p.account, p.message_id)))
         offset 0)
       order by p.next_try_at limit %(of_a_merchant)s - t.running for update skip locked) due) next
   order by t.running + next.n, t.had_turn, t.merchant_id limit %(limit)s)
update processor_message m
   set tries = tries + 1, next_try_at = now() + make_interval(secs => %(lease_s)s),
       claimed_until = now() + make_interval(secs => %(lease_s)s)
 where m.ctid = any(array(select place from mine))
returning m.received_at, m.body
""",
)

# An order has applied the message. Other messages of the same order may be tried now. The payer's account is sealed in
# the order's event from now on, and leaves the message.
_HANDLED: Final = """
with handled as (
  update processor_message set handled_at = coalesce(handled_at, now()), waits_for = null, claimed_until = null,
         body = regexp_replace(body, ',"senderClabe":"[^"]*"', '')
   where processor = %s and account = %s and merchant_id = %s and message_id = %s returning merchant_id, order_id)
update processor_message m set next_try_at = now()
  from handled h
 where m.merchant_id = h.merchant_id and m.order_id = h.order_id and m.handled_at is null and m.waits_for is not null
   and coalesce(m.claimed_until, '-infinity') <= now()
"""

# To be tried again in one second, in two, in four, at last every five minutes.
_RETRY_LATER: Final = """
update processor_message
   set waits_for = %s, claimed_until = null,
       next_try_at = now() + make_interval(secs => least(2 ^ least(greatest(tries - 1, 0), 20), 300))
 where processor = %s and account = %s and merchant_id = %s and message_id = %s and handled_at is null
"""

# To be tried only after an operator, or another message of its order, makes it due.
_QUARANTINE: Final = """
update processor_message set waits_for = %s, claimed_until = null, next_try_at = 'infinity'
 where processor = %s and account = %s and merchant_id = %s and message_id = %s and handled_at is null
"""

# Nothing is to be recorded of the message: the processor knows nothing of what it is about.
_DISMISS: Final = """
update processor_message set handled_at = coalesce(handled_at, now()), waits_for = %s, claimed_until = null
 where processor = %s and account = %s and merchant_id = %s and message_id = %s and handled_at is null
"""

# Deletes the oldest messages that orders have applied, except lines of settlements: an order knows only its last batch.
# The condition on the body is that of the index `processor_message_applied`.
_DELETE_APPLIED: Final = """
delete from processor_message where (processor, account, merchant_id, message_id) in (
  select processor, account, merchant_id, message_id from processor_message
   where handled_at < now() - %s and waits_for is null and not starts_with(body, '{"type":"settlement-')
   order by handled_at limit %s for update skip locked)
"""

MessageKey = tuple[str, str, UUID, str]
"""A message's processor, account, merchant and id. The account is empty if it is named as the processor."""


class InboxEntry(Struct, frozen=True, kw_only=True):
    """A stored message: the first one with its id, whichever was received now. Times are real.

    `waits_for` is the reason in words why no order has applied it, None if it was not tried or has been applied. A
    message with both `waits_for` and `handled_at` was dismissed.
    """

    message: Message
    received_at: datetime
    handled_at: datetime | None = None
    waits_for: str | None = None
    is_new: bool = False


class Inbox:
    """The stored messages, over a connection of its own that is replaced when it is lost.

    A claim lasts `lease_s` seconds. All methods raise DatabaseUnavailable.
    """

    def __init__(self, url: str, *, lease_s: float = 30.0) -> None:
        self._client = SharedClient(url, _NAME)
        self._lease_s = lease_s
        self._last = UUID(int=0)  # of the merchants with claimed messages

    async def __aenter__(self) -> Self:
        """Connects. Raises psycopg.OperationalError."""
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.stop()

    async def receive(self, message: Message) -> InboxEntry:
        """Stores a verified message and returns its entry.

        The message is then on disk and on the synchronous standby, and its sender need not send it again.
        """
        body = messages.encode(message).decode()
        async with self._client.turn() as connection:
            stored = await connection.execute(_STORE, (*key_of(message), message.order_id, body))
            if not stored.rowcount:  # the first one's sender may not have been answered, because the standby was away
                await wait_for_standbys(connection)
        entry = await self.receipt(key_of(message))
        assert entry is not None, "the message was stored, now or before"
        if _lasting(entry.message) not in (_lasting(message), _without_account(message)):
            _log.error("processor_message_differs", processor=message.processor, message_id=message.message_id)
        return msgspec.structs.replace(entry, is_new=stored.rowcount == 1)

    async def missing(self, received: Sequence[M]) -> Sequence[M]:
        """Returns those of an account's messages that are not stored."""
        if not received:
            return ()
        processor, account, merchant_id, _ = key_of(received[0])
        ids = [message.message_id for message in received]
        rows = await (await self._execute(_KNOWN, (processor, account, merchant_id, ids))).fetchall()
        known = {message_id for (message_id,) in rows}
        return [message for message in received if message.message_id not in known]

    async def receipt(self, key: MessageKey) -> InboxEntry | None:
        """Returns the entry of a message, None if none with this key was received."""
        rows = await (await self._execute(_READ, key)).fetchall()
        if not rows:
            return None
        received_at, handled_at, waits_for, body = rows[0]
        return InboxEntry(
            message=messages.decode(body.encode()),
            received_at=received_at,
            handled_at=handled_at,
            waits_for=waits_for,
        )

    async def claim(
        self, limit: int = 100, *, of_a_merchant: int | None = None, running: Mapping[UUID, int] = MappingProxyType({})
    ) -> Sequence[Message]:
        """Returns at most `limit` messages to try now, from each merchant in turn, sorted by their receipt.

        A merchant has at most `of_a_merchant` messages, its `running` ones included. An order has at most one message,
        and none while another of its messages is claimed. No other worker gets these messages until the lease ends.
        """
        values = {
            "merchants": list(running),
            "running": list(running.values()),
            "of_a_merchant": limit if of_a_merchant is None else of_a_merchant,
            "after": self._last,
            "limit": limit,
            "lease_s": self._lease_s,
        }
        rows = await (await self._execute(_CLAIM, values)).fetchall()
        claimed = [messages.decode(body.encode()) for _, body in sorted(rows, key=lambda row: row[0])]
        turns = [(message.merchant_id <= self._last, message.merchant_id) for message in claimed]
        self._last = max(turns, default=(False, self._last))[1]
        return claimed

    async def handled(self, message: Message) -> None:
        """Marks a message as applied by its order, now or before. It is not claimed again."""
        await self._execute(_HANDLED, key_of(message))

    async def retry_later(self, message: Message, waits_for: str) -> None:
        """Makes a message that cannot be applied yet due again later, with back-off and without end."""
        await self._execute(_RETRY_LATER, (waits_for, *key_of(message)))

    async def set_aside(self, message: Message, because: str) -> None:
        """Quarantines a message that its order cannot apply, now or later.

        It stays for an operator, and is not claimed again.
        """
        await self._execute(_QUARANTINE, (because, *key_of(message)))

    async def dismiss(self, message: Message, because: str) -> None:
        """Ends a message of which nothing is to be recorded, with the reason in words."""
        await self._execute(_DISMISS, (because, *key_of(message)))

    async def delete_applied(self, kept: timedelta, limit: int) -> int:
        """Deletes at most `limit` messages that were applied longer than `kept` ago; returns how many."""
        return (await self._execute(_DELETE_APPLIED, (kept, limit))).rowcount

    async def _execute(
        self, statement: str, values: tuple[Any, ...] | Mapping[str, Any]
    ) -> psycopg.AsyncCursor[tuple[Any, ...]]:
        async with self._client.turn() as connection:
            return await connection.execute(statement, values)


def _lasting(message: Message) -> Message:
    """Returns a message without what may differ when it is sent again: a processor writes its own form anew."""
    return msgspec.structs.replace(message, body_hash="") if isinstance(message, messages.NoticeReceived) else message


def _without_account(message: Message) -> Message:
    """Returns a message as it is stored once it is applied or dismissed."""
    if not isinstance(message, messages.DepositReceived):
        return message
    return msgspec.structs.replace(message, sender_clabe=None)


def key_of(message: Message) -> MessageKey:
    """Returns what identifies a message."""
    account = "" if message.account_name == message.processor else message.account_name
    return message.processor, account, message.merchant_id, message.message_id
