"""Timers: run once by any number of workers, and not at all where they no longer apply."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from tests.operations.conftest import Open, an_order, by_card
from tests.operations.test_action_recovery import GIVEN_UP, calls_booked, not_received, order_named, recover, wrap
from tests.operations.test_actions import CHALLENGED, MANUAL, SPEI

from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.timers import Timer, TimerKind, timers_of
from ledger.operations.context.clock import Clock
from ledger.operations.context.inputs import Actor, CancelInput, ValidateInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.authenticate import validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.due.timers import run_timer

pytestmark = pytest.mark.anyio


class Ahead(Clock):
    """A clock that is ahead of real time."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self, merchant_id: UUID) -> datetime:  # noqa: ARG002 - the same for all
        return datetime.now(UTC) + self._ahead


async def challenge_passed(ledger: Ledger, merchant: Actor) -> Order:
    asked = await create_order(ledger, merchant, an_order("1", by_card(CHALLENGED)))
    session = asked.order.payments[0].session
    assert session is not None
    draft = ValidateInput(transaction_id=session.transaction_id)
    return (await validate(ledger, merchant, "1", draft)).order


async def run_timer_of(ledger: Ledger, merchant: Actor, order: Order, due: Timer) -> Order:
    return await run_timer(ledger, merchant.merchant_id, order.terms.order_id, due.kind, due.payment_id, due.at)


async def test_a_delayed_capture_is_made_once_by_many_workers(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    order = await challenge_passed(ledger, merchant)
    (due,) = timers_of(order)
    assert due.kind is TimerKind.CAPTURE
    assert (await run_timer_of(ledger, merchant, order, due)).status is OrderStatus.AUTHORIZED, "it is not due yet"
    other = await open_another()
    for each in (ledger, other):
        each.clock = Ahead(timedelta(seconds=6))
    await asyncio.gather(*[run_timer_of(each, merchant, order, due) for each in (ledger, other) * 4])
    captured = await order_named(ledger, merchant, "1")
    assert (captured.status, captured.amount_paid) == (OrderStatus.COMPLETED, 10_000)
    assert dict(calls_booked(database_url))["CAPTURE"] == 1


async def test_a_reference_a_session_and_an_authorisation_end(ledger: Ledger, merchant: Actor) -> None:
    for name, payment, terms in (("ref", SPEI, {}), ("3ds", by_card(CHALLENGED), {}), ("auth", by_card(), MANUAL)):
        order = (await create_order(ledger, merchant, an_order(name, payment, **terms))).order
        (due,) = timers_of(order)
        ledger.clock = Ahead(due.at - datetime.now(UTC) + timedelta(seconds=1))
        ended = await run_timer_of(ledger, merchant, order, due)
        ledger.clock = Clock()
        assert ended.status is OrderStatus.FAILED
        assert ended.payments[0].status is PaymentStatus.EXPIRED


async def test_an_authorisation_expires_when_its_processors_validity_ends(ledger: Ledger, merchant: Actor) -> None:
    assert ledger.processors.sandbox is not None
    ledger.processors.sandbox.capabilities = replace(
        ledger.processors.sandbox.capabilities, authorization_validity_s=3600.0
    )
    order = (await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))).order
    (due,) = timers_of(order)
    assert (due.kind, due.at - order.updated_at) == (TimerKind.LAPSE, timedelta(hours=1))
    ledger.clock = Ahead(timedelta(minutes=59))
    assert (await run_timer_of(ledger, merchant, order, due)).status is OrderStatus.AUTHORIZED
    ledger.clock = Ahead(timedelta(minutes=61))
    assert (await run_timer_of(ledger, merchant, order, due)).status is OrderStatus.FAILED


async def test_a_void_that_was_never_sent_is_made_when_it_is_due_again(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    dying = await open_another()
    wrap(dying, "void", not_received)
    with pytest.raises(asyncio.CancelledError):
        await cancel_order(dying, merchant, "1", CancelInput())
    await recover(database_url, ledger, windows=GIVEN_UP)
    order = await order_named(ledger, merchant, "1")
    due = next(due for due in timers_of(order) if due.kind is TimerKind.VOID)
    assert (await run_timer_of(ledger, merchant, order, due)).status is OrderStatus.CANCELLED
    assert (await run_timer_of(ledger, merchant, order, due)).status is OrderStatus.CANCELLED
    with psycopg.connect(database_url) as connection:
        assert connection.execute(
            "select count(*) from sandbox_call where kind = 'VOID' and answer <> 'FENCED'"
        ).fetchone() == (1,)
