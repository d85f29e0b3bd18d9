"""Fetches what the processors of merchants' accounts have reported in messages that never arrived.

A processor keeps a list of what it reports. Every ten minutes, what is in the list and not in the inbox is stored
there, as if it had arrived. Two workers that read the same list store the same messages. Accounts are read side by
side, at most four at a time of each merchant: one that hangs delays no other one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import SharedClient
from ledger.postgres.faults import Fault
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import NoticeReceived
from ledger.telemetry.logs import stack_locations

_log = structlog.get_logger()

EVERY: Final = timedelta(minutes=10)
_OVERLAP: Final = timedelta(minutes=10)
"""How far a list is read again: what has just happened may appear in it late."""
_FIRST: Final = timedelta(days=1)
"""How far back the list of an account is read for the first time."""
_OLDEST: Final = timedelta(days=29)
"""How far back at most: Stripe's list has 30 days. The daily comparison finds what is older."""
_SLICE: Final = timedelta(hours=1)
_POLL_S: Final = 60.0
_AT_ONCE: Final = 16
_AT_ONCE_OF_A_MERCHANT: Final = 4
_STARTED_MAX: Final = 256
"""How many accounts may wait for a slot: the next ones are opened when some of these have been read."""
_LOOK_S: Final = 60.0

_READ: Final = "select read_until from processor_account_read where merchant_id = %s and account = %s"
_MOVE_ON: Final = """
insert into processor_account_read as r (merchant_id, account, read_until) values (%s, %s, %s)
on conflict (merchant_id, account) do update set read_until = greatest(r.read_until, excluded.read_until)
"""


class Fetched(Struct, frozen=True):
    """How many messages were missing, and the accounts whose processor did not list its messages.

    Each is a merchant and the name of its account.
    """

    missing: int
    unread: Sequence[tuple[UUID, str]]


class ReadMarks(SharedClient):
    """Until when the list of each account was read. Every method raises DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-read-messages")

    async def read_until(self, merchant_id: UUID, account: str) -> datetime | None:
        """Returns the time (real) up to which the list was read, None if it never was."""
        async with self.turn() as connection:
            row = await (await connection.execute(_READ, (merchant_id, account))).fetchone()
            return None if row is None else row[0]

    async def move_on(self, merchant_id: UUID, account: str, until: datetime) -> None:
        """Stores that the list was read up to a time, unless it was read further."""
        async with self.turn() as connection:
            await connection.execute(_MOVE_ON, (merchant_id, account, until))


class MissedMessages:
    """Fetches the messages of all accounts that are not simulated into the inbox."""

    def __init__(self, ledger: Ledger, inbox: Inbox, marks: ReadMarks) -> None:
        self._ledger = ledger
        self._inbox = inbox
        self._marks = marks

    async def run(self, stop: asyncio.Event) -> None:
        """Fetches every ten minutes until `stop` is set."""
        await run_periodically(
            partial(self.fetch, every=EVERY, stop=stop),
            stop,
            pause_s=_POLL_S,
            log_waiting=lambda reason: _log.warning("messages_wait", reason=reason),
        )

    async def fetch(self, *, every: timedelta = timedelta(0), stop: asyncio.Event | None = None) -> Fetched:
        """Fetches the messages of each account whose list was last read longer than `every` ago.

        An account whose messages cannot be fetched is read the next time. Raises a Fault.
        """
        missing: list[int] = []
        unread: list[tuple[UUID, str]] = []
        slots = FairSlots[tuple[UUID, str]](_AT_ONCE, _AT_ONCE_OF_A_MERCHANT)

        async def read(account: ProcessorAccount, merchant_id: UUID) -> None:
            if stop is None or not stop.is_set():
                found = await self._fetch_alone(account, merchant_id, every)
                if found is None:
                    unread.append((merchant_id, account.name))
                else:
                    missing.append(found)

        try:
            async for account in self._ledger.processors.every():
                if stop is not None and stop.is_set():
                    break
                if account.merchant_id is None or account.processor.capabilities.is_simulated:
                    continue
                while len(slots.keys) >= _STARTED_MAX:
                    await slots.ended(_LOOK_S)
                merchant_id = account.merchant_id
                slots.start(merchant_id, (merchant_id, account.name), partial(read, account, merchant_id))
            await slots.drain()
        finally:
            await slots.cancel()
        return Fetched(sum(missing), sorted(unread))

    async def _fetch_alone(self, account: ProcessorAccount, merchant_id: UUID, every: timedelta) -> int | None:
        """Fetches the messages of one account; returns how many were missing, None if they could not be fetched.

        Its failures are its own: they are logged. Raises a Fault.
        """
        ids = {"merchant_id": str(merchant_id), "account": account.name}
        try:
            return await self._fetch(account, merchant_id, every)
        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError) as fault:
            _log.warning("messages_wait", reason=type(fault).__name__, **ids)
        except Fault:
            raise
        except Exception as fault:  # noqa: BLE001 - an account whose list cannot be read must not stop the others
            _log.error("messages_not_fetched", reason=type(fault).__name__, at=stack_locations(fault), **ids)
        return None

    async def _fetch(self, account: ProcessorAccount, merchant_id: UUID, every: timedelta) -> int:
        now = datetime.now(UTC)
        known = await self._marks.read_until(merchant_id, account.name)
        if known is not None and known > now - every:
            return 0
        start = max(now - _FIRST if known is None else known - _OVERLAP, now - _OLDEST)
        fetched = 0
        while start < now:
            end = min(start + _SLICE, now)
            fetched += await self._keep(account, merchant_id, start, end)
            await self._marks.move_on(merchant_id, account.name, end)
            start = end
        return fetched

    async def _keep(self, account: ProcessorAccount, merchant_id: UUID, start: datetime, end: datetime) -> int:
        """Stores what the inbox lacks of a part of an account's list; returns how many messages that were."""
        processor = account.processor.capabilities.name
        notices = [
            NoticeReceived(
                processor=processor,
                account=None if account.name == processor else account.name,
                merchant_id=merchant_id,
                message_id=notice.message_id,
                occurred_at=notice.occurred_at,
                kind=notice.kind,
                object_id=notice.object_id,
                body_hash="",
            )
            for notice in await account.processor.notices(start, end)
            if notice.object_id
        ]
        missing: Sequence[NoticeReceived] = await self._inbox.missing(notices)
        for notice in missing:
            await self._inbox.receive(notice)
        return len(missing)
