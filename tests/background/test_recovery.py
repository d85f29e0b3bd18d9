"""The recovery looks up calls: those the processor has, those it will never have, and those it cannot answer about
yet.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.journal.samples import FISCAL
from tests.operations.conftest import APPROVED, SILENT, Open, an_order, by_card, register
from uuid_utils.compat import uuid7

from ledger.background import recovery
from ledger.background.recovery import Recovery, Windows
from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.journal.commit.writer import Writer
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import CallTimeouts, Ledger
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.create import create_order
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import LookUpRequest
from ledger.settings import Settings
from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio


class DiesBeforeTheCall:
    """The sandbox, in a process that ends between the intent and the call."""

    def __init__(self, processor: object) -> None:
        self.capabilities = processor.capabilities  # type: ignore[attr-defined]
        self.look_up = processor.look_up  # type: ignore[attr-defined]

    async def authorize(self, _: object) -> Approved | Declined:
        raise asyncio.CancelledError


async def order_of(ledger: Ledger, merchant: Actor, order_id: UUID) -> Order:
    return await load_order(ledger, merchant.merchant_id, order_id)


async def sweep(ledger: Ledger, database_url: str, windows: Windows) -> None:
    async with OpenCalls(database_url) as intents:
        await Recovery(ledger, intents.due, windows).sweep()


AFTERWARDS = Windows(margin_s=-3600, late_s=-3600)
"""Windows with which every deadline has passed already."""


async def test_a_silent_processors_approval_is_found(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    await sweep(ledger, database_url, AFTERWARDS)
    order = await order_of(ledger, merchant, receipt.order.terms.order_id)
    assert order.status is OrderStatus.COMPLETED
    assert order.amount_paid == 10_000


async def test_before_the_margin_nothing_is_looked_up(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    await sweep(ledger, database_url, Windows(margin_s=30, late_s=0))
    assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.PROCESSING


async def test_no_processor_is_asked_about_a_call_that_a_standby_may_lack(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without_standby(_: Writer) -> None:
        raise DatabaseUnavailable("a test")

    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    with monkeypatch.context() as lost:
        lost.setattr(Writer, "confirm", without_standby)
        await sweep(ledger, database_url, AFTERWARDS)
    assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.PROCESSING
    await sweep(ledger, database_url, AFTERWARDS)
    assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.COMPLETED


KNOWN_ONLY = Windows(margin_s=0, late_s=3600)
"""Windows with which a call is looked up as soon as it is over."""
FAR = CallTimeouts(processor_timeout_s=3600.0)
"""Timeouts with which no deadline passes during a test."""


async def test_a_call_that_came_back_unanswered_is_looked_up_long_before_its_deadline(
    merchant: Actor, open_another: Open, ledger: Ledger, database_url: str
) -> None:
    ledger.call_timeouts = FAR
    order = (await create_order(ledger, merchant, an_order("1", by_card(SILENT)))).order
    assert order.open_intent is not None
    assert order.open_intent.over_at < order.open_intent.deadline_at
    await sweep(await open_another(), database_url, KNOWN_ONLY)  # another process: the log records when it came back
    assert (await order_of(ledger, merchant, order.terms.order_id)).status is OrderStatus.COMPLETED


class Clock(datetime):
    """The real time that the recovery reads."""

    at: datetime

    @classmethod
    def now(cls, _: object = None) -> datetime:  # type: ignore[override]
        return cls.at


async def test_card_0119_is_completed_by_one_look_up_five_seconds_after_the_silence(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the service's own settings, within 15 s of the request: neither a second later nor after the deadline."""
    settings = Settings()
    assert settings.sandbox_deadline_s + settings.recovery_margin_s + Windows().poll_s < 15
    ledger.call_timeouts = CallTimeouts(processor_timeout_s=settings.processor_timeout_s)
    order = (await create_order(ledger, merchant, an_order("1", by_card(SILENT)))).order
    assert order.open_intent is not None
    came_back_at, looked_up = order.open_intent.over_at, []
    assert came_back_at < order.open_intent.deadline_at
    look_up = ledger.processors.sandbox.look_up  # type: ignore[union-attr]

    async def counted(*asked: object, **options: bool) -> object:
        looked_up.append(Clock.at)
        return await look_up(*asked, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger.processors.sandbox, "look_up", counted)
    monkeypatch.setattr(recovery, "datetime", Clock)
    async with OpenCalls(database_url) as open_calls:
        worker = Recovery(ledger, open_calls.due, Windows(margin_s=settings.recovery_margin_s))
        for after_s in (0.0, 4.9, 5.0, 6.0):
            Clock.at = came_back_at + timedelta(seconds=after_s)
            await worker.sweep()
    assert looked_up == [came_back_at + timedelta(seconds=5)]
    assert (await order_of(ledger, merchant, order.terms.order_id)).status is OrderStatus.COMPLETED


async def test_a_call_of_which_nothing_is_known_is_not_looked_up_before_its_deadline(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.call_timeouts = FAR
    order_id, asked = await start_without_call(ledger, merchant), 0

    async def look_up(*_: object, **__: object) -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr(ledger.processors.sandbox, "look_up", look_up)
    await sweep(ledger, database_url, KNOWN_ONLY)
    assert (asked, (await order_of(ledger, merchant, order_id)).status) == (0, OrderStatus.PROCESSING)


async def test_a_call_that_comes_back_unanswered_beside_an_open_one_is_looked_up_early(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    ledger.call_timeouts = FAR
    await create_order(ledger, merchant, an_order("1", allow_partials=True))
    for number in (APPROVED, SILENT):
        payment = by_card(number, amount=Decimal(4_000))
        if number == APPROVED:
            processor = ledger.processors.sandbox
            ledger.processors.simulated.sandbox = DiesBeforeTheCall(processor)  # type: ignore[assignment]
            with pytest.raises(asyncio.CancelledError):
                await add_payment(ledger, merchant, "1", payment)
            ledger.processors.simulated.sandbox = processor
        else:
            order = (await add_payment(ledger, merchant, "1", payment)).order
    await sweep(ledger, database_url, KNOWN_ONLY)
    open_one, found = (await order_of(ledger, merchant, order.terms.order_id)).payments
    assert (open_one.status, found.status) == (PaymentStatus.PENDING_AUTHORIZATION, PaymentStatus.CAPTURED)


async def test_a_call_within_its_margin_is_left_alone_where_another_call_of_its_order_is_due(
    ledger: Ledger, merchant: Actor
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    order_id = receipt.order.terms.order_id

    async def due(_before: datetime, _limit: int, _skipped: Collection[UUID]) -> Sequence[tuple[UUID, UUID]]:
        return [(merchant.merchant_id, order_id)]

    await Recovery(ledger, due, Windows(margin_s=30, late_s=0)).sweep()
    assert (await order_of(ledger, merchant, order_id)).status is OrderStatus.PROCESSING


async def start_without_call(ledger: Ledger, merchant: Actor) -> UUID:
    """Commits an intent whose call is never sent, and ends without recording that."""
    processor = ledger.processors.sandbox
    ledger.processors.simulated.sandbox = DiesBeforeTheCall(processor)  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await create_order(ledger, merchant, an_order("dead", by_card()))
    ledger.processors.simulated.sandbox = processor
    again = await create_order_without_waiting(ledger, merchant)
    assert again.payments[0].intent is not None
    return again.terms.order_id


async def create_order_without_waiting(ledger: Ledger, merchant: Actor) -> Order:
    from ledger.domain.streams import ClaimKind

    order_id = await ledger.journal.claim_owner(merchant.merchant_id, ClaimKind.ORDER_EXTERNAL_ID, "dead")
    assert order_id is not None, "the intent was committed before the call"
    return await order_of(ledger, merchant, order_id)


async def test_not_found_is_final_only_after_the_late_window(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order_id = await start_without_call(ledger, merchant)
    await sweep(ledger, database_url, Windows(margin_s=-3600, late_s=60))
    assert (await order_of(ledger, merchant, order_id)).status is OrderStatus.PROCESSING
    await sweep(ledger, database_url, AFTERWARDS)
    order = await order_of(ledger, merchant, order_id)
    assert order.status is OrderStatus.FAILED
    assert order.payments[0].status is PaymentStatus.FAILED


async def test_a_payment_given_up_can_be_paid_by_the_same_external_id(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order_id = await start_without_call(ledger, merchant)
    await sweep(ledger, database_url, AFTERWARDS)
    paid = await create_order(ledger, merchant, an_order("dead", by_card()))
    assert paid.order.terms.order_id == order_id
    assert paid.order.status is OrderStatus.COMPLETED


async def test_two_workers_settle_each_payment_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    receipts = await asyncio.gather(
        *[create_order(ledger, merchant, an_order(str(n), by_card(SILENT))) for n in range(20)]
    )
    other = await open_another()
    await asyncio.gather(*[sweep(at, database_url, AFTERWARDS) for at in (ledger, other, ledger, other)])
    for receipt in receipts:
        order = await order_of(ledger, merchant, receipt.order.terms.order_id)
        assert order.status is OrderStatus.COMPLETED
        assert order.amount_paid == 10_000
        assert len(order.payments[0].entries) == len({(e.action, e.status) for e in order.payments[0].entries})


async def test_an_unreachable_processor_is_called_again(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.processors.contract import ProcessorTimedOut

    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    answers = ledger.processors.sandbox.look_up  # type: ignore[union-attr]
    asked = 0

    async def unreachable_once(request: LookUpRequest) -> object:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ProcessorTimedOut
        return await answers(request)

    ledger.processors.sandbox.look_up = unreachable_once  # type: ignore[union-attr, method-assign, assignment]
    monkeypatch.setattr("ledger.background.recovery._BACK_OFF_FIRST_S", 60.0)
    async with OpenCalls(database_url) as intents:
        recovery = Recovery(ledger, intents.due, AFTERWARDS)
        await recovery.sweep()
        assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.PROCESSING
        await recovery.sweep()
        assert asked == 1, "it backs off"
        recovery._tries = {key: (n, datetime.now(UTC)) for key, (n, _) in recovery._tries.items()}
        await recovery.sweep()
    assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.COMPLETED


def end_all_pauses(recovery: Recovery) -> None:
    """Lets every pause be over."""
    recovery._tries = {key: (n, datetime.now(UTC)) for key, (n, _) in recovery._tries.items()}


async def unreadable(ledger: Ledger, merchant: Actor, database_url: str) -> UUID:
    """Returns an order with an open call, whose customer's data key is lost."""
    lost = CustomerInput(external_id="lost", email="lost@example.com")
    receipt = await create_order(ledger, merchant, an_order("0", by_card(SILENT), customer=lost, fiscal=FISCAL))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from data_key where customer_id = %s", (receipt.customer.customer_id,))
    return receipt.order.terms.order_id


def not_known(_: Ledger) -> object:
    async def nothing(request: LookUpRequest) -> None:
        del request

    return nothing


def not_understood(_: Ledger) -> object:
    async def fails(request: LookUpRequest) -> None:
        del request
        raise ValueError("an answer that nobody has thought of")

    return fails


async def test_an_order_that_cannot_be_read_is_tried_more_and_more_rarely(
    ledger: Ledger, merchant: Actor, database_url: str, open_another: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await unreadable(ledger, merchant, database_url)
    monkeypatch.setattr("ledger.background.recovery._BACK_OFF_FIRST_S", 30.0)
    async with OpenCalls(database_url) as intents:
        recovery = Recovery(await open_another(), intents.due, AFTERWARDS)
        with capture_logs() as logs:
            await recovery.sweep()
            await recovery.sweep()
            end_all_pauses(recovery)
            await recovery.sweep()
    told = [line["order_id"] for line in logs if line["event"] == "recovery_cannot_read"]
    assert told == [str(order_id)] * 2, "in the second sweep it is left alone"
    tries, next_at = recovery._tries[order_id]
    assert tries == 2
    assert next_at > datetime.now(UTC) + timedelta(seconds=45), "the second pause is twice the first"


async def test_an_order_that_cannot_be_read_delays_no_other(
    ledger: Ledger, merchant: Actor, database_url: str, open_another: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unreadable(ledger, merchant, database_url)
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    monkeypatch.setattr("ledger.background.recovery._ORDERS_MAX", 1)
    monkeypatch.setattr("ledger.background.recovery._BACK_OFF_FIRST_S", 60.0)
    async with OpenCalls(database_url) as intents:
        recovery = Recovery(await open_another(), intents.due, AFTERWARDS)
        await recovery.sweep()
        await recovery.sweep()
    assert (await order_of(ledger, merchant, receipt.order.terms.order_id)).status is OrderStatus.COMPLETED


@pytest.mark.parametrize("answering", [not_known, not_understood])
async def test_a_call_that_the_processor_cannot_answer_about_delays_no_other(
    ledger: Ledger,
    merchant: Actor,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    answering: Callable[[Ledger], object],
) -> None:
    orders = [(await create_order(ledger, merchant, an_order(name, by_card(SILENT)))).order for name in "12"]
    answers, odd = ledger.processors.sandbox.look_up, answering(ledger)  # type: ignore[union-attr]
    first = orders[0].payments[0].keys[0]

    async def knows_the_second(request: LookUpRequest) -> object:
        return await (odd if request.idempotency_key == first else answers)(request)  # type: ignore[operator]

    ledger.processors.sandbox.look_up = knows_the_second  # type: ignore[union-attr, method-assign, assignment]
    monkeypatch.setattr("ledger.background.recovery._ORDERS_MAX", 1)
    monkeypatch.setattr("ledger.background.recovery._BACK_OFF_FIRST_S", 60.0)
    async with OpenCalls(database_url) as intents:
        recovery = Recovery(ledger, intents.due, Windows(margin_s=-3600, late_s=3600))
        for _ in range(2):
            await recovery.sweep()
        statuses = [(await order_of(ledger, merchant, order.terms.order_id)).status for order in orders]
        assert statuses == [OrderStatus.PROCESSING, OrderStatus.COMPLETED]
        ledger.processors.sandbox.look_up = answers  # type: ignore[union-attr, method-assign]
        end_all_pauses(recovery)
        await recovery.sweep()
    assert (await order_of(ledger, merchant, orders[0].terms.order_id)).status is OrderStatus.COMPLETED


async def test_look_ups_that_hang_fill_the_slots_of_their_merchant_alone(ledger: Ledger, merchant: Actor) -> None:
    other, hang, asked = await register(ledger), asyncio.Event(), Counter[UUID]()
    order = (await create_order(ledger, other, an_order("1", by_card(SILENT)))).order
    answers = ledger.processors.sandbox.look_up  # type: ignore[union-attr]
    hanging = (await create_order(ledger, merchant, an_order("1", by_card(SILENT)))).order.terms.order_id

    async def look_up(request: LookUpRequest) -> object:
        asked[request.merchant_id] += 1
        if request.merchant_id == merchant.merchant_id:
            await hang.wait()
        return await answers(request)

    ledger.processors.sandbox.look_up = look_up  # type: ignore[union-attr, method-assign, assignment]
    load = recovery.load_order  # type: ignore[attr-defined]

    async def load_hanging(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order:
        return await load(ledger, merchant_id, hanging if merchant_id == merchant.merchant_id else order_id)

    async def find(_before: datetime, _limit: int, skipped: Collection[UUID]) -> Sequence[tuple[UUID, UUID]]:
        return [each for each in due if each[1] not in skipped]

    due = [(merchant.merchant_id, uuid7()) for _ in range(50)]
    stop = asyncio.Event()
    with patch.object(recovery, "load_order", load_hanging):
        windows = Windows(margin_s=-3600, late_s=3600, look_up_s=3600, poll_s=0.01)
        running = asyncio.create_task(Recovery(ledger, find, windows).run(stop))
        async with asyncio.timeout(60):
            while asked[merchant.merchant_id] < 32:  # noqa: ASYNC110 - the recovery sends no event
                await asyncio.sleep(0.01)
            due.append((other.merchant_id, order.terms.order_id))
            while asked[other.merchant_id] < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert asked == {merchant.merchant_id: 32, other.merchant_id: 1}
            stop.set()
            hang.set()
            await running
    assert asked == {merchant.merchant_id: 32, other.merchant_id: 1}, "what waits for a slot is left to the next worker"
    assert (await order_of(ledger, other, order.terms.order_id)).status is OrderStatus.COMPLETED


async def test_a_processor_without_an_answer_for_days_is_called_every_minute(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    key = receipt.order.payments[0].keys[0]
    ledger.processors.sandbox.look_up = not_known(ledger)  # type: ignore[union-attr, method-assign, assignment]
    async with OpenCalls(database_url) as intents:
        recovery = Recovery(ledger, intents.due, Windows(margin_s=-3600, late_s=3600))
        recovery._tries[key] = (5000, datetime.now(UTC))
        with capture_logs() as logs:
            await recovery.sweep()
    assert [line for line in logs if line["event"] == "recovery_failed"] == []
    tries, next_at = recovery._tries[key]
    assert tries == 5001
    assert next_at <= datetime.now(UTC) + timedelta(seconds=60)
