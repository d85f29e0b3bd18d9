"""Dismisses a processor's message that no order can record, for an operator who has found out that none ever will.

The event is committed before the message ends. A command that is killed in between leaves the message set aside, and
the same command ends it the next time. Never dismiss a message that a worker is trying: it may be recorded now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from msgspec import Struct
from psycopg.rows import class_row

from ledger.domain.merchants.messages import ProcessorMessageDismissed
from ledger.domain.streams import DISMISSED_MESSAGES
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import UNMATCHED
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.postgres.connection import Connection
from ledger.processors.inbox_store import MessageKey
from ledger.settings import CannotRun

# A message that is neither applied nor dismissed has no `handled_at`; a dismissed one keeps what it waited for.
_SELECT: Final = """
select processor, account, merchant_id, message_id, order_id, body::json->>'type' as kind, received_at, handled_at, waits_for,
       claimed_until > now() as is_claimed, next_try_at = 'infinity' as set_aside
  from processor_message
"""
_FIND: Final = (
    _SELECT
    + """ where message_id = %(message_id)s and (%(processor)s::text is null or processor = %(processor)s)
   and (%(account)s::text is null or account = case when processor = %(account)s then '' else %(account)s end)
   and (%(merchant_id)s::uuid is null or merchant_id = %(merchant_id)s)
 order by received_at, processor, account, merchant_id"""
)
_DISMISSED: Final = (
    _SELECT
    + " where handled_at is not null and waits_for is not null order by handled_at, processor, account, message_id"
)
# No worker takes the message from now on, and none has taken it.
_STOP: Final = """
update processor_message set next_try_at = 'infinity', claimed_until = now() + interval '1 minute'
 where processor = %s and account = %s and merchant_id = %s and message_id = %s and handled_at is null and waits_for = %s
   and coalesce(claimed_until, '-infinity') <= now() returning 1
"""
# No order will record the payer's account, so it leaves the message, as it leaves one that is applied.
_END: Final = """
update processor_message set handled_at = now(), claimed_until = null,
       body = regexp_replace(body, ',"senderClabe":"[^"]*"', '')
 where processor = %s and account = %s and merchant_id = %s and message_id = %s and handled_at is null
"""


_LEDGER: Final = "ledger"
_NOTICE: Final = "notice-received"


class _Stored(Struct, frozen=True, kw_only=True):
    """A message as the inbox has it. `waits_for` is None for one that was not tried yet, or is applied."""

    processor: str
    account: str
    merchant_id: UUID
    message_id: str
    order_id: UUID | None
    kind: str
    received_at: datetime
    handled_at: datetime | None
    waits_for: str | None
    is_claimed: bool | None
    set_aside: bool

    @property
    def key(self) -> MessageKey:
        return self.processor, self.account, self.merchant_id, self.message_id

    @property
    def stream_id(self) -> UUID:
        """The stream of its dismissal, in its merchant's log."""
        account = f"{self.account}@" if self.account else ""
        return uuid5(self.merchant_id, f"processor-message:{account}{self.processor}:{self.message_id}")


class DismissedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that an operator dismissed, or the ledger, because the processor knows nothing of what it is about.

    Times are real, except an operator's `dismissed_at`, which is the merchant's clock.
    """

    message: str
    kind: str
    processor: str
    account: str
    merchant_id: UUID
    order_id: UUID | None
    received_at: datetime
    waited_for: str
    dismissed_at: datetime
    dismissed_by: str
    reason: str


async def dismiss_message(
    ledger: Ledger,
    connection: Connection,
    message_id: str,
    *,
    reason: str,
    dismissed_by: str,
    processor: str | None = None,
    account: str | None = None,
    merchant_id: UUID | None = None,
) -> DismissedMessage:
    """Dismisses a message and returns what was recorded. Raises CannotRun if it may not be dismissed, a Fault."""
    names = {"message_id": message_id, "processor": processor, "account": account, "merchant_id": merchant_id}
    found = await (await connection.cursor(row_factory=class_row(_Stored)).execute(_FIND, names)).fetchall()
    if not found:
        raise CannotRun(
            f"no message {message_id} was received: `ledger messages list` shows the ids of those that wait"
        )
    if len(found) > 1:
        which = ", ".join(f"{one.account or one.processor} for merchant {one.merchant_id}" for one in found)
        raise CannotRun(
            f"{len(found)} messages have the id {message_id}, from {which}: add --processor, --account or --merchant to name one"
        )
    message = found[0]
    _refuse_applied(message, await _recorded(ledger, message))
    stopped = await connection.execute(_STOP, (*message.key, message.waits_for))
    if stopped.rowcount == 0:
        raise CannotRun(_BEING_TRIED.format(message_id))
    event = await _record(ledger, message, reason, dismissed_by)
    await connection.execute(_END, message.key)
    return _dismissed(message, event)


async def dismissed_messages(ledger: Ledger, connection: Connection) -> Sequence[DismissedMessage]:
    """Returns every dismissed message, in the order of their dismissal. Raises a Fault."""
    found = await (await connection.cursor(row_factory=class_row(_Stored)).execute(_DISMISSED)).fetchall()
    return [_dismissed(message, await _recorded(ledger, message)) for message in found]


_BEING_TRIED: Final = "{} is being tried now: look at `ledger messages list`, and run the command again in a minute"


def _refuse_applied(message: _Stored, dismissal: ProcessorMessageDismissed | None) -> None:
    """Raises CannotRun for a message that has ended, is being tried, or is about to be applied."""
    name = message.message_id
    if message.handled_at is not None and dismissal is not None:
        at = f"{dismissal.at:%Y-%m-%d %H:%M:%SZ}"
        raise CannotRun(f"{name} is dismissed since {at}, by {dismissal.dismissed_by}: {dismissal.reason}")
    if message.handled_at is not None and message.waits_for is not None:
        raise CannotRun(f"{name} is dismissed since {message.handled_at:%Y-%m-%d %H:%M:%SZ}: {message.waits_for}")
    if message.handled_at is not None:
        order = "" if message.order_id is None else f" {message.order_id}"
        raise CannotRun(f"an order{order} recorded {name} at {message.handled_at:%Y-%m-%d %H:%M:%SZ}: it does not wait")
    if message.is_claimed:
        raise CannotRun(_BEING_TRIED.format(name))
    if message.waits_for is None:
        raise CannotRun(f"{name} was not tried yet: only a message that no order can record is dismissed")
    is_notice = message.kind == _NOTICE  # it has no order, and names only what the processor is to be asked about
    if message.waits_for not in UNMATCHED and not message.set_aside and not is_notice:
        raise CannotRun(f"{name} has an order and is tried again: {message.waits_for}")


async def _recorded(ledger: Ledger, message: _Stored) -> ProcessorMessageDismissed | None:
    dismissal, _ = await ledger.journal.load(message.merchant_id, DISMISSED_MESSAGES, message.stream_id)
    return dismissal


async def _record(ledger: Ledger, message: _Stored, reason: str, dismissed_by: str) -> ProcessorMessageDismissed:
    """Records the dismissal, unless a command that was killed has recorded it; returns what the log has."""
    await ledger.journal.open_log(message.merchant_id)  # a message may name a merchant that does not exist
    uow = UnitOfWork(ledger, Actor(merchant_id=message.merchant_id, request_id="messages dismiss"))

    async def attempt(_: Conflict | None) -> Plan:
        if await uow.load(DISMISSED_MESSAGES, message.stream_id) is not None:
            return Plan(changes=[uow.change(DISMISSED_MESSAGES, message.stream_id, [])])
        event = ProcessorMessageDismissed(
            processor=message.processor,
            account=message.account or None,
            message_id=message.message_id,
            kind=message.kind,
            waited_for=message.waits_for or "",
            reason=reason,
            dismissed_by=dismissed_by,
            at=uow.now,
        )
        return Plan(changes=[uow.change(DISMISSED_MESSAGES, message.stream_id, [event])])

    plan = await execute(uow, attempt)
    event: ProcessorMessageDismissed = plan.changes[0].after
    return event


def _dismissed(message: _Stored, event: ProcessorMessageDismissed | None) -> DismissedMessage:
    """Returns a dismissed message. One that the ledger has dismissed has no event."""
    reason = message.waits_for or ""
    return DismissedMessage(
        message=message.message_id,
        kind=message.kind,
        processor=message.processor,
        account=message.account or message.processor,
        merchant_id=message.merchant_id,
        order_id=message.order_id,
        received_at=message.received_at,
        waited_for=reason if event is None else event.waited_for,
        dismissed_at=message.handled_at or message.received_at if event is None else event.at,
        dismissed_by=_LEDGER if event is None else event.dismissed_by,
        reason=reason if event is None else event.reason,
    )
