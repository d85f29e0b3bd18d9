"""What never arrived is fetched from each account by itself: one that hangs or fails delays no other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from uuid_utils.compat import uuid7

from ledger.background.inbox.missed import Fetched, MissedMessages
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Capabilities
from ledger.processors.messages import MessageNotice, NoticeReceived

pytestmark = pytest.mark.anyio

STRIPE = Capabilities(name="stripe", late_arrival_s=1)


class Marks:
    async def read_until(self, *_: Any) -> datetime | None:
        return datetime.now(UTC) - timedelta(minutes=5)

    async def move_on(self, *_: Any) -> None:
        pass


class Inbox:
    def __init__(self) -> None:
        self.received: list[str] = []
        self.has_received = asyncio.Event()

    async def missing(self, received: Sequence[NoticeReceived]) -> Sequence[NoticeReceived]:
        return received

    async def receive(self, message: NoticeReceived) -> None:
        self.received.append(message.account_name)
        self.has_received.set()


async def lists_one(*_: datetime) -> list[MessageNotice]:
    return [MessageNotice(message_id="evt_1", occurred_at=datetime.now(UTC), kind="x.y", object_id="pi_1")]


def fetching(inbox: Inbox, **accounts: Any) -> MissedMessages:
    async def every() -> AsyncIterator[ProcessorAccount]:
        for name, notices in accounts.items():
            processor: Any = SimpleNamespace(capabilities=STRIPE, notices=notices)
            yield ProcessorAccount(name=name, processor=processor, merchant_id=uuid7())

    ledger: Any = SimpleNamespace(processors=SimpleNamespace(every=every))
    return MissedMessages(ledger, inbox, Marks())  # type: ignore[arg-type]


async def test_an_account_that_hangs_and_one_that_fails_delay_no_other_one() -> None:
    inbox = Inbox()

    async def hangs(*_: datetime) -> list[MessageNotice]:
        await inbox.has_received.wait()
        return []

    async def fails(*_: datetime) -> list[MessageNotice]:
        raise ValueError("sk_test_1")

    with capture_logs() as logs:
        async with asyncio.timeout(10):
            fetched = await fetching(inbox, hangs=hangs, fails=fails, good=lists_one).fetch()
    assert (fetched.missing, [account for _, account in fetched.unread]) == (1, ["fails"])
    assert inbox.received == ["good"]
    assert [(each["event"], each["account"], each["reason"]) for each in logs] == [
        ("messages_not_fetched", "fails", "ValueError")
    ]
    assert "sk_test_1" not in str(logs)


async def test_a_database_that_is_away_ends_the_round_and_a_stop_begins_no_account() -> None:
    inbox = Inbox()

    async def away(*_: datetime) -> list[MessageNotice]:
        raise DatabaseUnavailable("OperationalError")

    with pytest.raises(DatabaseUnavailable):
        await fetching(inbox, away=away).fetch()
    stop = asyncio.Event()
    stop.set()
    assert await fetching(inbox, good=lists_one).fetch(stop=stop) == Fetched(0, [])
    assert inbox.received == []
