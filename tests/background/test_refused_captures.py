"""An automatic capture that is refused: it is attempted by itself, ends the payment, and its authorisation is voided.

A refusal that passes is tried again until the authorisation lapses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.background.conftest import Open, register, rows
from tests.operations.conftest import an_order, by_card
from tests.operations.test_action_recovery import commit_fails, not_received, recover, unanswered, wrap

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.domain.orders.payment import EntryAction, EntryStatus
from ledger.domain.orders.processor_outcomes import CaptureRefused
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.timers import TimerKind, timers_of
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio

NO_CAPTURE = "4000000000007015"


async def authorised(ledger: Ledger, merchant: Actor, number: str = NO_CAPTURE) -> Order:
    """Returns an order whose capture the processor did not make with its approval."""
    return (await create_order(ledger, merchant, an_order("1", by_card(number)))).order


async def advance(database_url: str, ledger: Ledger, merchant: Actor, **by: int) -> int:
    """Advances the merchant's clock and returns how many jobs that ran."""
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)
    passed = await advancer.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(**by))
    return passed.jobs_run


async def order_now(ledger: Ledger, merchant: Actor, order: Order) -> Order:
    return await load_order(ledger, merchant.merchant_id, order.terms.order_id)


def calls(database_url: str, merchant: Actor) -> list[tuple[str, bool]]:
    """Returns the calls that the processor has recorded for a merchant: (kind, whether it accepted it)."""
    query = "select kind, accepted from sandbox_call where merchant_id = %s and answer <> 'FENCED' order by kind"
    return [(kind, accepted) for kind, accepted in rows(database_url, query, merchant.merchant_id)]


def assert_refused_and_released(order: Order) -> None:
    [payment] = order.payments
    assert (order.status, payment.status, payment.intent) == (OrderStatus.FAILED, PaymentStatus.FAILED, None)
    assert payment.failure is not None
    assert payment.failure.code == "GENERIC_DECLINE"
    steps = [(entry.action, entry.status) for entry in payment.entries]
    assert (EntryAction.CAPTURE, EntryStatus.FAILED) in steps
    assert steps[-1] == (EntryAction.CANCELLATION, EntryStatus.SUCCESS)
    assert timers_of(order) == ()


async def test_it_is_captured_by_itself_fails_with_its_decline_and_is_voided(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order = await authorised(ledger, merchant)
    assert (order.status, order.payments[0].status) == (OrderStatus.AUTHORIZED, PaymentStatus.PENDING_CAPTURE)
    assert await advance(database_url, ledger, merchant, seconds=1) == 2
    assert_refused_and_released(await order_now(ledger, merchant, order))
    assert calls(database_url, merchant) == [("CAPTURE", False), ("VOID", True)]
    assert await advance(database_url, ledger, merchant, days=8) == 0


async def test_a_failed_order_is_paid_by_another_card_while_the_authorisation_is_voided(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order = await authorised(ledger, merchant)
    assert order.payments[0].capture_due_at is not None
    await run(ledger, merchant, order, TimerKind.CAPTURE)
    again = (await create_order(ledger, merchant, an_order("1", by_card()))).order
    assert again.status is OrderStatus.COMPLETED
    await advance(database_url, ledger, merchant, seconds=1)
    paid = await order_now(ledger, merchant, order)
    assert (paid.status, paid.payments[0].status) == (OrderStatus.COMPLETED, PaymentStatus.FAILED)
    assert ("VOID", True) in calls(database_url, merchant)


async def test_a_refusal_that_passes_is_tried_again_until_the_authorisation_lapses(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await authorised(ledger, merchant)
    processor = ledger.processors.sandbox
    assert processor is not None
    asked: list[str] = []

    async def refuse_for_now(request: Any) -> CaptureRefused:
        asked.append(request.idempotency_key)
        return CaptureRefused(code="ISSUER_UNAVAILABLE", retryable=True)

    monkeypatch.setattr(processor, "capture", refuse_for_now)
    await advance(database_url, ledger, merchant, seconds=1)
    held = await order_now(ledger, merchant, order)
    assert (held.status, held.payments[0].status) == (OrderStatus.AUTHORIZED, PaymentStatus.PENDING_CAPTURE)
    await advance(database_url, ledger, merchant, days=8)
    assert len(asked) == len(set(asked)) == 11, "at once, after 1, 2, 4, 8 and 16 hours, and then each day"
    lapsed = await order_now(ledger, merchant, order)
    assert (lapsed.status, lapsed.payments[0].status) == (OrderStatus.FAILED, PaymentStatus.EXPIRED)


async def run(ledger: Ledger, merchant: Actor, order: Order, kind: TimerKind) -> None:
    """Runs the timer of this kind that the order has now, as a worker's job does."""
    order = await order_now(ledger, merchant, order)
    [timer] = [timer for timer in timers_of(order) if timer.kind is kind]
    await run_timer(ledger, merchant.merchant_id, order.terms.order_id, kind, timer.payment_id, timer.at)


Death = Callable[[Ledger, str], None]


def before_its_intent(ledger: Ledger, _: str) -> None:
    commit_fails(ledger, 1)


def before_its_call(ledger: Ledger, method: str) -> None:
    wrap(ledger, method, not_received)


def before_its_outcome(ledger: Ledger, _: str) -> None:
    commit_fails(ledger, 2)


def without_an_answer(ledger: Ledger, method: str) -> None:
    wrap(ledger, method, unanswered)


DEATHS: tuple[Death, ...] = (before_its_intent, before_its_call, before_its_outcome, without_an_answer)


@pytest.mark.parametrize("kind", [TimerKind.CAPTURE, TimerKind.VOID])
async def test_wherever_its_worker_ends_it_is_refused_once_and_voided_once(
    ledger: Ledger, open_another: Open, database_url: str, kind: TimerKind
) -> None:
    orders, dying, method = [], await open_another(), kind.lower()
    for death in DEATHS:
        merchant = await register(ledger)
        order = await authorised(ledger, merchant)
        orders.append((merchant, order))
        if kind is TimerKind.VOID:
            await run(ledger, merchant, order, TimerKind.CAPTURE)
        with pytest.MonkeyPatch.context() as restored, suppress(DatabaseUnavailable, asyncio.CancelledError):
            restored.setattr(dying.journal, "commit", dying.journal.commit)
            restored.setattr(dying.processors.sandbox, method, getattr(dying.processors.sandbox, method))
            death(dying, method)
            await run(dying, merchant, order, kind)
    await recover(database_url, ledger, ledger)
    for _ in range(2):  # an abandoned capture is due a minute later
        for merchant, _order in orders:
            await advance(database_url, ledger, merchant, minutes=2)
        await recover(database_url, ledger)
    for merchant, order in orders:
        assert_refused_and_released(await order_now(ledger, merchant, order))
        assert calls(database_url, merchant) == [("CAPTURE", False), ("VOID", True)]


async def test_an_approval_that_the_recovery_finds_without_its_capture_is_captured_too(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    wrap(ledger, "authorize", unanswered)
    order = await authorised(ledger, merchant)
    assert order.status is OrderStatus.PROCESSING
    await recover(database_url, ledger)
    await advance(database_url, ledger, merchant, seconds=1)
    assert_refused_and_released(await order_now(ledger, merchant, order))
