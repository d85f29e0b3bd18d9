"""The same request under the same idempotency key is done once and answered the same, whatever happened in between."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import psycopg
import pytest
from tests.operations.conftest import DECLINED, SILENT, Open, an_order, by_card

from ledger.background.recovery import Recovery, Windows
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import AmountExceedsPending, IdempotencyKeyReused, OrderNotPayable, RequestInProgress
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio

KEY = IdempotencyKey("key-1", "aa" * 32)


def same(first: OrderResult, again: OrderResult) -> bool:
    return again.repeated and (again.order, again.payment_id, again.created) == (
        first.order,
        first.payment_id,
        first.created,
    )


async def test_a_charge_is_made_once(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    await create_order(ledger, merchant, an_order("1"))
    first = await charge_order(ledger, merchant, "1", by_card(), KEY)
    again = await charge_order(ledger, merchant, "1", by_card(), KEY)
    assert first.order.status is OrderStatus.COMPLETED
    assert same(first, again)
    with pytest.raises(OrderNotPayable):
        await charge_order(ledger, merchant, "1", by_card())
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from sandbox_charge").fetchone() == (1,)


async def test_the_answer_stays_as_it_was_after_the_order_has_changed(ledger: Ledger, merchant: Actor) -> None:
    first = await create_order(ledger, merchant, an_order("1"), KEY)
    await charge_order(ledger, merchant, "1", by_card())
    again = await create_order(ledger, merchant, an_order("1"), KEY)
    assert again.order.status is OrderStatus.PENDING
    assert same(first, again)


async def test_a_decline_is_repeated_and_not_tried_again(ledger: Ledger, merchant: Actor) -> None:
    first = await create_order(ledger, merchant, an_order("1", by_card(DECLINED)), KEY)
    again = await create_order(ledger, merchant, an_order("1", by_card(DECLINED)), KEY)
    assert first.order.status is OrderStatus.FAILED
    assert same(first, again)
    assert len(again.order.payments) == 1


async def test_another_request_under_the_same_key_is_refused(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1"), KEY)
    with pytest.raises(IdempotencyKeyReused):
        await create_order(ledger, merchant, an_order("2"), IdempotencyKey(KEY.key, "bb" * 32))


async def test_a_key_belongs_to_its_merchant(ledger: Ledger, merchant: Actor) -> None:
    from tests.operations.conftest import register

    other = await register(ledger)
    first = await create_order(ledger, merchant, an_order("1"), KEY)
    second = await create_order(ledger, other, an_order("1"), IdempotencyKey(KEY.key, "bb" * 32))
    assert not second.repeated
    assert second.order.terms.order_id != first.order.terms.order_id


async def test_a_rejection_that_lasts_is_repeated(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", allow_partials=True))
    with pytest.raises(AmountExceedsPending) as first:
        await charge_order(ledger, merchant, "1", by_card(amount=Decimal(10_001)), KEY)
    with pytest.raises(AmountExceedsPending) as again:
        await charge_order(ledger, merchant, "1", by_card(amount=Decimal(10_001)), KEY)
    assert (first.value.repeated, again.value.repeated) == (False, True)
    assert again.value.facts == first.value.facts
    assert again.value.message == first.value.message


async def test_a_rejection_by_the_current_state_is_not_recorded(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    with pytest.raises(OrderNotPayable):
        await charge_order(ledger, merchant, "1", by_card(), KEY)
    await create_order(ledger, merchant, an_order("2"))
    paid = await charge_order(ledger, merchant, "2", by_card(), KEY)
    assert not paid.repeated


async def test_a_call_that_was_never_sent_is_made_under_the_same_key(ledger: Ledger, merchant: Actor) -> None:
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    await ledger.processors.sandbox.set_mode(merchant.merchant_id, Mode.DOWN, 1)
    with pytest.raises(ProcessorUnavailable):
        await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    paid = await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    again = await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    assert [payment.status for payment in paid.order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]
    assert same(paid, again)


async def test_of_many_requests_at_once_one_is_executed(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    other = await open_another()
    await create_order(ledger, merchant, an_order("1", allow_partials=True, amount=Decimal(100_000)))
    part = by_card(amount=Decimal(1_000))
    results = await asyncio.gather(
        *[charge_order(at, merchant, "1", part, KEY) for _ in range(10) for at in (ledger, other)],
        return_exceptions=True,
    )
    receipts = [result for result in results if isinstance(result, OrderResult)]
    others = {type(result) for result in results if not isinstance(result, OrderResult)}
    assert others <= {RequestInProgress}
    assert len({receipt.payment_id for receipt in receipts}) == 1
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from sandbox_charge").fetchone() == (1,)
    again = await charge_order(ledger, merchant, "1", part, KEY)
    assert again.repeated
    assert again.order.amount_paid == 1_000


async def test_while_the_first_request_is_under_way_the_key_is_refused(ledger: Ledger, merchant: Actor) -> None:
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    first = asyncio.create_task(create_order(ledger, merchant, an_order("1", by_card(SILENT)), KEY))
    await asyncio.sleep(0.1)
    with pytest.raises(RequestInProgress):
        await create_order(ledger, merchant, an_order("1", by_card(SILENT)), KEY)
    receipt = await first
    again = await create_order(ledger, merchant, an_order("1", by_card(SILENT)), KEY)
    assert receipt.order.status is OrderStatus.PROCESSING
    assert same(receipt, again)


async def test_after_a_crash_in_between_the_recovery_decides_the_keys_answer(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    """The process dies between the processor's answer and the outcome: only the acceptance and the intent are
    recorded.
    """
    dying = await open_another()
    commit, commits = dying.journal.commit, 0

    async def dies_at_the_outcome(*arguments: object, **named: object) -> int:
        nonlocal commits
        commits += 1
        if commits == 2:
            raise DatabaseUnavailable("the process is gone")
        return await commit(*arguments, **named)  # type: ignore[arg-type]

    dying.journal.commit = dies_at_the_outcome  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        await create_order(dying, merchant, an_order("1", by_card()), KEY)
    with pytest.raises(RequestInProgress):
        await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    async with OpenCalls(database_url) as intents:
        await Recovery(ledger, intents.due, Windows(margin_s=-3600, late_s=-3600)).sweep()
    answered = await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    assert answered.repeated
    assert answered.order.status is OrderStatus.COMPLETED
    again = await create_order(ledger, merchant, an_order("1", by_card()), KEY)
    assert same(answered, again)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from sandbox_charge").fetchone() == (1,)


async def test_the_log_holds_neither_the_key_nor_the_request(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()), IdempotencyKey("ana@example.com", "aa" * 32))
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select convert_from(data, 'UTF8') from event where topic like 'request-%%' order by position"
        ).fetchall()
    assert len(rows) == 2
    assert not any("ana" in row[0] or "4242" in row[0] for row in rows)
