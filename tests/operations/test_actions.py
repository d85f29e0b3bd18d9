"""Every action on an order against the real sandbox: what is committed before the call, after it, and when it is
repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.operations.conftest import APPROVED, Open, an_order, by_card
from tests.processors.shop import question

from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod, MethodType
from ledger.domain.rejections import (
    AmountExceedsPending,
    CaptureExceedsAuthorized,
    InvalidField,
    InvalidOrderState,
    OrderHasCapturedFunds,
    PartialsNotAllowed,
    PayerAuthenticationFailed,
    RefundExceedsBalance,
    RefundInProgress,
)
from ledger.operations.context.inputs import (
    Actor,
    CancelInput,
    CaptureInput,
    DeviceDataInput,
    PaymentInput,
    RefundInput,
    ValidateInput,
)
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio

CHALLENGED, FRICTIONLESS, DEVICE_THEN_CHALLENGE = "4000000000003220", "4000000000003055", "4000000000003063"
REFUNDS_LATER, REFUNDS_FAIL, HALF = "4000000000005126", "4000000000007726", "4000000000000010"
NO_CAPTURE, NO_VOID = "4000000000007015", "4000000000007023"
KEY = IdempotencyKey("action", "ab" * 32)
SPEI = PaymentInput(type=MethodType.SPEI)
MANUAL = {"capture_method": CaptureMethod.MANUAL}


def part(amount: int, number: str = APPROVED, **more: Any) -> PaymentInput:
    return by_card(number, amount=Decimal(amount), **more)


async def a_split_order(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", allow_partials=True))


# ---------------------------------------------------------------- references and parts


@pytest.mark.parametrize("method", [MethodType.SPEI, MethodType.PAYCASH, MethodType.CIE_CASH_NET])
async def test_a_reference_is_issued(ledger: Ledger, merchant: Actor, method: MethodType) -> None:
    done = await create_order(ledger, merchant, an_order("1", PaymentInput(type=method)))
    assert done.order.status is OrderStatus.REFERENCE_GENERATED
    reference = done.order.payments[0].reference
    assert reference is not None
    assert reference.reference


async def test_a_charge_replaces_the_reference(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", SPEI))
    paid = await charge_order(ledger, merchant, "1", by_card())
    assert paid.order.status is OrderStatus.COMPLETED
    assert [payment.status for payment in paid.order.payments] == [PaymentStatus.CANCELLED, PaymentStatus.CAPTURED]
    await ledger.drain()
    processor = ledger.processors.sandbox
    assert processor is not None
    key = f"{paid.order.payments[0].payment_id}:withdrawal"
    assert await processor.look_up_cancellation(question(merchant.merchant_id, key)) is not None


async def test_parts_of_several_methods_pay_an_order(ledger: Ledger, merchant: Actor) -> None:
    await a_split_order(ledger, merchant)
    first = await add_payment(ledger, merchant, "1", part(4_000))
    assert (first.created, first.order.status) == (True, OrderStatus.PARTIALLY_PAID)
    waits = await add_payment(ledger, merchant, "1", PaymentInput(type=MethodType.SPEI, amount=Decimal(1_000)))
    assert waits.order.payments[1].reference is not None
    last = await add_payment(ledger, merchant, "1", by_card())
    assert last.order.status is OrderStatus.COMPLETED
    assert last.order.payment(last.payment_id).captured == 6_000  # type: ignore[arg-type]


async def test_a_part_with_the_same_external_id_is_one_part(ledger: Ledger, merchant: Actor) -> None:
    await a_split_order(ledger, merchant)
    first = await add_payment(ledger, merchant, "1", part(4_000, external_id="rent"))
    await add_payment(ledger, merchant, "1", part(1_000))
    again = await add_payment(ledger, merchant, "1", part(4_000, external_id="rent"))
    assert (again.created, again.replayed, again.payment_id) == (False, True, first.payment_id)


async def test_parts_never_exceed_the_order(ledger: Ledger, merchant: Actor, open_another: Open) -> None:
    other = await open_another()
    await a_split_order(ledger, merchant)
    results = await asyncio.gather(
        *[add_payment(at, merchant, "1", part(3_000)) for _ in range(4) for at in (ledger, other)],
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, BaseException)]
    assert {type(result) for result in refused} == {AmountExceedsPending}
    assert len(refused) == 5
    await create_order(ledger, merchant, an_order("2"))
    with pytest.raises(PartialsNotAllowed):
        await add_payment(ledger, merchant, "2", part(1))


# ---------------------------------------------------------------- authorise, capture, void


async def test_a_manual_capture_of_a_part_can_be_refunded(ledger: Ledger, merchant: Actor) -> None:
    granted = await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    assert granted.order.status is OrderStatus.AUTHORIZED
    with pytest.raises(CaptureExceedsAuthorized):
        await capture_order(ledger, merchant, "1", CaptureInput(amount=Decimal(10_001)))
    taken = await capture_order(ledger, merchant, "1", CaptureInput(amount=Decimal(7_000)), KEY)
    assert (taken.order.status, taken.order.amount_paid) == (OrderStatus.PARTIALLY_PAID, 7_000)
    again = await capture_order(ledger, merchant, "1", CaptureInput(amount=Decimal(7_000)), KEY)
    assert again.repeated
    assert again.order == taken.order
    rest = await capture_order(ledger, merchant, "1", CaptureInput())
    assert (rest.order.status, rest.order.amount_paid) == (OrderStatus.COMPLETED, 10_000)
    back = await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(8_000)))
    assert (back.order.status, back.order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 8_000)


async def test_a_capture_by_hand_that_is_refused_leaves_the_payment_authorised(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(NO_CAPTURE), **MANUAL))
    refused = await capture_order(ledger, merchant, "1", CaptureInput())
    assert refused.order.payments[0].status is PaymentStatus.AUTHORIZED
    cancelled = await cancel_order(ledger, merchant, "1", CancelInput())
    assert cancelled.order.status is OrderStatus.CANCELLED


async def test_cancelling_voids_what_is_authorised(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    cancelled = await cancel_order(ledger, merchant, "1", CancelInput(reason="changed my mind"), KEY)
    assert cancelled.order.status is OrderStatus.CANCELLED
    again = await cancel_order(ledger, merchant, "1", CancelInput(reason="changed my mind"), KEY)
    assert again.repeated
    with pytest.raises(InvalidOrderState):
        await cancel_order(ledger, merchant, "1", CancelInput())


async def test_an_order_whose_void_is_refused_stays_open(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(NO_VOID), **MANUAL))
    kept = await cancel_order(ledger, merchant, "1", CancelInput())
    assert kept.order.status is OrderStatus.AUTHORIZED


async def test_cancelling_with_refund_refunds_everything_at_once(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", allow_partials=True, **MANUAL))
    for amount in (2_000, 3_000, 4_000):
        await add_payment(ledger, merchant, "1", part(amount))
    first = (await capture_order(ledger, merchant, "1", CaptureInput())).payment_id
    with pytest.raises(OrderHasCapturedFunds):
        await cancel_order(ledger, merchant, "1", CancelInput())
    closed = await cancel_order(ledger, merchant, "1", CancelInput(refund_captured=True), KEY)
    assert closed.order.status is OrderStatus.REFUNDED
    assert closed.order.amount_refunded == closed.order.amount_paid == 4_000
    assert closed.order.payment(first).status is PaymentStatus.REFUNDED  # type: ignore[arg-type]
    assert (await cancel_order(ledger, merchant, "1", CancelInput(refund_captured=True), KEY)).order == closed.order


# ---------------------------------------------------------------- refunds


async def test_a_refund_is_made_once_under_its_key_and_its_external_id(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    draft = RefundInput(amount=Decimal(4_000), external_id="r-1", reason="broken")
    first = await refund_order(ledger, merchant, "1", draft, KEY)
    again = await refund_order(ledger, merchant, "1", draft, KEY)
    named = await refund_order(ledger, merchant, "1", draft)
    assert (first.created, again.repeated, named.replayed) == (True, True, True)
    assert first.refund_id == again.refund_id == named.refund_id
    assert named.order.amount_refunded == 4_000
    refund = named.order.refund(first.refund_id)
    assert refund is not None
    assert (refund.status, refund.reason) == (RefundStatus.SUCCEEDED, "broken")


async def test_a_repeated_refund_is_answered_as_it_was_then(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    first = await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000)), KEY)
    await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(1_000)))
    again = await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000)), KEY)
    assert (again.repeated, again.order) == (True, first.order)


async def test_simultaneous_refunds_never_exceed_what_was_captured(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    other = await open_another()
    await create_order(ledger, merchant, an_order("1", by_card()))
    results = await asyncio.gather(
        *[
            refund_order(at, merchant, "1", RefundInput(amount=Decimal(3_000)))
            for _ in range(5)
            for at in (ledger, other)
        ],
        return_exceptions=True,
    )
    assert {type(result) for result in results if isinstance(result, BaseException)} <= {
        RefundInProgress,
        RefundExceedsBalance,
    }
    done = sum(not isinstance(result, BaseException) for result in results)
    last = await create_order(ledger, merchant, an_order("1", by_card()))
    assert last.order.amount_refunded == 3_000 * done <= 10_000


async def test_a_refund_that_is_answered_later_is_pending_and_one_that_fails_leaves_the_money(
    ledger: Ledger, merchant: Actor
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(REFUNDS_LATER)))
    later = await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(10_000)))
    assert later.order.status is OrderStatus.REFUND_PROCESSING
    await create_order(ledger, merchant, an_order("2", by_card(REFUNDS_FAIL)))
    failed = await refund_order(ledger, merchant, "2", RefundInput(amount=Decimal(10_000)))
    assert (failed.order.status, failed.order.amount_refunded) == (OrderStatus.COMPLETED, 0)
    assert failed.order.refunds[0].status is RefundStatus.FAILED


async def test_a_refund_across_payments_is_one_refund(ledger: Ledger, merchant: Actor) -> None:
    await a_split_order(ledger, merchant)
    for amount in (4_000, 6_000):
        await add_payment(ledger, merchant, "1", part(amount))
    back = await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(7_000)))
    refund = back.order.refund(back.refund_id)
    assert refund is not None
    assert [(p.amount, p.status) for p in refund.parts] == [
        (6_000, RefundStatus.SUCCEEDED),
        (1_000, RefundStatus.SUCCEEDED),
    ]
    assert back.order.status is OrderStatus.PARTIALLY_PAID


# ---------------------------------------------------------------- payer authentication


async def test_a_challenge_is_passed_and_the_capture_is_delayed(ledger: Ledger, merchant: Actor) -> None:
    asked = await create_order(ledger, merchant, an_order("1", by_card(CHALLENGED)))
    assert asked.order.status is OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    with pytest.raises(InvalidField):
        await validate(ledger, merchant, "1", ValidateInput(transaction_id="somebody else's"))
    session = asked.order.payments[0].session
    assert session is not None
    draft = ValidateInput(transaction_id=session.transaction_id)
    passed = await validate(ledger, merchant, "1", draft, KEY)
    assert passed.order.status is OrderStatus.AUTHORIZED
    due_at, lapses_at = passed.order.payments[0].capture_due_at, passed.order.payments[0].lapses_at
    assert due_at is not None
    assert lapses_at is not None
    assert lapses_at - due_at == timedelta(days=7) - timedelta(seconds=5)
    assert (await validate(ledger, merchant, "1", draft, KEY)).order == passed.order
    with pytest.raises(InvalidOrderState):
        await validate(ledger, merchant, "1", draft)


async def test_a_failed_challenge_is_answered_again_under_its_key(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(CHALLENGED)))
    draft = ValidateInput(transaction_id="please-fail")
    with pytest.raises(PayerAuthenticationFailed) as first:
        await validate(ledger, merchant, "1", draft, KEY)
    with pytest.raises(PayerAuthenticationFailed) as again:
        await validate(ledger, merchant, "1", draft, KEY)
    assert (first.value.repeated, again.value.repeated) == (False, True)
    shown = await create_order(ledger, merchant, an_order("1"))
    assert shown.order.status is OrderStatus.FAILED


async def test_device_data_leads_to_an_authorisation_or_to_a_challenge(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1", by_card(FRICTIONLESS)))
    known = await submit_device_data(ledger, merchant, "1", DeviceDataInput(), KEY)
    assert known.order.status is OrderStatus.AUTHORIZED
    assert (await submit_device_data(ledger, merchant, "1", DeviceDataInput(), KEY)).repeated
    asked = await create_order(ledger, merchant, an_order("2", by_card(DEVICE_THEN_CHALLENGE)))
    assert asked.order.status is OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    challenged = await submit_device_data(ledger, merchant, "2", DeviceDataInput())
    assert challenged.order.status is OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED


async def test_at_a_virtual_terminal_no_payer_is_challenged(ledger: Ledger, merchant: Actor) -> None:
    paid = await create_order(ledger, merchant, an_order("1", by_card(CHALLENGED, virtual_terminal=True)))
    assert paid.order.status is OrderStatus.COMPLETED


async def test_a_validated_part_that_no_longer_fits_fails(ledger: Ledger, merchant: Actor) -> None:
    await a_split_order(ledger, merchant)
    asked = await add_payment(ledger, merchant, "1", part(6_000, CHALLENGED))
    session = asked.order.payments[0].session
    assert session is not None
    await add_payment(ledger, merchant, "1", part(6_000))
    for _ in range(2):
        with pytest.raises(AmountExceedsPending):
            await validate(ledger, merchant, "1", ValidateInput(transaction_id=session.transaction_id), KEY)


# ---------------------------------------------------------------- what every action has in common

Act = Callable[[Ledger, Actor, IdempotencyKey | None], Awaitable[Any]]
AUTHORISED = by_card(), MANUAL
ACTIONS: dict[str, tuple[PaymentInput, dict[str, Any], Act]] = {
    "refund": (by_card(), {}, lambda at, who, key: refund_order(at, who, "1", RefundInput(amount=Decimal(1)), key)),
    "capture": (*AUTHORISED, lambda at, who, key: capture_order(at, who, "1", CaptureInput(), key)),
    "cancel": (*AUTHORISED, lambda at, who, key: cancel_order(at, who, "1", CancelInput(), key)),
    "validate": (
        by_card(CHALLENGED),
        {},
        lambda at, who, key: validate(at, who, "1", ValidateInput(transaction_id="fail"), key),
    ),
    "device data": (
        by_card(FRICTIONLESS),
        {},
        lambda at, who, key: submit_device_data(at, who, "1", DeviceDataInput(), key),
    ),
    "reference": (SPEI, {}, lambda at, who, key: create_order(at, who, an_order("2", SPEI), key)),
}


NOT_SENT_AGAIN = [name for name in ACTIONS if name not in {"refund", "capture", "cancel"}]


@pytest.mark.parametrize("name", NOT_SENT_AGAIN)
async def test_a_call_that_was_never_sent_can_be_requested_again_under_the_same_key(
    ledger: Ledger, merchant: Actor, name: str
) -> None:
    payment, terms, do = ACTIONS[name]
    await create_order(ledger, merchant, an_order("1", payment, **terms))
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    await ledger.processors.sandbox.set_mode(merchant.merchant_id, Mode.DOWN, 1)
    with pytest.raises(ProcessorUnavailable):
        await do(ledger, merchant, KEY)
    if name == "validate":
        with pytest.raises(PayerAuthenticationFailed) as told:
            await do(ledger, merchant, KEY)
        assert not told.value.repeated
    else:
        assert not (await do(ledger, merchant, KEY)).repeated
        assert (await do(ledger, merchant, KEY)).repeated
