"""Captures, voids, refunds and payouts that never reached the processor: the recovery sends them again, once each.

The processor's rows are the truth: however many workers there are and wherever one ends, each call is in them once,
under the key of its intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.operations.conftest import Open, an_order, register
from tests.operations.test_action_recovery import (
    GIVEN_UP,
    Action,
    S,
    calls_booked,
    commit_fails,
    not_received,
    order_named,
    recover,
    unanswered,
    wrap,
)
from tests.operations.test_actions import KEY, SPEI

from ledger.background.recovery import Windows
from ledger.domain.orders.commands import RecordDeposit
from ledger.domain.orders.decide.references import decide_deposit
from ledger.domain.orders.events import CallPostponed, CallRepeated
from ledger.domain.orders.payment import Intent
from ledger.domain.orders.terms import Destination
from ledger.operations.context.inputs import Actor, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer, erase_payer
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline import processor_requests
from ledger.operations.pipeline.processor_requests import not_sent
from ledger.operations.pipeline.repeat_call import repeat_call
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit

pytestmark = pytest.mark.anyio

CLABE = Destination(clabe="032180000118359719", account_holder="Ana")


class Payout(Action):
    """A refund of money that came by transfer: it goes to an account."""

    async def prepare(self, ledger: Ledger, merchant: Actor) -> None:
        order = (await create_order(ledger, merchant, an_order("1", SPEI))).order
        await deposit(ledger, merchant, order)

    async def do(self, ledger: Ledger, merchant: Actor, key: Any = KEY) -> Any:
        return await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000), destination=CLABE), key)


async def deposit(ledger: Ledger, merchant: Actor, order: Any, name: str = "deposit-1") -> None:
    """Has the sandbox's bank receive the order's money, and records it."""
    [payment] = order.payments
    assert payment.reference is not None
    message = await bank(ledger).deposit(
        Deposit(
            merchant_id=merchant.merchant_id,
            message_id=name,
            sent_to=payment.reference.reference,
            amount=Decimal(10_000),
            at=order.updated_at,
        )
    )
    uow = UnitOfWork(ledger, merchant)
    current = await uow.order(order.terms.order_id)
    command = RecordDeposit(
        payment_id=payment.payment_id,
        deposit_id=message.message_id,
        amount=message.amount,
        processor_reference=message.processor_reference,
        at=uow.now,
    )
    await uow.commit(Plan(changes=[uow.change_order(order.terms.order_id, decide_deposit(current, command))]))


def bank(ledger: Ledger) -> SandboxProcessor:
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    return ledger.processors.sandbox


CALLS = [
    Action("capture", S.COMPLETED, S.AUTHORIZED),
    Action("void", S.CANCELLED, S.CANCELLATION_REQUESTED),
    Action("refund", S.PARTIALLY_REFUNDED, S.COMPLETED),
    Payout("pay_out", S.REFUND_PROCESSING, S.COMPLETED),
]
every_call = pytest.mark.parametrize("action", CALLS, ids=lambda action: action.method)


async def postponed(ledger: Ledger, merchant: Actor, action: Action) -> Intent:
    """Returns the open call of an action that the processor could not be reached for."""
    await action.prepare(ledger, merchant)
    await bank(ledger).set_mode(merchant.merchant_id, Mode.DOWN, 1)
    waits = await action.do(ledger, merchant)
    intent = waits.order.open_intent
    assert intent is not None
    assert intent.unsent
    return intent


async def assert_done_once(ledger: Ledger, merchant: Actor, action: Action, intent: Intent, sent: list[Any]) -> None:
    order = await order_named(ledger, merchant, "1")
    assert (order.status, order.open_intent) == (action.done, None)
    assert {request.idempotency_key for request in sent} == {intent.idempotency_key}
    [again] = [await action.do(ledger, merchant)]
    assert again.repeated


def recording(sent: list[Any]) -> Callable[..., Any]:
    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        async def recorded(request: Any) -> Any:
            sent.append(request)
            return await call(request)

        return recorded

    return around


@every_call
async def test_a_call_that_never_arrived_is_sent_again_once_by_several_workers(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action
) -> None:
    intent, before, sent = await postponed(ledger, merchant, action), calls_booked(database_url), list[Any]()
    other, order_id = await open_another(), (await order_named(ledger, merchant, "1")).terms.order_id
    for each in (ledger, other):
        wrap(each, action.method, recording(sent))
    await asyncio.gather(
        *[repeat_call(each, merchant.merchant_id, order_id, intent) for each in (ledger, other, ledger, other)]
    )
    await assert_done_once(ledger, merchant, action, intent, sent)
    assert len(sent) == 1
    assert sent[0].deadline_at > intent.deadline_at
    if action.method == "pay_out":
        assert (sent[0].destination.clabe, sent[0].destination.account_holder) == (CLABE.clabe, CLABE.account_holder)
    assert sum(n for _, n in calls_booked(database_url)) == sum(n for _, n in before) + 1
    events = await ledger.journal.reader.stream(merchant.merchant_id, order_id)
    assert [type(event) for event in events if isinstance(event, CallPostponed | CallRepeated)] == [
        CallPostponed,
        CallRepeated,
    ]


@every_call
async def test_it_is_sent_again_until_it_arrives_and_the_key_is_answered_meanwhile(
    ledger: Ledger, merchant: Actor, database_url: str, action: Action
) -> None:
    intent, sent = await postponed(ledger, merchant, action), list[Any]()
    wrap(ledger, action.method, recording(sent))
    await bank(ledger).set_mode(merchant.merchant_id, Mode.DOWN, 3)
    for tries in (2, 3, 4):
        again = await action.do(ledger, merchant)
        assert (again.repeated, again.order.open_intent.unsent) == (True, True)
        await recover(database_url, ledger)
        waits = (await order_named(ledger, merchant, "1")).open_intent
        assert waits is not None
        assert (waits.unsent, waits.tries, waits.first_deadline_at) == (True, tries, intent.deadline_at)
    await recover(database_url, ledger)
    await assert_done_once(ledger, merchant, action, intent, sent)
    assert len(sent) == 4


async def test_the_pause_before_the_next_call_doubles_up_to_ten_minutes(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    [refund] = [action for action in CALLS if action.method == "refund"]
    intent = await postponed(ledger, merchant, refund)
    order, now = await order_named(ledger, merchant, "1"), intent.deadline_at
    monkeypatch.setattr(processor_requests, "datetime", SimpleNamespace(now=lambda _: now))
    untils = [not_sent(order, replace(intent, tries=tries)).until for tries in (1, 2, 3, 4, 8, 100)]
    assert [None if until is None else (until - now).total_seconds() for until in untils] == [0, 5, 15, 35, 595, 595]


async def test_it_is_not_sent_before_its_time(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    [refund] = [action for action in CALLS if action.method == "refund"]
    await postponed(ledger, merchant, refund)
    await recover(database_url, ledger, windows=Windows(margin_s=3600, late_s=0))
    assert (await order_named(ledger, merchant, "1")).status is S.REFUND_PROCESSING


@every_call
async def test_after_a_day_it_is_given_up_behind_a_fence(
    ledger: Ledger, merchant: Actor, database_url: str, action: Action
) -> None:
    intent, before = await postponed(ledger, merchant, action), calls_booked(database_url)
    await bank(ledger).set_mode(merchant.merchant_id, Mode.DOWN, 1)
    await recover(database_url, ledger)
    await recover(database_url, ledger, windows=GIVEN_UP)
    order = await order_named(ledger, merchant, "1")
    assert (order.status, order.open_intent) == (action.undone, None)
    assert await repeat_call(ledger, merchant.merchant_id, order.terms.order_id, intent) == order, "it is settled"
    assert calls_booked(database_url) == before


@every_call
async def test_a_lost_call_that_arrives_after_it_was_sent_again_counts_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action
) -> None:
    await action.prepare(ledger, merchant)
    before, sent, woken = calls_booked(database_url), asyncio.Event(), asyncio.Event()
    stalling = await open_another()

    def stalled(call: Callable[..., Any]) -> Callable[..., Any]:
        async def late(request: Any) -> Any:
            sent.set()
            await woken.wait()
            return await call(request)

        return late

    wrap(stalling, action.method, stalled)
    request = asyncio.create_task(action.do(stalling, merchant))
    await sent.wait()
    await recover(database_url, ledger)
    assert (await order_named(ledger, merchant, "1")).status is action.done
    woken.set()
    assert (await request).order.status is action.done
    assert sum(n for _, n in calls_booked(database_url)) == sum(n for _, n in before) + 1


DEATHS: dict[str, Callable[[Ledger, str], None]] = {
    "before the repetition is committed": lambda ledger, _: commit_fails(ledger, 1),
    "after that and before the call": lambda ledger, method: wrap(ledger, method, not_received),
    "after the call and before its outcome": lambda ledger, _: commit_fails(ledger, 2),
    "without an answer": lambda ledger, method: wrap(ledger, method, unanswered),
}


@every_call
async def test_wherever_the_worker_ends_that_sends_it_again_it_is_carried_out_once(
    ledger: Ledger, open_another: Open, database_url: str, action: Action
) -> None:
    dying, cases = await open_another(), []
    for death in DEATHS.values():
        merchant = await register(ledger)
        intent = await postponed(ledger, merchant, action)
        cases.append(merchant)
        order_id = (await order_named(ledger, merchant, "1")).terms.order_id
        with pytest.MonkeyPatch.context() as restored, suppress(DatabaseUnavailable, asyncio.CancelledError):
            restored.setattr(dying.journal, "commit", dying.journal.commit)
            restored.setattr(dying.processors.sandbox, action.method, getattr(dying.processors.sandbox, action.method))
            death(dying, action.method)
            await repeat_call(dying, merchant.merchant_id, order_id, intent)
    before = dict(calls_booked(database_url))
    await recover(database_url, ledger, dying)
    for merchant in cases:
        order = await order_named(ledger, merchant, "1")
        assert (order.status, order.open_intent) == (action.done, None)
        assert (await action.do(ledger, merchant)).repeated
    kind = {"pay_out": "PAY_OUT"}.get(action.method, action.method.upper())
    assert before[kind] == 2, "the processor had the calls of two"
    assert dict(calls_booked(database_url))[kind] == len(DEATHS)


async def test_a_payout_is_not_sent_elsewhere_after_its_customer_was_erased(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    payout, sent = CALLS[-1], list[Any]()
    intent = await postponed(ledger, merchant, payout)
    order = await order_named(ledger, merchant, "1")
    order_id = order.terms.order_id

    async def no_orders(*_: Any) -> list[UUID]:
        return []

    async def its_order(_merchant_id: UUID, _customer_id: UUID, last: UUID, _limit: int) -> list[UUID]:
        return [] if last == order_id else [order_id]

    fresh = await open_another()  # a process without the data key in its cache
    wrap(fresh, "pay_out", recording(sent))
    await delete_customer(ledger, merchant, str(order.terms.customer_id), no_orders)
    await recover(database_url, fresh)
    assert (await order_named(fresh, merchant, "1")).open_intent == intent, "its erasure is under way"
    await erase_payer(ledger, merchant, order.terms.customer_id, its_order)
    await recover(database_url, await open_another())
    order = await order_named(ledger, merchant, "1")
    assert (sent, order.status, order.open_intent) == ([], S.COMPLETED, None)
