"""The actions of a line in the place of a payer or the payer's bank: authenticate, send money, contest a payment."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from ledger.domain.orders import events
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import InvalidField, PayerAuthenticationFailed
from ledger.operations.context.inputs import ValidateInput
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.processors.messages import DisputeLost, DisputeOpened, DisputeWon, Message
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit, WrongAmount
from ledger.seeding.context import Action, LineResult, RunningLine, payment_result

MinorUnits = Annotated[int, Meta(gt=0)]


class Authenticated(Struct, frozen=True, forbid_unknown_fields=True):
    """How the payer came back from the bank's page."""

    accepted: bool = True


class Paid(Struct, frozen=True, forbid_unknown_fields=True):
    """Money that the payer sends to the order's newest reference; without an amount, what the reference asks for."""

    amount: MinorUnits | None = None


class Contested(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of a dispute about the order's newest payment that brought money."""

    outcome: Literal["OPENED", "WON", "LOST"]
    amount: MinorUnits | None = None


async def _device_data(line: RunningLine) -> LineResult:
    """POST /v2/payment-orders/{order}/payer-authentication/device-data."""
    request = line.parsers.device_data(line.body)
    if await line.find_unless_done(events.AuthenticationRequested) is None:
        return LineResult.KNOWN
    return payment_result(await submit_device_data(line.ledger, line.actor, line.order, request))


async def _validate(line: RunningLine) -> LineResult:
    """The payer accepts or refuses on the bank's page and comes back."""
    body = line.parse_body(Authenticated)
    order = await line.find_unless_done(events.AuthenticationRequested)
    if order is None:
        return LineResult.KNOWN
    payment = _newest(order, lambda payment: payment.status is PaymentStatus.REQUIRES_ACTION)
    if payment is None or payment.session is None:
        raise InvalidField("order", "must have a payer who was sent to a bank's page")
    request = ValidateInput(transaction_id=payment.session.transaction_id)
    await _sandbox(line).pages.conclude(request.transaction_id, accepted=body.accepted)
    try:
        return payment_result(await validate(line.ledger, line.actor, line.order, request))
    except PayerAuthenticationFailed:
        return LineResult.DECLINED


async def _deposit(line: RunningLine) -> LineResult:
    """Money arrives by the reference of the order's newest payment that has one, in time or late."""
    body = line.parse_body(Paid)
    order = await line.find_unless_done(events.DepositReceived)
    if order is None:
        return LineResult.KNOWN
    payment = _newest(order, lambda payment: payment.reference is not None)
    reference = None if payment is None else payment.reference
    sent_to = None if reference is None else reference.clabe or reference.reference
    if payment is None or sent_to is None:
        raise InvalidField("order", "must have a reference that money can be sent to")
    deposit = Deposit(
        merchant_id=line.merchant_id,
        message_id=f"story_{line.effect_id}",
        sent_to=sent_to,
        amount=payment.amount if body.amount is None else Decimal(body.amount),
        at=line.ledger.clock.now(line.merchant_id),
    )
    try:
        message = await _sandbox(line).deposit(deposit)
    except WrongAmount as wrong:
        raise InvalidField("body", f"must be about {wrong.expected}: the store takes exactly that") from None
    return await _deliver(line, message)


async def _dispute(line: RunningLine) -> LineResult:
    """The payer's bank contests the newest payment that brought money, or reports the outcome."""
    body = line.parse_body(Contested)
    order = await line.find_unless_done(events.DisputeOpened, events.DisputeWon, events.DisputeLost)
    if order is None:
        return LineResult.KNOWN
    payment = _newest(order, lambda payment: payment.captured > 0)
    if payment is None or payment.processor_reference is None:
        raise InvalidField("order", "must hold a payment that can be contested")
    dispute = payment.dispute
    about: dict[str, Any] = {
        "processor": payment.processor,
        "account": payment.account_in_event,
        "message_id": f"story_{line.effect_id}",
        "merchant_id": line.merchant_id,
        "occurred_at": line.ledger.clock.now(line.merchant_id),
        "order_id": order.terms.order_id,
        "payment_id": payment.payment_id,
        "dispute_id": dispute.dispute_id if dispute else f"story_dp_{line.effect_id}",
        "processor_reference": payment.processor_reference,
    }
    if body.outcome == "WON":
        return await _deliver(line, DisputeWon(**about))
    contested = dispute.reported_amount if dispute else payment.refundable
    amount = contested if body.amount is None else Decimal(body.amount)
    kind = DisputeOpened if body.outcome == "OPENED" else DisputeLost
    return await _deliver(line, kind(amount=amount, **about))


PAYER_ACTIONS: Final[dict[str, Action]] = {
    "device-data": _device_data,
    "validate": _validate,
    "deposit": _deposit,
    "dispute": _dispute,
}


def _newest(order: Order, wanted: Callable[[Payment], bool]) -> Payment | None:
    return next((payment for payment in reversed(order.payments) if wanted(payment)), None)


async def _deliver(line: RunningLine, message: Message) -> LineResult:
    """Delivers a message of the processor. Raises InvalidField if the order does not record it."""
    entry = await line.context.due_work.delivery.deliver(message)
    if entry.handled_at is None:
        raise InvalidField("body", f"cannot be taken in by the order: {entry.waits_for}")
    return LineResult.NEW


def _sandbox(line: RunningLine) -> SandboxProcessor:
    processor = line.ledger.processors.sandbox
    assert processor is not None, "scenarios run in the sandbox"
    return processor
