"""A process that ends anywhere inside an action: two recoveries at once find its outcome, and its key is answered with
it.

The processor's rows are the truth: nothing is in them twice, and the ledger records nothing that is not in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from tests.operations.conftest import Open, an_order, by_card
from tests.operations.test_actions import CHALLENGED, FRICTIONLESS, KEY, MANUAL, SPEI

from ledger.background.recovery import Recovery, Windows
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import RequestInProgress
from ledger.operations.context.inputs import (
    Actor,
    CancelInput,
    CaptureInput,
    DeviceDataInput,
    RefundInput,
    ValidateInput,
)
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, find_order
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorTimedOut
from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio

AFTERWARDS = Windows(margin_s=-3600, late_s=-3600)
"""Windows with which every deadline has passed already."""
GIVEN_UP = Windows(margin_s=-3600, late_s=-3600, repeat_s=-3600)
"""The same, after the day for which calls that never arrived are sent again."""
S = OrderStatus
REPEATED = {"capture", "void", "refund", "pay_out"}
"""The processor's methods whose calls are sent again."""


class Action:
    """An action on the order `1` (`on` for a reference's own), the processor's method that it calls, and how it ends.

    `done` is the order's status where the processor received the call, `undone` where it did not.
    """

    def __init__(self, method: str, done: OrderStatus, undone: OrderStatus, *, on: str = "1") -> None:
        self.method, self.done, self.undone, self.on = method, done, undone, on

    @property
    def sent_again(self) -> OrderStatus:
        """The order's status where the processor did not receive the call, and the recovery has sent it again."""
        return self.done if self.method in REPEATED else self.undone

    async def prepare(self, ledger: Ledger, merchant: Actor) -> None:
        payment, terms = {
            "capture": (by_card(), MANUAL),
            "void": (by_card(), MANUAL),
            "refund": (by_card(), {}),
            "validate_authentication": (by_card(CHALLENGED), {}),
            "submit_device_data": (by_card(FRICTIONLESS), {}),
        }.get(self.method, (None, {}))
        if payment is not None:
            await create_order(ledger, merchant, an_order("1", payment, **terms))

    async def do(self, ledger: Ledger, merchant: Actor, key: IdempotencyKey | None = KEY) -> Any:
        match self.method:
            case "capture":
                return await capture_order(ledger, merchant, "1", CaptureInput(), key)
            case "void":
                return await cancel_order(ledger, merchant, "1", CancelInput(), key)
            case "refund":
                return await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000)), key)
            case "submit_device_data":
                return await submit_device_data(ledger, merchant, "1", DeviceDataInput(), key)
            case "validate_authentication":
                order = await order_named(ledger, merchant, "1")
                session = order.payments[0].session
                assert session is not None
                return await validate(ledger, merchant, "1", ValidateInput(transaction_id=session.transaction_id), key)
            case "issue_reference":
                return await create_order(ledger, merchant, an_order("ref", SPEI), key)
        raise AssertionError(self.method)


ACTIONS = [
    Action("capture", S.COMPLETED, S.AUTHORIZED),
    Action("void", S.CANCELLED, S.CANCELLATION_REQUESTED),
    Action("refund", S.PARTIALLY_REFUNDED, S.COMPLETED),
    Action("submit_device_data", S.AUTHORIZED, S.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED),
    Action("validate_authentication", S.AUTHORIZED, S.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED),
    Action("issue_reference", S.REFERENCE_GENERATED, S.FAILED, on="ref"),
]
every_action = pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.method)


async def order_named(ledger: Ledger, merchant: Actor, external_id: str) -> Order:
    return await find_order(ledger, merchant.merchant_id, external_id)


async def recover(database_url: str, *ledgers: Ledger, windows: Windows = AFTERWARDS) -> None:
    """Sweeps with a recovery on each of these ledgers at once, as when the deadlines have passed."""
    async with OpenCalls(database_url) as intents:
        await asyncio.gather(*[Recovery(ledger, intents.due, windows).sweep() for ledger in ledgers])


def calls_booked(database_url: str) -> list[tuple[str, int]]:
    """Returns how many calls the processor's rows record, by kind."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            "select kind, count(*) from sandbox_call where answer <> 'FENCED' group by 1 order by 1"
        ).fetchall()


def wrap(ledger: Ledger, method: str, around: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Any]]) -> None:
    setattr(ledger.processors.sandbox, method, around(getattr(ledger.processors.sandbox, method)))


def not_received(_: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def call(_: Any) -> Any:
        raise asyncio.CancelledError

    return call


def unanswered(call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def booked_and_silent(request: Any) -> Any:
        await call(request)
        raise ProcessorTimedOut

    return booked_and_silent


def commit_fails(ledger: Ledger, at: int) -> None:
    commit, commits = ledger.journal.commit, 0

    async def dies(*arguments: Any, **named: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == at:
            raise DatabaseUnavailable("the process is gone")
        return await commit(*arguments, **named)

    ledger.journal.commit = dies  # type: ignore[method-assign]


@every_action
async def test_before_the_intent_nothing_has_happened(
    ledger: Ledger, merchant: Actor, open_another: Open, action: Action
) -> None:
    await action.prepare(ledger, merchant)
    dying = await open_another()
    commit_fails(dying, 1)
    with pytest.raises(DatabaseUnavailable):
        await action.do(dying, merchant)
    done = await action.do(ledger, merchant)
    assert (done.repeated, done.order.status) == (False, action.done)


@every_action
async def test_a_call_that_the_processor_never_received_is_found_missing(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action
) -> None:
    await action.prepare(ledger, merchant)
    before = calls_booked(database_url)
    dying, other = await open_another(), await open_another()
    wrap(dying, action.method, not_received)
    with pytest.raises(asyncio.CancelledError):
        await action.do(dying, merchant)
    with pytest.raises(RequestInProgress):
        await action.do(ledger, merchant)
    await recover(database_url, ledger, other, windows=GIVEN_UP)
    order = await order_named(ledger, merchant, action.on)
    assert order.status is action.undone
    assert order.open_intent is None
    assert calls_booked(database_url) == before
    told = await action.do(ledger, merchant)
    assert (told.repeated, told.order.status) == (True, action.undone)


@every_action
@pytest.mark.parametrize("end", ["no answer", "after the answer"])
async def test_a_call_that_the_processor_executed_is_found_and_answered_under_the_key(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action, end: str
) -> None:
    await action.prepare(ledger, merchant)
    dying, other = await open_another(), await open_another()
    if end == "no answer":
        wrap(dying, action.method, unanswered)
        waits = await action.do(dying, merchant)
        assert waits.order.open_intent is not None
        assert waits.order.open_intent.unknown
        assert waits.order.open_intent.over_at < waits.order.open_intent.deadline_at, "it is looked up early"
    else:
        commit_fails(dying, 2)
        with pytest.raises(DatabaseUnavailable):
            await action.do(dying, merchant)
    booked = calls_booked(database_url)
    await recover(database_url, ledger, other)
    order = await order_named(ledger, merchant, action.on)
    assert order.status is action.done
    assert calls_booked(database_url) == booked, "it looks up, it never sends again"
    told = await action.do(ledger, merchant)
    assert told.repeated
    assert told.order.status is (waits.order.status if end == "no answer" else action.done)
    assert calls_booked(database_url) == booked


@every_action
async def test_after_the_outcome_the_key_has_its_answer(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action
) -> None:
    await action.prepare(ledger, merchant)
    dying = await open_another()
    done = await action.do(dying, merchant)
    booked = calls_booked(database_url)
    told = await action.do(ledger, merchant)
    assert (told.repeated, told.order) == (True, done.order)
    assert done.order.status is action.done
    assert calls_booked(database_url) == booked
