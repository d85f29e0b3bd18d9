"""A merchant whose log cannot be read is in quarantine, counted by a metric, and delays no other merchant."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.background.conftest import LookAfter, Open, register, rows
from tests.background.test_inbox import awaiting_transfer, deposited
from tests.metric_values import metric_value
from tests.operations.conftest import an_order, by_card
from tests.sealing import MASTER_KEY

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.effects import Effect
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.dispatcher import AnyReaction, Dispatcher
from ledger.background.reactions.order_timers import OrderTimers
from ledger.background.reactions.payment_index import PaymentIndex
from ledger.background.reactions.quarantine import Quarantine
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.jobs import Jobs
from ledger.background.worker import run
from ledger.domain.orders.terms import BillingAddress, CaptureMethod
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.reader import SeenEvent
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection
from ledger.processors.inbox_store import Inbox
from ledger.settings import Settings
from ledger.telemetry.metrics import PROCESS

pytestmark = pytest.mark.anyio

HOME = BillingAddress(address="Av. Insurgentes Sur 1602", country="MX")
UNKNOWN, CORRUPT = "sealing_key_id = 'another'", "wrapped = decode(repeat('00', 60), 'hex')"


async def held_order(ledger: Ledger, actor: Actor) -> str:
    """Returns an order with personal data whose authorisation expires some day."""
    draft = an_order("1", by_card(billing_address=HOME), billing_address=HOME, capture_method=CaptureMethod.MANUAL)
    return str((await create_order(ledger, actor, draft)).order.terms.order_id)


def with_due_times(url: str) -> set[str]:
    return {str(stream) for (stream,) in rows(url, "select stream_id from due_time")}


def left_behind(url: str) -> set[UUID]:
    query = "select merchant_id from reaction_cursor c join merchant_head h using (merchant_id) where c.position < h.position"
    return {merchant_id for (merchant_id,) in rows(url, query)}


@contextmanager
def without_key(url: str, actor: Actor, wrong: str = UNKNOWN) -> Iterator[None]:
    """Makes the row of the data key of a merchant's only customer wrong for as long as the context lasts."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "select sealing_key_id, wrapped from data_key where merchant_id = %s"
        kept = connection.execute(query, [actor.merchant_id]).fetchone()
        assert kept is not None
        connection.execute(f"update data_key set {wrong} where merchant_id = %s", [actor.merchant_id])  # type: ignore[arg-type]
        yield
        query = "update data_key set sealing_key_id = %s, wrapped = %s where merchant_id = %s"
        connection.execute(query, [*kept, actor.merchant_id])


@pytest.mark.parametrize("reaction", [LookAfter(), OrderTimers()], ids=["reads the event", "loads the order"])
@pytest.mark.parametrize("wrong", [UNKNOWN, CORRUPT])
async def test_other_merchants_are_dispatched_and_the_merchant_itself_when_its_key_is_back(
    reaction: AnyReaction, wrong: str, ledger: Ledger, open_another: Open, jobs: Jobs, connection: Connection,
    database_url: str,
) -> None:  # fmt: skip
    merchants = [await register(ledger) for _ in range(3)]
    made = [await held_order(ledger, actor) for actor in merchants]
    unlucky = merchants[1]
    now_s = 0.0
    dispatcher = Dispatcher((await open_another()).journal, jobs, [reaction])  # it has met none of the keys
    dispatcher.quarantine = Quarantine(lambda: now_s)
    with without_key(database_url, unlucky, wrong), capture_logs() as logs:
        assert await dispatcher.sweep(connection), "a merchant in quarantine does not count"
        assert await dispatcher.sweep(connection)
        assert with_due_times(database_url) == {made[0], made[2]}
        assert left_behind(database_url) == {unlucky.merchant_id}
        assert dispatcher.quarantine.merchants == 1
        now_s = 1.5
        assert await dispatcher.sweep(connection)
        now_s = 3.4  # the second pause is two seconds
        assert await dispatcher.sweep(connection)
    lines = [line for line in logs if line["event"] == "merchant_set_aside"]
    assert [(line["merchant_id"], line["tries"]) for line in lines] == [
        (str(unlucky.merchant_id), 1),
        (str(unlucky.merchant_id), 2),
    ]
    assert await dispatcher.sweep(connection)
    assert left_behind(database_url) == {unlucky.merchant_id}, "it is not read again before its pause is over"
    now_s = 3.6
    assert await dispatcher.sweep(connection)
    assert with_due_times(database_url) == set(made)
    assert (left_behind(database_url), dispatcher.quarantine.merchants) == (set(), 0)


class FailsFor(LookAfter):
    """Fails at the events of one merchant, as at a value that nothing expected."""

    def __init__(self, stream_id: str) -> None:
        self._stream_id = stream_id

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        if str(recorded.stream_id) == self._stream_id:
            raise OverflowError("date value out of range for Ana")
        return super().react(recorded)


async def test_a_merchant_at_whose_events_a_reaction_fails_delays_no_other(
    ledger: Ledger, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    merchants = [await register(ledger) for _ in range(3)]
    made = [await held_order(ledger, actor) for actor in merchants]
    dispatcher = Dispatcher(ledger.journal, jobs, [FailsFor(made[1])])
    with capture_logs() as logs:
        await dispatcher.sweep(connection)
        await dispatcher.sweep(connection)
    assert with_due_times(database_url) == {made[0], made[2]}
    assert left_behind(database_url) == {merchants[1].merchant_id}
    assert [line["reason"] for line in logs if line["event"] == "merchant_set_aside"] == ["OverflowError"]


async def test_a_merchant_whose_log_another_worker_has_read_leaves_the_quarantine(
    ledger: Ledger, open_another: Open, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    merchant = await register(ledger)
    await held_order(ledger, merchant)
    here = Dispatcher((await open_another()).journal, jobs, [OrderTimers()])
    now_s = 0.0
    here.quarantine = Quarantine(lambda: now_s)
    with without_key(database_url, merchant):
        await here.sweep(connection)
    assert here.quarantine.merchants == 1
    await Dispatcher(ledger.journal, jobs, [OrderTimers()]).sweep(connection)
    now_s = 2.0
    await here.sweep(connection)
    assert here.quarantine.merchants == 0


async def test_a_reaction_that_reads_nothing_sealed_continues_beside_one_that_does(
    ledger: Ledger, open_another: Open, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    merchant = await register(ledger)
    await held_order(ledger, merchant)
    dispatcher = Dispatcher((await open_another()).journal, jobs, [LookAfter(), PaymentIndex()])
    cursors = (
        "select reaction from reaction_cursor c join merchant_head h using (merchant_id) where c.position = h.position"
    )
    with without_key(database_url, merchant):
        assert await dispatcher.sweep(connection)
        assert rows(database_url, cursors) == [(PaymentIndex.name,)]
        assert rows(database_url, "select count(*) from payment_name") == [(2,)]
        assert with_due_times(database_url) == set()


@pytest.mark.parametrize(("wrong", "said"), [(UNKNOWN, KeyUnavailable), (CORRUPT, SealBroken)])
async def test_a_clock_is_not_moved_past_a_log_that_cannot_be_read(
    wrong: str, said: type[Exception], ledger: Ledger, open_another: Open, database_url: str
) -> None:
    merchant = await register(ledger)
    await held_order(ledger, merchant)
    hand = ClockAdvancer(database_url, await open_another(), REACTIONS, HANDLERS)
    with without_key(database_url, merchant, wrong), pytest.raises(said):
        await hand.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(days=30))


async def test_a_message_whose_order_cannot_be_read_delays_no_other(
    ledger: Ledger, open_another: Open, database_url: str
) -> None:
    merchants = [await register(ledger) for _ in range(2)]
    messages_sent = []
    for actor in merchants:
        order = await awaiting_transfer(ledger, actor, billing_address=HOME)
        messages_sent.append(deposited(actor, order))
    other = await open_another()
    async with open_delivery(database_url, other) as delivery, Inbox(database_url) as inbox:
        for message in messages_sent:
            await delivery.keep(message)
        messages = delivery._consumer
        with without_key(database_url, merchants[0]):
            assert await messages.sweep() == 2
            receipts = [await inbox.receipt(("sandbox", "", one.merchant_id, one.message_id)) for one in messages_sent]
            assert [one and one.waits_for for one in receipts] == [
                "the key of its customer's data is unavailable",
                None,
            ]
        assert (await messages.receive_and_apply(messages_sent[0])).handled_at is not None


async def test_the_worker_continues_and_counts_the_merchants_in_quarantine(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    merchants = [await register(ledger) for _ in range(2)]
    made = [await held_order(ledger, actor) for actor in merchants]
    stop = asyncio.Event()
    settings = Settings(database_url=database_url, master_key=MASTER_KEY, data_dir=tmp_path)

    async def until(orders: set[str], aside: float) -> None:
        async with asyncio.timeout(30):
            for _ in itertools.count():
                if (with_due_times(database_url), set_aside()) == (orders, aside):
                    return
                assert not working.done(), working.exception()
                await asyncio.sleep(0.05)

    with without_key(database_url, merchants[0], CORRUPT):
        working = asyncio.create_task(run(settings, lambda: None, stop))
        await until({made[1]}, 1.0)
    await until(set(made), 0.0)
    stop.set()
    await working


def set_aside() -> float:
    """Returns the value of the worker's metric now."""
    return metric_value("ledger_reactions_set_aside_merchants", PROCESS)
