"""What a line can do with an order that is there: pay a part, give money back, close it, and what payers and banks do.

The rule a stranger would break: a line is known by what it has left in the order's stream at its moment. Two lines that do
the same to one order at the very same moment could not be told apart, and the second one is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders import events
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import InvalidField, PayerAuthenticationFailed
from ledger.operations.inputs import Actor, ValidateInput
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import find_order, load_order
from ledger.processors.messages import DisputeLost, DisputeOpened, DisputeWon
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit, WrongAmount
from ledger.seeding.context import (
    Action,
    LineResult,
    PlannedLine,
    RunContext,
    actor,
    local,
    moment_id,
    named_order,
    outcome,
    with_fixed_id,
)
from ledger.seeding.scenario_file import ScenarioLine

T = TypeVar("T")

MinorUnits = Annotated[int, Meta(gt=0)]


class Authenticated(Struct, frozen=True, forbid_unknown_fields=True):
    """How the payer came back from the bank's page."""

    accepted: bool = True


class Paid(Struct, frozen=True, forbid_unknown_fields=True):
    """Money that the payer sends to the order's newest reference; without an amount, what was asked for."""

    amount: MinorUnits | None = None


class Contested(Struct, frozen=True, forbid_unknown_fields=True):
    """What the payer's bank says of the order's newest payment that brought money."""

    outcome: Literal["OPENED", "WON", "LOST"]
    amount: MinorUnits | None = None


_Left = (
    events.RefundRequested
    | events.CancellationRequested
    | events.OrderCancelled
    | events.CaptureRequested
    | events.AuthenticationRequested
    | events.DepositReceived
    | events.DisputeOpened
    | events.DisputeWon
    | events.DisputeLost
)
Tell = Callable[[RunContext, Actor, str, UUID], Awaitable[LineResult]]
"""Tells a line that is new: the order's external id and its own id."""


def _payment(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders/{order}/payments."""
    order = named_order(line)
    draft = with_fixed_id(scene, scene.readers.payment(bytes(line.body), local(line, merchant)), merchant, line, order)

    async def tell() -> LineResult:
        return outcome(await add_payment(scene.ledger, actor(merchant, request_id), order, draft))

    return PlannedLine(_key(merchant, order), tell, order)


def _refund(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders/{order}/refunds."""
    draft = scene.readers.refund(bytes(line.body))

    async def tell(scene: RunContext, actor: Actor, order: str, _: UUID) -> LineResult:
        await refund_order(scene.ledger, actor, order, draft)
        return LineResult.NEW

    return _step(scene, line, merchant, request_id, tell, events.RefundRequested)


def _cancel(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders/{order}/cancel."""
    draft = scene.readers.cancel(bytes(line.body))

    async def tell(scene: RunContext, actor: Actor, order: str, _: UUID) -> LineResult:
        await cancel_order(scene.ledger, actor, order, draft)
        return LineResult.NEW

    return _step(scene, line, merchant, request_id, tell, events.CancellationRequested, events.OrderCancelled)


def _capture(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders/{order}/capture."""
    draft = scene.readers.capture(bytes(line.body))

    async def tell(scene: RunContext, actor: Actor, order: str, _: UUID) -> LineResult:
        await capture_order(scene.ledger, actor, order, draft)
        return LineResult.NEW

    return _step(scene, line, merchant, request_id, tell, events.CaptureRequested)


def _device_data(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """The payer's browser has been looked at: the device's data goes to the payer's bank."""
    draft = scene.readers.device_data(bytes(line.body))

    async def tell(scene: RunContext, actor: Actor, order: str, _: UUID) -> LineResult:
        return outcome(await submit_device_data(scene.ledger, actor, order, draft))

    return _step(scene, line, merchant, request_id, tell, events.AuthenticationRequested)


def _validate(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """The payer accepts or refuses on the bank's page and comes back."""
    body = _read(line, Authenticated)

    async def tell(scene: RunContext, actor: Actor, order: str, order_id: UUID) -> LineResult:
        found = await load_order(scene.ledger, actor.merchant_id, order_id)
        payment = _newest(found, lambda payment: payment.status is PaymentStatus.REQUIRES_ACTION)
        if payment is None or payment.session is None:
            raise InvalidField("order", "must have a payer who was sent to a bank's page")
        transaction_id = payment.session.transaction_id
        await _sandbox(scene).pages.conclude(transaction_id, accepted=body.accepted)
        try:
            receipt = await validate(scene.ledger, actor, order, ValidateInput(transaction_id=transaction_id))
        except PayerAuthenticationFailed:
            return LineResult.DECLINED
        return outcome(receipt)

    return _step(scene, line, merchant, request_id, tell, events.AuthenticationRequested)


def _deposit(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """Money arrives by the reference of the order's newest payment that has one, in time or late."""
    body = _read(line, Paid)

    async def tell(scene: RunContext, actor: Actor, order: str, order_id: UUID) -> LineResult:
        found = await load_order(scene.ledger, actor.merchant_id, order_id)
        payment = _newest(found, lambda payment: payment.reference is not None)
        known = None if payment is None else payment.reference
        sent_to = None if known is None else known.clabe or known.reference
        if payment is None or sent_to is None:
            raise InvalidField("order", "must have a reference that money can be sent to")
        sent = Deposit(
            merchant_id=actor.merchant_id,
            message_id=f"story_{moment_id(merchant, line, order)}",
            sent_to=sent_to,
            amount=payment.amount if body.amount is None else Decimal(body.amount),
            at=scene.ledger.clock.now(actor.merchant_id),
        )
        try:
            message = await _sandbox(scene).deposit(sent)
        except WrongAmount as wrong:
            raise InvalidField("body", f"must be about {wrong.expected}: the store takes exactly that") from None
        return await _taken_in(scene, message)

    return _step(scene, line, merchant, request_id, tell, events.DepositReceived)


def _dispute(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """The payer's bank contests the newest payment that brought money, or says how that ended."""
    body = _read(line, Contested)

    async def tell(scene: RunContext, actor: Actor, order: str, order_id: UUID) -> LineResult:
        found = await load_order(scene.ledger, actor.merchant_id, order_id)
        payment = _newest(found, lambda payment: payment.captured > 0)
        if payment is None or payment.processor_reference is None:
            raise InvalidField("order", "must hold a payment that can be contested")
        known = payment.dispute
        named = moment_id(merchant, line, order)
        about: dict[str, Any] = {
            "processor": payment.processor,
            "message_id": f"story_{named}",
            "merchant_id": actor.merchant_id,
            "occurred_at": scene.ledger.clock.now(actor.merchant_id),
            "order_id": order_id,
            "payment_id": payment.payment_id,
            "dispute_id": known.dispute_id if known else f"story_dp_{named}",
            "processor_reference": payment.processor_reference,
        }
        if body.outcome == "WON":
            return await _taken_in(scene, DisputeWon(**about))
        contested = known.amount if known else payment.refundable
        amount = contested if body.amount is None else Decimal(body.amount)
        kind = DisputeOpened if body.outcome == "OPENED" else DisputeLost
        return await _taken_in(scene, kind(amount=amount, **about))

    return _step(scene, line, merchant, request_id, tell, events.DisputeOpened, events.DisputeWon, events.DisputeLost)


ORDER_ACTIONS: Final[dict[str, Action]] = {
    "payment": _payment,
    "refund": _refund,
    "cancel": _cancel,
    "capture": _capture,
    "device-data": _device_data,
    "validate": _validate,
    "deposit": _deposit,
    "dispute": _dispute,
}


def _step(
    scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str, tell: Tell, *leaves: type[_Left]
) -> PlannedLine:
    """A line that is told unless its order has one of the events that it `leaves`, dated by its moment."""
    order = named_order(line)
    scene.claim(moment_id(merchant, line, order))

    async def tell_once() -> LineResult:
        found = await find_order(scene.ledger, merchant.merchant_id, order)
        order_id = found.terms.order_id
        for event in await scene.ledger.journal.reader.stream(merchant.merchant_id, order_id):
            if isinstance(event, leaves) and event.at == line.at:
                return LineResult.KNOWN
        return await tell(scene, actor(merchant, request_id), order, order_id)

    return PlannedLine(_key(merchant, order), tell_once, order)


def _key(merchant: Merchant, order: str) -> frozenset[str]:
    return frozenset({f"{merchant.merchant_id} order {order}"})


def _newest(order: Order, wanted: Callable[[Payment], bool]) -> Payment | None:
    return next((payment for payment in reversed(order.payments) if wanted(payment)), None)


async def _taken_in(scene: RunContext, message: Any) -> LineResult:
    receipt = await scene.mail.deliver(message)
    if receipt.handled_at is None:
        raise InvalidField("body", f"cannot be taken in by the order: {receipt.waits_for}")
    return LineResult.NEW


def _sandbox(scene: RunContext) -> SandboxProcessor:
    processor = scene.ledger.processor
    assert isinstance(processor, SandboxProcessor), "stories are told in the sandbox"
    return processor


def _read(line: ScenarioLine, body: type[T]) -> T:
    try:
        return msgspec.json.decode(line.body, type=body)
    except msgspec.DecodeError as refusal:
        raise InvalidField("body", f"cannot be read: {refusal}") from None
