"""Each message of a processor is applied once: doubled, early, out of order, by two workers, by one that is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.background.conftest import Open, rows, worker_connection
from tests.operations.conftest import an_order, by_card
from tests.operations.test_action_recovery import recover
from tests.operations.test_actions import MANUAL

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.inbox import consumer
from ledger.background.inbox.consumer import Applied, DeadLetter, RetryLater
from ledger.background.inbox.delivery import InboxDelivery, open_delivery
from ledger.background.inbox.message_handlers import MessageApplier
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import InvalidField
from ledger.operations.context.inputs import Actor, CancelInput, PaymentInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    Message,
    RefundConfirmed,
    RefundFailed,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit

pytestmark = pytest.mark.anyio

BY_TRANSFER = PaymentInput(type=MethodType.SPEI)


@pytest.fixture
async def delivery(database_url: str, ledger: Ledger) -> AsyncIterator[InboxDelivery]:
    async with open_delivery(database_url, ledger) as delivery:
        yield delivery


@pytest.fixture
async def applier(database_url: str, ledger: Ledger) -> AsyncIterator[MessageApplier]:
    names = PaymentLookup(database_url)
    await names.start()
    yield MessageApplier(ledger, names)
    await names.stop()


async def awaiting_transfer(ledger: Ledger, merchant: Actor, external_id: str = "1", **changes: Any) -> Order:
    """An order over 100 pesos that waits for a transfer."""
    receipt = await create_order(ledger, merchant, an_order(external_id, BY_TRANSFER, **changes))
    assert receipt.order.payments[0].status is PaymentStatus.REQUIRES_ACTION
    return receipt.order


async def paid(ledger: Ledger, merchant: Actor, external_id: str = "1") -> Order:
    return (await create_order(ledger, merchant, an_order(external_id, by_card()))).order


async def current(ledger: Ledger, merchant: Actor, order: Order) -> Order:
    return await load_order(ledger, merchant.merchant_id, order.terms.order_id)


def bank(ledger: Ledger) -> SandboxProcessor:
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    return ledger.processors.sandbox


def about(merchant: Actor, order: Order, **changes: Any) -> dict[str, Any]:
    """Returns the fields that every message about an order's payment has."""
    payment = order.payments[0]
    fields = {
        "processor": "sandbox",
        "message_id": uuid4().hex,
        "merchant_id": merchant.merchant_id,
        "occurred_at": datetime.now(UTC),
        "order_id": order.terms.order_id,
        "payment_id": payment.payment_id,
        "processor_reference": payment.processor_reference or "x",
    }
    return fields | changes


def clabe(payment: Payment) -> str:
    assert payment.reference is not None
    assert payment.reference.clabe is not None
    return payment.reference.clabe


def deposited(merchant: Actor, order: Order, amount: int = 10_000, **changes: Any) -> DepositReceived:
    fields = about(merchant, order, processor_reference=uuid4().hex) | changes
    return DepositReceived(reference=clabe(order.payments[0]), amount=Decimal(amount), currency="MXN", **fields)


async def note_names(database_url: str, ledger: Ledger) -> None:
    """Dispatches the log to the reactions as a worker does."""
    async with AsyncExitStack() as stack:
        connection = await worker_connection(database_url, stack)
        jobs = await stack.enter_async_context(Jobs(database_url, ledger, HANDLERS))
        await Dispatcher(ledger.journal, jobs, REACTIONS).sweep(connection)


def in_the_inbox(url: str) -> list[tuple[Any, ...]]:
    """Returns the messages that wait, and what they wait for."""
    return rows(url, "select message_id, waits_for from processor_message where handled_at is null order by 1")


def set_aside(url: str) -> list[str]:
    """Returns the dead letters."""
    query = "select message_id from processor_message where handled_at is null and next_try_at = 'infinity'"
    return [message_id for (message_id,) in rows(url, query)]


async def test_a_deposit_pays_its_order_and_the_same_message_again_changes_nothing(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    message = deposited(merchant, order)
    for _ in range(3):
        assert (await delivery.deliver(message)).handled_at is not None
    order = await current(ledger, merchant, order)
    assert (order.status, order.amount_paid) == (OrderStatus.COMPLETED, 10_000)


async def test_one_deposit_under_two_message_ids_is_one_deposit(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    for message_id in ("a", "b"):
        await delivery.deliver(deposited(merchant, order, 4_000, message_id=message_id, processor_reference="dep-1"))
    assert (await current(ledger, merchant, order)).amount_paid == 4_000


async def test_a_worker_killed_after_the_commit_leaves_a_message_that_the_next_one_ends(
    ledger: Ledger, merchant: Actor, applier: MessageApplier, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    message = deposited(merchant, order)
    await delivery.keep(message)
    assert await applier.take(message) == Applied()  # and it is killed here: the inbox has no mark
    assert [message_id for message_id, _ in in_the_inbox(database_url)] == [message.message_id]
    await run_until_empty(delivery, database_url)
    assert (await current(ledger, merchant, order)).amount_paid == 10_000


async def test_messages_that_name_no_order_are_applied_one_after_the_other(
    ledger: Ledger, merchant: Actor, applier: MessageApplier, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [await awaiting_transfer(ledger, merchant, str(n)) for n in range(2)]
    await note_names(database_url, ledger)
    record, running, most = applier._record, Counter[UUID](), Counter[UUID]()

    async def watched(order_id: UUID, message: Message) -> Order:
        running[order_id] += 1
        most[order_id] = max(most[order_id], running[order_id])
        recorded = await record(order_id, message)
        running[order_id] -= 1
        return recorded

    monkeypatch.setattr(applier, "_record", watched)
    sent = [deposited(merchant, order, 1_000, order_id=None) for order in orders for _ in range(5)]
    assert await asyncio.gather(*[applier.take(message) for message in sent]) == [Applied()] * 10
    assert most == {order.terms.order_id: 1 for order in orders}
    assert [(await current(ledger, merchant, order)).amount_paid for order in orders] == [5_000] * 2


async def test_two_workers_at_once_apply_every_message_once(
    ledger: Ledger, merchant: Actor, database_url: str, open_another: Open
) -> None:
    orders = [await awaiting_transfer(ledger, merchant, str(n)) for n in range(8)]
    for order in orders:
        for _ in range(3):  # three times 40 pesos: 20 too much, unless one is lost or doubled
            sent = Deposit(
                merchant_id=merchant.merchant_id,
                message_id=uuid4().hex,
                sent_to=clabe(order.payments[0]),
                amount=Decimal(4_000),
                at=datetime.now(UTC),
            )
            await bank(ledger).deposit(sent)
    async with open_delivery(database_url, ledger) as one, open_delivery(database_url, await open_another()) as other:
        stop = asyncio.Event()
        working = [asyncio.create_task(each.run(stop)) for each in (one, other)]
        await until_empty(database_url)
        stop.set()
        await asyncio.gather(*working)
    for order in orders:
        now = await current(ledger, merchant, order)
        assert (now.status, now.amount_paid, now.overpaid_amount) == (OrderStatus.COMPLETED, 12_000, 2_000)


async def test_a_worker_that_is_killed_anywhere_loses_and_doubles_nothing(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    orders = [await awaiting_transfer(ledger, merchant, str(n)) for n in range(6)]
    for order in orders:
        await bank(ledger).deposit(
            Deposit(
                merchant_id=merchant.merchant_id,
                message_id=uuid4().hex,
                sent_to=clabe(order.payments[0]),
                amount=Decimal(4_000),
                at=datetime.now(UTC),
            )
        )
    for n in range(40):
        async with AsyncExitStack() as stack:
            inbox = await stack.enter_async_context(Inbox(database_url, lease_s=0.05))
            names = PaymentLookup(database_url)
            await names.start()
            stack.push_async_callback(names.stop)
            taking = consumer.InboxConsumer(inbox, MessageApplier(ledger, names).handles())

            async def work(inbox: Inbox = inbox, taking: consumer.InboxConsumer = taking) -> None:
                await consumer.fetch(bank(ledger).outbox, inbox, ledger.clock)
                await taking.sweep()

            killed = asyncio.create_task(work())
            await asyncio.wait({killed}, timeout=0.002 * n)
            killed.cancel()
            await asyncio.gather(killed, return_exceptions=True)
    async with open_delivery(database_url, ledger) as delivery:
        await run_until_empty(delivery, database_url)
    assert [(await current(ledger, merchant, order)).amount_paid for order in orders] == [4_000] * 6


async def until_empty(url: str) -> None:
    """Waits until every message is on its order."""
    open_ones = """
        select (select count(*) from processor_message where handled_at is null)
             + (select count(*) from sandbox_message where delivered_at is null)
    """
    async with asyncio.timeout(60):
        while rows(url, open_ones) != [(0,)]:  # noqa: ASYNC110 - another process's work has no event
            await asyncio.sleep(0.05)


async def run_until_empty(delivery: InboxDelivery, url: str) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(delivery.run(stop))
    await until_empty(url)
    stop.set()
    await working


async def test_a_message_without_ids_finds_its_order_by_the_reference_once_that_is_indexed(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    message = deposited(merchant, order, order_id=None, payment_id=None)
    early = await delivery.deliver(message)
    assert early.handled_at is None, "the reference is younger than what is noted"
    assert early.waits_for is not None
    await note_names(database_url, ledger)
    assert (await delivery.deliver(message)).handled_at is not None
    assert (await current(ledger, merchant, order)).status is OrderStatus.COMPLETED


@pytest.mark.parametrize("echoed", ["payment", "nothing"])
async def test_disputes_find_their_payment_by_its_id_or_the_processors_name_for_it(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str, echoed: str
) -> None:
    order = await paid(ledger, merchant)
    await note_names(database_url, ledger)
    fields = about(merchant, order, order_id=None)
    if echoed == "nothing":
        fields["payment_id"] = None
    await delivery.deliver(DisputeOpened(dispute_id="d", amount=Decimal(10_000), **fields))
    assert (await current(ledger, merchant, order)).payments[0].status is PaymentStatus.DISPUTED


async def test_a_dispute_on_a_payment_without_captured_money_is_a_dead_letter_and_an_early_one_is_tried_again(
    ledger: Ledger, merchant: Actor, applier: MessageApplier
) -> None:
    held = (await create_order(ledger, merchant, an_order("held", by_card(), **MANUAL))).order
    voided = (await create_order(ledger, merchant, an_order("voided", by_card(), **MANUAL))).order
    await cancel_order(ledger, merchant, "voided", CancelInput())
    for order, status in ((held, "AUTHORIZED"), (voided, "CANCELLED")):
        message = DisputeOpened(dispute_id="d", amount=Decimal(1), **about(merchant, order))
        assert await applier.take(message) == DeadLetter(f"its payment is {status} and has no captured money")
    silent = (await create_order(ledger, merchant, an_order("silent", by_card("4000000000000119")))).order
    early = DisputeOpened(dispute_id="d", amount=Decimal(1), **about(merchant, silent))
    assert isinstance(await applier.take(early), RetryLater)


async def test_a_message_about_nothing_known_stays_with_its_reason(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    strays = [
        deposited(merchant, order, message_id="1", order_id=uuid4()),
        deposited(merchant, order, message_id="2", payment_id=uuid4()),
        deposited(merchant, order, message_id="3", processor="another"),
        deposited(merchant, order, message_id="4", order_id=merchant.merchant_id),
        SettlementMatched(batch_id="b", **about(merchant, order, message_id="5")),
        RefundConfirmed(idempotency_key="k", amount=Decimal(1), **about(merchant, order, message_id="6")),
        DisputeOpened(dispute_id="d", amount=Decimal(1), **about(merchant, order, message_id="7")),
        deposited(merchant, order, message_id="8", account="backup"),
    ]
    for stray in strays:
        assert (await delivery.deliver(stray)).handled_at is None
    kept = in_the_inbox(database_url)
    assert [message_id for message_id, _ in kept] == list("12345678")
    assert all(waits_for for _, waits_for in kept)
    assert (await current(ledger, merchant, order)).amount_paid == 0


async def test_a_deposit_in_another_currency_pays_nothing(
    ledger: Ledger, merchant: Actor, applier: MessageApplier
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    fields = about(merchant, order, processor_reference="r")
    message = DepositReceived(reference=clabe(order.payments[0]), amount=Decimal(10_000), currency="USD", **fields)
    assert isinstance(await applier.take(message), DeadLetter)
    assert (await current(ledger, merchant, order)).amount_paid == 0


async def test_a_message_that_no_order_can_ever_record_is_a_dead_letter_and_later_money_counts(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    card = await paid(ledger, merchant, "2")
    to_a_card = about(merchant, card, processor_reference="r")
    for message in (
        deposited(merchant, order, message_id="off step", amount=Decimal("9999.5")),
        DepositReceived(reference="4", amount=Decimal(1), currency="MXN", **to_a_card),
        DisputeOpened(dispute_id="d", amount=Decimal("0.01"), **about(merchant, card)),
    ):
        assert (await delivery.deliver(message)).handled_at is None
    assert len(set_aside(database_url)) == 3
    assert (await delivery.deliver(deposited(merchant, order))).handled_at is not None
    assert (await current(ledger, merchant, order)).status is OrderStatus.COMPLETED


@pytest.mark.parametrize("method", [MethodType.PAYCASH, MethodType.CIE_CASH_NET])
async def test_a_store_that_took_another_amount_is_logged_and_its_money_counts(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, method: MethodType
) -> None:
    order = (await create_order(ledger, merchant, an_order("1", PaymentInput(type=method)))).order
    known = order.payments[0].reference
    assert known is not None
    for amount, status in ((9_000, OrderStatus.PARTIALLY_PAID), (10_000, OrderStatus.COMPLETED)):
        fields = about(merchant, order, processor_reference=uuid4().hex)
        message = DepositReceived(reference=known.reference, amount=Decimal(amount), currency="MXN", **fields)
        with capture_logs() as logs:
            assert (await delivery.deliver(message)).handled_at is not None
        order = await current(ledger, merchant, order)
        differs = amount != 10_000
        assert order.status is status
        assert (order.payments[0].entries[-1].reason is not None) is differs
        assert ("deposit_amount_differs" in {line["event"] for line in logs}) is differs
    assert (order.amount_paid, order.overpaid_amount) == (19_000, 9_000)


async def test_a_transfer_to_the_clabe_of_a_cash_reference_takes_any_amount(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = (await create_order(ledger, merchant, an_order("1", PaymentInput(type=MethodType.CIE_CASH_NET)))).order
    await delivery.deliver(deposited(merchant, order, amount=9_000))
    order = await current(ledger, merchant, order)
    assert (order.status, order.payments[0].entries[-1].reason) == (OrderStatus.PARTIALLY_PAID, None)


async def test_settlement_lines_out_of_order_end_as_in_order(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await paid(ledger, merchant)
    matched = SettlementMatched(batch_id="b", **about(merchant, order))
    assert (await delivery.deliver(matched)).handled_at is None
    await delivery.deliver(SettlementListed(batch_id="b", **about(merchant, order)))
    await run_until_empty(delivery, database_url)
    assert (await current(ledger, merchant, order)).payments[0].status is PaymentStatus.SETTLED


async def test_after_a_refused_batch_the_payment_can_be_in_another(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = await paid(ledger, merchant)
    for kind, batch, then in (
        (SettlementListed, "1", PaymentStatus.PENDING_SETTLEMENT),
        (SettlementRefused, "1", PaymentStatus.CAPTURED),
        (SettlementListed, "2", PaymentStatus.PENDING_SETTLEMENT),
        (SettlementMatched, "2", PaymentStatus.SETTLED),
    ):
        await delivery.deliver(kind(batch_id=batch, **about(merchant, order)))
        assert (await current(ledger, merchant, order)).payments[0].status is then


@pytest.mark.parametrize("outcome", ["won", "lost"])
async def test_the_end_of_a_dispute_counts_when_it_arrives_before_its_beginning(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, outcome: str
) -> None:
    order = await paid(ledger, merchant)
    end: Message = DisputeWon(dispute_id="d", **about(merchant, order))
    if outcome == "lost":
        end = DisputeLost(dispute_id="d", amount=Decimal(3_000), **about(merchant, order))
    await delivery.deliver(end)
    late = await delivery.deliver(DisputeOpened(dispute_id="d", amount=Decimal(3_000), **about(merchant, order)))
    assert late.handled_at is not None
    order = await current(ledger, merchant, order)
    wanted = (PaymentStatus.CAPTURED, 0) if outcome == "won" else (PaymentStatus.PARTIALLY_REFUNDED, 3_000)
    assert (order.payments[0].status, order.amount_refunded) == wanted


async def test_a_lost_dispute_takes_the_amount_that_its_end_reports(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = await paid(ledger, merchant)
    await delivery.deliver(DisputeOpened(dispute_id="d", amount=Decimal(10_000), **about(merchant, order)))
    lost = DisputeLost(dispute_id="d", amount=Decimal(3_000), **about(merchant, order))
    assert (await delivery.deliver(lost)).handled_at is not None
    order = await current(ledger, merchant, order)
    assert (order.status, order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 3_000)


async def test_a_message_that_contradicts_the_end_of_a_dispute_is_a_dead_letter(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await paid(ledger, merchant)
    for n, (lost, otherwise) in enumerate([(0, 3_000), (3_000, 0), (3_000, 2_000)]):

        def end(amount: int, name: str = str(n)) -> Message:
            if not amount:
                return DisputeWon(dispute_id=name, **about(merchant, order))
            return DisputeLost(dispute_id=name, amount=Decimal(amount), **about(merchant, order))

        for reported in (lost, lost):
            assert (await delivery.deliver(end(reported))).handled_at is not None
        contradiction = end(otherwise)
        assert (await delivery.deliver(contradiction)).handled_at is None
        assert contradiction.message_id in set_aside(database_url)
    assert (await current(ledger, merchant, order)).amount_refunded == 6_000


async def test_the_largest_order_is_paid_and_contested_with_its_surcharge_on_top(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    settings = {"surcharge_rate": Decimal(49), "surcharge_methods": (MethodType.SPEI,)}
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), settings)
    order = await awaiting_transfer(ledger, merchant, amount=Decimal(999_999_999_999))
    gross = int(order.payments[0].amount)
    assert gross > 10**12
    assert (await delivery.deliver(deposited(merchant, order, gross))).handled_at is not None
    assert (await current(ledger, merchant, order)).status is OrderStatus.COMPLETED
    for message in (
        DisputeOpened(dispute_id="d", amount=Decimal(gross), **about(merchant, order)),
        DisputeLost(dispute_id="d", amount=Decimal(gross), **about(merchant, order)),
    ):
        assert (await delivery.deliver(message)).handled_at is not None
    assert (await current(ledger, merchant, order)).status is OrderStatus.REFUNDED


async def test_a_deposit_to_the_reference_of_another_payment_is_a_dead_letter(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order, other = await awaiting_transfer(ledger, merchant), await awaiting_transfer(ledger, merchant, "2")
    fields = about(merchant, order, processor_reference="dep-1")
    stray = DepositReceived(reference=clabe(other.payments[0]), amount=Decimal(10_000), currency="MXN", **fields)
    assert (await delivery.deliver(stray)).handled_at is None
    assert set_aside(database_url) == [stray.message_id]
    for each in (order, other):
        assert (await current(ledger, merchant, each)).amount_paid == 0


async def test_one_deposit_with_two_amounts_is_a_dead_letter(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    await delivery.deliver(deposited(merchant, order, 4_000, processor_reference="dep-1"))
    await delivery.deliver(deposited(merchant, order, 100, processor_reference="dep-2"))
    other = deposited(merchant, order, 5_000, processor_reference="dep-1")
    assert (await delivery.deliver(other)).handled_at is None
    assert set_aside(database_url) == [other.message_id]
    assert (await current(ledger, merchant, order)).amount_paid == 4_100


async def test_a_payout_ends_with_its_own_message_and_no_other(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    await delivery.deliver(deposited(merchant, order))
    await deposit_at_bank(ledger, merchant, order)
    receipt = await refund_order(
        ledger, merchant, str(order.terms.order_id), RefundInput(amount=Decimal(4_000), reason="x")
    )
    assert receipt.order.status is OrderStatus.REFUND_PROCESSING
    key = f"{receipt.refund_id}:{order.payments[0].payment_id}"
    wrong = RefundConfirmed(idempotency_key=key, amount=Decimal(4_001), **about(merchant, order))
    assert (await delivery.deliver(wrong)).handled_at is None
    right = RefundConfirmed(idempotency_key=key, amount=Decimal(4_000), **about(merchant, order))
    assert (await delivery.deliver(right)).handled_at is not None
    failed = RefundFailed(idempotency_key=key, code="ACCOUNT_REFUSED", **about(merchant, order))
    assert (await delivery.deliver(failed)).handled_at is None, "it contradicts what is known"
    assert failed.message_id in set_aside(database_url)
    order = await current(ledger, merchant, order)
    assert (order.status, order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 4_000)
    final = RefundFailed(idempotency_key=key, code="ACCOUNT_REFUSED", is_final=True, **about(merchant, order))
    older = RefundConfirmed(idempotency_key=key, amount=Decimal(4_000), **about(merchant, order))
    for message in (final, older, failed):
        assert (await delivery.deliver(message)).handled_at is not None or message is failed
        order = await current(ledger, merchant, order)
        assert (order.status, order.amount_refunded) == (OrderStatus.COMPLETED, 0)


async def test_no_partial_refund_is_requested_of_a_processor_without_partial_payouts(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    processor = bank(ledger)
    processor.capabilities = msgspec.structs.replace(processor.capabilities, partial_payouts=False)
    order = await awaiting_transfer(ledger, merchant)
    await delivery.deliver(deposited(merchant, order))
    await deposit_at_bank(ledger, merchant, order)
    name = str(order.terms.order_id)
    with pytest.raises(InvalidField):
        await refund_order(ledger, merchant, name, RefundInput(amount=Decimal(4_000)))
    assert (await current(ledger, merchant, order)).refunds == ()
    whole = await refund_order(ledger, merchant, name, RefundInput(amount=Decimal(10_000)))
    assert whole.order.status is OrderStatus.REFUND_PROCESSING


async def test_a_failed_payout_that_is_confirmed_is_recorded_beside_another_one_under_way(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery
) -> None:
    order = await awaiting_transfer(ledger, merchant)
    await delivery.deliver(deposited(merchant, order))
    await deposit_at_bank(ledger, merchant, order)
    keys: list[str] = []
    for amount in (4_000, 6_000):
        request = RefundInput(amount=Decimal(amount), reason="x")
        receipt = await refund_order(ledger, merchant, str(order.terms.order_id), request)
        keys.append(f"{receipt.refund_id}:{order.payments[0].payment_id}")
        if len(keys) == 1:
            await delivery.deliver(RefundFailed(idempotency_key=keys[0], code="X", **about(merchant, order)))
    after_all = RefundConfirmed(idempotency_key=keys[0], amount=Decimal(4_000), **about(merchant, order))
    assert (await delivery.deliver(after_all)).handled_at is not None
    under_way = await current(ledger, merchant, order)
    assert (under_way.status, under_way.amount_refunded) == (OrderStatus.REFUND_PROCESSING, 4_000)
    for returned in (6_000, 1_000):
        part = {"returned": Decimal(returned), "returned_reference": "re-2"}
        failed = RefundFailed(idempotency_key=keys[1], code="X", **part, **about(merchant, order))
        assert ((await delivery.deliver(failed)).handled_at is None) == (returned == 6_000), "all of it is no part"
    order = await current(ledger, merchant, order)
    assert (order.status, order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 5_000)
    assert [each.status for each in order.refunds] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    none = RefundFailed(idempotency_key=keys[1], code="X", is_final=True, **about(merchant, order))
    older = RefundFailed(idempotency_key=keys[1], code="X", is_final=True, **part, **about(merchant, order))
    for message in (older, none, older, none):
        assert (await delivery.deliver(msgspec.structs.replace(message, message_id=uuid4().hex))).handled_at is not None
        order = await current(ledger, merchant, order)
        assert order.amount_refunded == (5_000 if order.refunds[-1].status == "SUCCEEDED" else 4_000)
    assert [each.status for each in order.refunds] == ["SUCCEEDED", "FAILED", "FAILED"]


async def deposit_at_bank(ledger: Ledger, merchant: Actor, order: Order) -> None:
    """Gives the sandbox's bank the money too, which a payout takes; the bank reports the same deposit in a message."""
    sent = Deposit(
        merchant_id=merchant.merchant_id,
        message_id=uuid4().hex,
        sent_to=clabe(order.payments[0]),
        amount=Decimal(10_000),
        at=datetime.now(UTC) + timedelta(days=9),
    )
    await bank(ledger).deposit(sent)


async def test_an_overpayment_is_refunded_once_where_the_merchant_wants_that(
    ledger: Ledger, merchant: Actor, applier: MessageApplier, delivery: InboxDelivery
) -> None:
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"refund_overpayment": True})
    order = await awaiting_transfer(ledger, merchant)
    message = await paid_by_transfer(ledger, merchant, order, 12_500)
    for _ in range(2):
        assert await applier.take(message) == Applied()
    order = await current(ledger, merchant, order)
    assert [(refund.amount, refund.reason) for refund in order.refunds] == [(2_500, "overpayment")]
    assert order.status is OrderStatus.REFUND_PROCESSING
    more = await paid_by_transfer(ledger, merchant, order, 300)
    assert isinstance(await applier.take(more), RetryLater), "how much is too much is known after the first refund"
    await finish_payouts(ledger, merchant, delivery)
    assert await applier.take(more) == Applied()
    await finish_payouts(ledger, merchant, delivery)
    order = await current(ledger, merchant, order)
    assert (order.net, order.amount_refunded, order.overpaid_amount) == (10_000, 2_800, 0)


async def test_an_overpayments_refund_is_requested_until_the_processor_has_received_it(
    ledger: Ledger, merchant: Actor, applier: MessageApplier, delivery: InboxDelivery, database_url: str
) -> None:
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"refund_overpayment": True})
    order = await awaiting_transfer(ledger, merchant)
    message = await paid_by_transfer(ledger, merchant, order, 12_500)
    await bank(ledger).set_mode(merchant.merchant_id, Mode.DOWN, times=2)
    assert isinstance(await applier.take(message), RetryLater)
    await recover(database_url, ledger)
    assert isinstance(await applier.take(message), RetryLater), "the second call did not arrive either"
    await recover(database_url, ledger)
    for _ in range(2):
        assert await applier.take(message) == Applied()
    await finish_payouts(ledger, merchant, delivery)
    order = await current(ledger, merchant, order)
    assert [refund.status for refund in order.refunds] == ["SUCCEEDED"]
    assert (order.net, order.amount_refunded, order.overpaid_amount) == (10_000, 2_500, 0)


async def test_an_overpayment_stays_where_the_processor_has_no_partial_payouts(
    ledger: Ledger, merchant: Actor, applier: MessageApplier
) -> None:
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"refund_overpayment": True})
    processor = bank(ledger)
    processor.capabilities = msgspec.structs.replace(processor.capabilities, partial_payouts=False)
    order = await awaiting_transfer(ledger, merchant)
    with capture_logs() as logs:
        assert await applier.take(await paid_by_transfer(ledger, merchant, order, 12_500)) == Applied()
    order = await current(ledger, merchant, order)
    assert (order.status, order.overpaid_amount, order.refunds) == (OrderStatus.COMPLETED, 2_500, ())
    assert "overpayment_stays" in {line["event"] for line in logs}


async def test_an_overpayment_is_kept_by_default(ledger: Ledger, merchant: Actor, applier: MessageApplier) -> None:
    order = await awaiting_transfer(ledger, merchant)
    assert await applier.take(deposited(merchant, order, 12_500)) == Applied()
    order = await current(ledger, merchant, order)
    assert (order.status, order.overpaid_amount, order.refunds) == (OrderStatus.COMPLETED, 2_500, ())


async def paid_by_transfer(ledger: Ledger, merchant: Actor, order: Order, amount: int) -> DepositReceived:
    """Returns the message about money that the sandbox's bank has received."""
    sent = Deposit(
        merchant_id=merchant.merchant_id,
        message_id=uuid4().hex,
        sent_to=clabe(order.payments[0]),
        amount=Decimal(amount),
        at=datetime.now(UTC),
    )
    return await bank(ledger).deposit(sent)


async def finish_payouts(ledger: Ledger, merchant: Actor, delivery: InboxDelivery) -> None:
    await delivery.deliver_due(merchant.merchant_id, datetime.now(UTC) + timedelta(hours=1))


async def test_a_clock_delivers_what_is_due_on_its_way_in_the_order_of_time(
    ledger: Ledger, merchant: Actor, delivery: InboxDelivery, database_url: str
) -> None:
    """The reference would expire after 72 hours; the transfer arrives an hour before that, and another one after it."""
    early, late = await awaiting_transfer(ledger, merchant, "early"), await awaiting_transfer(ledger, merchant, "late")
    now = datetime.now(UTC)
    for order, hours in ((early, 71), (late, 73)):
        sent = Deposit(
            merchant_id=merchant.merchant_id,
            message_id=uuid4().hex,
            sent_to=clabe(order.payments[0]),
            amount=Decimal(10_000),
            at=now + timedelta(hours=hours),
        )
        await bank(ledger).deposit(sent)
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS, delivery)
    await advancer.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(hours=80))
    early, late = await current(ledger, merchant, early), await current(ledger, merchant, late)
    assert (early.status, early.late_deposit) == (OrderStatus.COMPLETED, False)
    assert (late.status, late.late_deposit) == (OrderStatus.COMPLETED, True)
    assert isinstance(early.terms.order_id, UUID)
