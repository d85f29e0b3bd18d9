"""A message that no order will record is dismissed once, with an event; one that an order may still record is not."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ledger.background.inbox import dismissal
from ledger.background.inbox.dismissal import DismissedMessage, dismiss_message, dismissed_messages
from ledger.background.inbox.pending import pending_messages, retry_messages
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import UNKNOWN_NAME, UNKNOWN_ORDER, UNMATCHED
from ledger.postgres.connection import Connection
from ledger.processors.inbox_store import Inbox
from ledger.settings import CannotRun
from projections.queries import Queries

pytestmark = pytest.mark.anyio

MERCHANT, OTHER = UUID(int=1), UUID(int=2)  # neither is registered: a message may name any merchant
INSERT = """
insert into processor_message (processor, merchant_id, message_id, body, waits_for, next_try_at)
values (%s, %s, 'm', '{"type":"deposit-received","senderClabe":"032180000118359719"}', %s, %s)
"""
WANTED = {"reason": "of another account", "dismissed_by": "ana"}


async def message(
    connection: Connection, waits_for: str | None = UNKNOWN_NAME, due: str = "tomorrow", merchant: UUID = MERCHANT
) -> None:
    await connection.execute(INSERT, ("stp", merchant, waits_for, due))


async def dismiss(ledger: Ledger, connection: Connection, **names: Any) -> DismissedMessage:
    return await dismiss_message(ledger, connection, "m", **WANTED, **names)


@pytest.mark.parametrize(
    ("waits_for", "due"),
    [(UNKNOWN_NAME, "tomorrow"), (UNKNOWN_ORDER, "now"), ("it is in another currency", "infinity")],
)
async def test_what_no_order_matches_or_was_set_aside_ends(
    ledger: Ledger, connection: Connection, database_url: str, waits_for: str, due: str
):
    await message(connection, waits_for, due)
    queries = Queries(database_url)
    await queries.start()
    assert (await queries.waiting_messages(UNMATCHED, 60.0))[0] == 1
    ended = await dismiss(ledger, connection)
    assert (ended.waited_for, ended.reason, ended.dismissed_by) == (waits_for, "of another account", "ana")
    assert await pending_messages(connection) == await retry_messages(connection, None) == []
    assert (await queries.waiting_messages(UNMATCHED, 60.0))[0] == 0
    assert list(await dismissed_messages(ledger, connection)) == [ended]
    stored = await (await connection.execute("select body from processor_message")).fetchone()
    assert stored == ('{"type":"deposit-received"}',), "the payer's account has no use any more"
    await queries.stop()


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("handled_at = now(), waits_for = null", "an order recorded m at "),
        ("claimed_until = now() + interval '1 hour'", "m is being tried now"),
        ("waits_for = null", "m was not tried yet"),
        ("waits_for = 'its key is unavailable'", "m has an order and is tried again: its key is unavailable"),
    ],
)
async def test_what_an_order_recorded_or_may_record_is_kept(
    ledger: Ledger, connection: Connection, change: str, answer: str
):
    await message(connection)
    await connection.execute(f"update processor_message set {change}".encode())
    with pytest.raises(CannotRun, match=answer):
        await dismiss(ledger, connection)
    assert await dismissed_messages(ledger, connection) == []


async def test_a_message_that_a_worker_takes_meanwhile_is_kept(
    ledger: Ledger, connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    await message(connection)
    read = dismissal._recorded

    async def claimed_after(*arguments: Any) -> Any:
        await connection.execute("update processor_message set claimed_until = now() + interval '1 minute'")
        return await read(*arguments)

    monkeypatch.setattr(dismissal, "_recorded", claimed_after)
    with pytest.raises(CannotRun, match="m is being tried now"):
        await dismiss(ledger, connection)
    assert len(await pending_messages(connection)) == 1


async def test_no_worker_takes_a_message_that_is_being_dismissed(
    ledger: Ledger, connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    await message(connection, due="now")
    record = dismissal._record

    async def killed(*arguments: Any) -> Any:
        await record(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(dismissal, "_record", killed)
    with pytest.raises(KeyboardInterrupt):
        await dismiss(ledger, connection)
    async with Inbox(database_url) as inbox:
        assert await inbox.claim() == []
    assert [one.set_aside for one in await pending_messages(connection)] == [True]
    monkeypatch.setattr(dismissal, "_record", record)
    with pytest.raises(CannotRun, match="m is being tried now"):  # by the killed command, for a minute
        await dismiss(ledger, connection)
    await connection.execute("update processor_message set claimed_until = now()")
    ended = await dismiss_message(ledger, connection, "m", reason="another reason", dismissed_by="luz")
    assert (ended.reason, ended.dismissed_by) == ("of another account", "ana"), "the log has the first dismissal"
    assert await pending_messages(connection) == []


async def test_an_id_that_two_merchants_messages_have_needs_the_merchant(ledger: Ledger, connection: Connection):
    await message(connection)
    await message(connection, merchant=OTHER)
    with pytest.raises(
        CannotRun, match=f"2 messages have the id m, from stp for merchant {MERCHANT}, stp for merchant"
    ):
        await dismiss(ledger, connection)
    assert (await dismiss(ledger, connection, merchant_id=OTHER)).merchant_id == OTHER
    with pytest.raises(CannotRun, match="no message m was received"):
        await dismiss(ledger, connection, processor="other")
