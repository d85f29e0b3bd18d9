"""The inbox: a message is stored first, counts once, and is claimed again until an order has applied it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.processors.shop import NOW, Shop
from tests.standbys import waiting_backends, without_standby
from uuid_utils.compat import uuid7

from ledger.background.inbox.consumer import Applied, DeadLetter, InboxConsumer, RetryLater, fetch
from ledger.background.inbox.missed import _OLDEST
from ledger.background.inbox.pending import pending_messages, retry_messages
from ledger.background.inbox.retention import KEPT, delete_applied
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.operations.context.clock import Clock
from ledger.postgres.connection import connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import DepositReceived, DisputeOpened, DisputeWon, Message, SettlementMatched
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio


@pytest.fixture
async def inbox(database_url: str) -> AsyncIterator[Inbox]:
    async with Inbox(database_url) as inbox:
        yield inbox


@pytest.fixture
async def another(database_url: str) -> AsyncIterator[Inbox]:
    """The same inbox as another worker sees it."""
    async with Inbox(database_url) as inbox:
        yield inbox


def opened(
    n: int = 1, *, amount: int = 100, merchant_id: UUID | None = None, order_id: UUID | None = None
) -> DisputeOpened:
    return DisputeOpened(
        processor="sandbox",
        message_id=f"open {n}",
        merchant_id=merchant_id or MERCHANT,
        occurred_at=NOW,
        order_id=order_id,
        dispute_id=f"d{n}",
        processor_reference="sbx_1",
        amount=Decimal(amount),
    )


def won(n: int = 1, order_id: UUID | None = None) -> DisputeWon:
    return DisputeWon(
        processor="sandbox",
        message_id=f"won {n}",
        merchant_id=MERCHANT,
        occurred_at=NOW,
        order_id=order_id,
        dispute_id=f"d{n}",
        processor_reference="sbx_1",
    )


MERCHANT = uuid7()


def all_due(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update processor_message set next_try_at = now()")


async def test_a_message_counts_once_whichever_process_receives_it(inbox: Inbox, another: Inbox):
    entries = await asyncio.gather(*[at.receive(opened()) for at in (inbox, another) * 10])
    assert Counter(entry.is_new for entry in entries) == {True: 1, False: 19}
    assert len({entry.received_at for entry in entries}) == 1
    assert len(await inbox.claim()) == 1


async def test_a_second_message_with_the_same_id_changes_nothing(inbox: Inbox):
    await inbox.receive(opened(amount=100))
    assert (await inbox.receive(opened(amount=900))).message == opened(amount=100)
    assert await inbox.claim() == [opened(amount=100)]


async def test_a_message_that_is_stored_already_is_on_the_standby_before_its_sender_may_forget_it(
    database_url: str, inbox: Inbox
):
    async with without_standby(database_url):
        left = set(await waiting_backends(database_url))
        async with Inbox(database_url) as first:
            stored = asyncio.create_task(first.receive(opened()))
            while not (waiting := set(await waiting_backends(database_url)) - left):
                assert not stored.done()
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(
                    "select pg_cancel_backend(%s)", [*waiting]
                )  # it is visible now, on this server alone
            with pytest.raises(DatabaseUnavailable):
                await stored
        repeated = asyncio.create_task(inbox.receive(opened()))
        async with asyncio.timeout(10):
            while not set(await waiting_backends(database_url)) - left:
                assert not repeated.done()
    assert not (await repeated).is_new


async def test_message_ids_are_unique_within_a_merchant(inbox: Inbox):
    assert (await inbox.receive(opened())).is_new
    assert (await inbox.receive(opened(merchant_id=uuid7()))).is_new


async def test_two_workers_never_claim_the_same_message(inbox: Inbox, another: Inbox):
    for n in range(60):
        await inbox.receive(opened(n))
    claimed = await asyncio.gather(*[at.claim(7) for at in (inbox, another) * 8])
    ids = [message.message_id for batch in claimed for message in batch]
    assert len(ids) == len(set(ids)) == 60


async def test_what_was_applied_a_month_ago_is_deleted_except_lines_of_settlements(database_url: str, inbox: Inbox):
    line = SettlementMatched(
        processor="sandbox",
        message_id="line",
        merchant_id=MERCHANT,
        occurred_at=NOW,
        processor_reference="sbx_1",
        batch_id="b1",
    )
    kept = (opened(1), opened(2), opened(3), line)
    old = [opened(n) for n in range(10, 13)]
    for message in (*kept, *old):
        await inbox.receive(message)
    young, waiting, dismissed, _ = kept
    for message in (young, line, *old):
        await inbox.handled(message)
    await inbox.retry_later(waiting, "later")
    await inbox.dismiss(dismissed, "nobody knows it")
    with psycopg.connect(database_url, autocommit=True) as connection:
        age = "update processor_message set handled_at = handled_at - interval '31 days' where message_id <> %s"
        connection.execute(age, (young.message_id,))
        assert await delete_applied(inbox, asyncio.Event(), slice_size=2) == 3
        left = {row[0] for row in connection.execute("select message_id from processor_message")}
    assert left == {message.message_id for message in kept}
    stopped = asyncio.Event()
    stopped.set()
    assert await delete_applied(inbox, stopped) == 0
    assert KEPT > _OLDEST, "a list is read back only to what the inbox still has"


async def test_a_message_that_another_worker_is_claiming_is_left_to_it(database_url: str, inbox: Inbox):
    await inbox.receive(opened(1))
    with psycopg.connect(database_url) as other:
        other.execute("select from processor_message for update")
        await inbox.receive(opened(2))
        assert await inbox.claim() == [opened(2)]


async def test_another_worker_claims_the_messages_of_a_killed_one(database_url: str, inbox: Inbox):
    async with Inbox(database_url, lease_s=0.2) as killed:
        await killed.receive(opened())
        assert len(await killed.claim()) == 1
    assert await inbox.claim() == []
    await asyncio.sleep(0.3)
    assert await inbox.claim() == [opened()]


async def test_an_applied_message_is_not_claimed_beside_one_that_is_due(database_url: str, inbox: Inbox):
    for n in (1, 2):
        await inbox.receive(opened(n))
    await inbox.handled(opened(1))
    all_due(database_url)
    assert await inbox.claim() == [opened(2)]


async def test_a_claim_takes_from_each_merchant_in_turn(inbox: Inbox, database_url: str):
    busy, *others = sorted(uuid7() for _ in range(4))
    for n in range(50):
        await inbox.receive(opened(n, merchant_id=busy))
    for merchant_id in others:
        await inbox.receive(opened(merchant_id=merchant_id))
    assert Counter(m.merchant_id for m in await inbox.claim(6)) == {busy: 3} | dict.fromkeys(others, 1)
    for _ in range(3):
        for merchant_id in others:
            await inbox.receive(opened(100, merchant_id=merchant_id))
        assert [m.merchant_id for _ in range(4) for m in await inbox.claim(1)] == [busy, *others]
        for merchant_id in others:
            await inbox.handled(opened(100, merchant_id=merchant_id))
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("delete from processor_message where handled_at is not null")


async def test_a_claim_leaves_a_merchant_no_more_than_it_may_have_running(inbox: Inbox):
    busy, other = uuid7(), uuid7()
    for n in range(50):
        await inbox.receive(opened(n, merchant_id=busy))
    await inbox.receive(opened(merchant_id=other))
    claimed = await inbox.claim(20, of_a_merchant=5, running={busy: 3})
    assert Counter(m.merchant_id for m in claimed) == {busy: 2, other: 1}
    assert await inbox.claim(20, of_a_merchant=5, running={busy: 5, other: 1}) == []


async def test_of_one_order_the_oldest_message_is_claimed_alone(inbox: Inbox, another: Inbox):
    order_id = uuid7()
    for n in (2, 1, 3):
        await inbox.receive(opened(n, order_id=order_id))
    await inbox.receive(opened(4, order_id=MERCHANT))
    assert await inbox.claim() == [opened(2, order_id=order_id), opened(4, order_id=MERCHANT)]
    assert await another.claim() == []
    await inbox.handled(opened(2, order_id=order_id))
    assert await another.claim() == [opened(1, order_id=order_id)]
    await another.retry_later(opened(1, order_id=order_id), "something else")
    assert await inbox.claim() == [opened(3, order_id=order_id)], "what waits does not hold up what follows it"


async def test_the_next_message_of_an_order_is_claimed_when_the_lease_on_another_ends(database_url: str, inbox: Inbox):
    order_id = uuid7()
    async with Inbox(database_url, lease_s=0.2) as killed:
        for n in (1, 2):
            await killed.receive(opened(n, order_id=order_id))
        assert await killed.claim() == [opened(1, order_id=order_id)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update processor_message set next_try_at = 'infinity' where message_id = 'open 1'")
    assert await inbox.claim() == []
    await asyncio.sleep(0.3)
    assert await inbox.claim() == [opened(2, order_id=order_id)]


async def test_a_message_that_another_one_wakes_keeps_the_lease_of_its_worker(
    inbox: Inbox, another: Inbox, database_url: str
):
    order_id = uuid7()
    await inbox.receive(won(order_id=order_id))
    await inbox.retry_later(won(order_id=order_id), "the dispute's opening")
    all_due(database_url)
    assert await inbox.claim() == [won(order_id=order_id)]
    await another.receive(opened(order_id=order_id))
    await another.handled(opened(order_id=order_id))
    assert await another.claim() == []


async def test_a_claim_reads_no_message_that_waits(database_url: str, inbox: Inbox):
    await inbox.receive(opened(1, order_id=uuid7()))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table processor_message set (autovacuum_enabled = off)")  # the statistics are of now
        connection.execute("analyze processor_message")
        connection.execute(
            """
            insert into processor_message (processor, merchant_id, message_id, order_id, body, tries, next_try_at, waits_for)
            select processor, merchant_id, n::text, gen_random_uuid(), body, 9,
                   case when mod(n, 2) = 0 then now() + interval '5 minutes' else 'infinity' end, 'an order'
              from processor_message, generate_series(1, 5000) n
            """
        )
    execute, read = inbox._execute, 0

    async def explained(statement: str, values: Any) -> Any:
        nonlocal read
        plan = await (await execute(f"explain (analyze, format json) {statement}", values)).fetchone()
        assert plan is not None
        read = sum(rows_read(plan[0][0]["Plan"]))
        return await execute("select now(), body from processor_message where false", ())

    inbox._execute = explained  # type: ignore[method-assign]
    assert await inbox.claim() == []
    assert 0 < read < 200  # of 5,000, by whatever index the planner takes, which expects one row
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select max(claimed_until) is not null from processor_message").fetchone()
        assert row == (True,), "the one that may be tried was claimed"


def rows_read(plan: dict[str, Any]) -> Iterator[float]:
    """Yields how many rows each scan of the inbox has read, returned or not."""
    if plan.get("Relation Name") == "processor_message":
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from rows_read(part)


async def test_a_message_that_cannot_be_applied_is_retried_with_back_off(database_url: str, inbox: Inbox):
    await inbox.receive(opened())
    pauses = []
    for _ in range(12):
        all_due(database_url)
        [message] = await inbox.claim()
        await inbox.retry_later(message, "an order")
        with psycopg.connect(database_url) as connection:
            row = connection.execute("select next_try_at - now() from processor_message").fetchone()
            pauses.append(row[0])
    seconds = [round(pause / timedelta(seconds=1)) for pause in pauses]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    entry = await inbox.receipt(("sandbox", "", MERCHANT, "open 1"))
    assert entry is not None
    assert entry.waits_for == "an order"


class Disputes:
    """The disputes of an order, simplified: one is won only after it was opened."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.won: list[str] = []

    async def opened(self, message: DisputeOpened) -> Applied | RetryLater:
        self.open.add(message.dispute_id)
        return Applied()

    async def decided(self, message: DisputeWon) -> Applied | RetryLater:
        if message.dispute_id not in self.open:
            return RetryLater("the dispute's opening")
        self.won.append(message.dispute_id)
        return Applied()


async def test_an_early_message_is_kept_and_applied_after_the_one_before_it(inbox: Inbox):
    disputes, order_id = Disputes(), uuid7()
    work = InboxConsumer(inbox, {DisputeOpened: disputes.opened, DisputeWon: disputes.decided})
    early = await work.receive_and_apply(won(order_id=order_id))
    assert (early.handled_at, early.waits_for) == (None, "the dispute's opening")
    assert await work.sweep() == 0
    assert (await work.receive_and_apply(opened(order_id=order_id))).handled_at is not None
    assert await work.sweep() == 1, "what waits for the same order is tried at once"
    assert disputes.won == ["d1"]
    assert await work.sweep() == 0


async def test_messages_run_side_by_side_and_those_of_an_order_one_after_the_other(inbox: Inbox, another: Inbox):
    orders, running, most, applied = (
        [uuid7() for _ in range(6)],
        Counter[UUID](),
        Counter[UUID](),
        list[DisputeOpened](),
    )
    together = asyncio.Barrier(len(orders))

    async def slow(message: DisputeOpened) -> Applied:
        assert message.order_id is not None
        running[message.order_id] += 1
        most[message.order_id] = max(most[message.order_id], running[message.order_id])
        await together.wait()  # it opens only while a message of every order runs
        running[message.order_id] -= 1
        applied.append(message)
        return Applied()

    for n in range(24):
        await inbox.receive(opened(n, order_id=orders[n % 6]))
    async with asyncio.timeout(60):
        await asyncio.gather(*[InboxConsumer(at, {DisputeOpened: slow}).sweep() for at in (inbox, another)])
        while len(applied) < 24:
            await InboxConsumer(inbox, {DisputeOpened: slow}).sweep()
    assert most == dict.fromkeys(orders, 1)
    for n, order_id in enumerate(orders):
        of_order = [message.message_id for message in applied if message.order_id == order_id]
        assert of_order == [f"open {number}" for number in range(n, 24, 6)]


async def test_a_merchant_whose_messages_hang_delays_no_other(inbox: Inbox):
    slow, other, hang, applied = uuid7(), uuid7(), asyncio.Event(), list[UUID]()

    async def take(message: DisputeOpened) -> Applied:
        if message.merchant_id == slow:
            await hang.wait()
        applied.append(message.merchant_id)
        return Applied()

    for n in range(30):
        await inbox.receive(opened(n, merchant_id=slow))
    stop = asyncio.Event()
    work = InboxConsumer(inbox, {DisputeOpened: take})
    running = asyncio.create_task(work.run(stop))
    async with asyncio.timeout(60):
        while not work._slots.running[slow]:  # noqa: ASYNC110 - the consumer sends no event
            await asyncio.sleep(0.01)
        await inbox.receive(opened(merchant_id=other))
        while not applied:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (applied, work._slots.running[slow]) == ([other], 8)
        stop.set()
        hang.set()
        await running
    assert Counter(applied) == {other: 1, slow: 8}, "what has begun is finished, and nothing else begins"


async def test_an_applied_message_is_not_applied_again(inbox: Inbox):
    disputes = Disputes()
    work = InboxConsumer(inbox, {DisputeOpened: disputes.opened, DisputeWon: disputes.decided})
    await work.receive_and_apply(opened())
    first = await work.receive_and_apply(won())
    assert await work.receive_and_apply(won()) == first
    assert disputes.won == ["d1"]


async def test_an_applied_deposit_that_is_sent_again_differs_only_by_the_account_that_left_it(inbox: Inbox):
    deposit = DepositReceived(
        processor="stp",
        message_id="abono",
        merchant_id=MERCHANT,
        occurred_at=NOW,
        reference="646180157000000004",
        amount=Decimal(100),
        currency="MXN",
        processor_reference="abono",
        sender_clabe="032180000118359719",
    )
    with capture_logs() as logs:
        assert (await inbox.receive(deposit)).message == deposit
        await inbox.handled(deposit)
        assert (await inbox.receive(deposit)).message == replace(deposit, sender_clabe=None)
        assert logs == []
        await inbox.receive(replace(deposit, amount=Decimal(7)))
    assert [line["event"] for line in logs] == ["processor_message_differs"]


async def test_a_message_without_a_handler_waits_without_end(database_url: str, inbox: Inbox):
    work = InboxConsumer(inbox, {})
    assert (await work.receive_and_apply(opened())).waits_for == "this release has no handler for DisputeOpened"
    assert await work.sweep() == 0
    all_due(database_url)
    assert await work.sweep() == 1


async def test_a_message_whose_order_has_a_lost_file_waits_for_the_file(inbox: Inbox):
    async def unreadable(_: Message) -> Applied:
        raise ArchiveUnavailable("bring the file back as it was")

    work = InboxConsumer(inbox, {DisputeOpened: unreadable})
    entry = await work.receive_and_apply(opened())
    assert (entry.handled_at, entry.waits_for) == (None, "a file of its order's archived events cannot be read")


async def test_a_message_that_contradicts_its_order_is_retried_only_by_an_operator(
    database_url: str, inbox: Inbox, another: Inbox
):
    tried = []

    async def contradicts(message: Message) -> DeadLetter:
        tried.append(message.message_id)
        return DeadLetter("its amount is none")

    disputes = Disputes()
    work = InboxConsumer(inbox, {DisputeOpened: contradicts, DisputeWon: disputes.decided})
    with capture_logs() as logs:
        entry = await work.receive_and_apply(opened())
    assert (entry.handled_at, entry.waits_for) == (None, "its amount is none")
    assert [(line["event"], line["message_id"]) for line in logs] == [("processor_message_set_aside", "open 1")]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update processor_message set next_try_at = next_try_at - interval '10 years'")
    assert (await work.sweep(), tried) == (0, ["open 1"]), "it is never due by itself"
    async with await connect(database_url, "test") as operator:
        (waiting,) = await pending_messages(operator)
        assert (waiting.message, waiting.kind, waiting.set_aside, waiting.next_at) == (
            "open 1", "dispute-opened", True, None,
        )  # fmt: skip
        assert await retry_messages(operator, ["another"]) == []
        assert await retry_messages(operator, ["open 1"]) == ["open 1"]
    assert (await InboxConsumer(another, {DisputeOpened: disputes.opened}).sweep(), disputes.open) == (1, {"d1"})
    async with await connect(database_url, "test") as operator:
        assert (await pending_messages(operator), await retry_messages(operator, None)) == ([], [])


async def test_a_message_that_fails_does_not_delay_the_others(inbox: Inbox):
    disputes = Disputes()

    async def fails(_: Message) -> Applied:
        raise ZeroDivisionError

    work = InboxConsumer(inbox, {DisputeOpened: disputes.opened, DisputeWon: fails})
    await inbox.receive(won())
    await inbox.receive(opened())
    assert await work.sweep() == 2
    assert disputes.open == {"d1"}
    entry = await inbox.receipt(("sandbox", "", MERCHANT, "won 1"))
    assert entry is not None
    assert entry.waits_for == "it failed with ZeroDivisionError"


class FixedClock(Clock):
    """A clock that always shows one time."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self, merchant_id: UUID) -> datetime:  # noqa: ARG002 - the same for every merchant
        return self._at


async def test_the_sandboxs_messages_arrive_by_their_merchants_clock(inbox: Inbox, sandbox: SandboxProcessor):
    shop = Shop(sandbox)
    await shop.authorized("4000000000000259", capture=True)
    assert await fetch(sandbox.outbox, inbox, FixedClock(NOW)) == 0
    assert await fetch(sandbox.outbox, inbox, FixedClock(NOW + timedelta(minutes=1))) == 1
    assert await fetch(sandbox.outbox, inbox, FixedClock(NOW + timedelta(minutes=1))) == 0
    [message] = await inbox.claim()
    assert isinstance(message, DisputeOpened)
    assert message.payment_id == shop.payment_id
