"""Continues a payment after its payer acted: device data was collected, or the payer returned from a challenge or
redirect.

The response is derived from the payment as it was when the request was answered, so that a repeated request receives
the same answer, a failed authentication included.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import SubmitDeviceData, ValidateAuthentication
from ledger.domain.orders.decide.authentication import AMOUNT_EXCEEDS_PENDING, decide_device_data, decide_validation
from ledger.domain.orders.events import AuthenticationRequested, OrderEvent, PaymentDeclined, SessionEndRequested
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.rejections import AmountExceedsPending, PayerAuthenticationFailed, Rejected
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, DeviceDataInput, ValidateInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import WHOLE_ORDER, OrderResult, RequestTarget
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.accounts import simulated_accounts
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def submit_device_data(
    ledger: Ledger, actor: Actor, reference: str, request: DeviceDataInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Continues the payment that waits for its payer's device data (contract N18).

    Raises like `execute_on_order`; OrderNotFound, InvalidField on `referenceId`, InvalidOrderState,
    PayerAuthenticationFailed, AmountExceedsPending if the payment no longer fits.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        command = SubmitDeviceData(
            idempotency_key=str(uuid7()),
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            reference_id=request.reference_id,
            device_information=request.device_information,
            capture_delay_s=(await ledger.merchant(uow.merchant_id)).settings.capture_delay_seconds,
        )
        return _plan(uow, order, decide_device_data(order, command))

    return _checked(await ledger.complete(execute_on_order(uow, attempt)))


async def validate(
    ledger: Ledger, actor: Actor, reference: str, request: ValidateInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Continues the payment whose payer has passed or failed the challenge (contract N42).

    Raises like `submit_device_data`; InvalidField on `authenticationTransactionId`.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        command = ValidateAuthentication(
            transaction_id=request.transaction_id,
            idempotency_key=str(uuid7()),
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            capture_delay_s=(await ledger.merchant(uow.merchant_id)).settings.capture_delay_seconds,
            simulated=await _simulated(uow, order, request.transaction_id),
        )
        return _plan(uow, order, decide_validation(order, command), request.transaction_id)

    return _checked(await ledger.complete(execute_on_order(uow, attempt)))


async def continue_session(ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID) -> None:
    """Continues the payment of a payer who has acted and never came back, as his return would.

    Raises Rejected like `validate`, ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="message"), cause=payment_id)
    key = str(uuid7())

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        session = order.payment(payment_id).session
        command = ValidateAuthentication(
            payment_id=payment_id,
            transaction_id="" if session is None else session.transaction_id,
            idempotency_key=key,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            capture_delay_s=(await ledger.merchant(merchant_id)).settings.capture_delay_seconds,
        )
        return Plan(changes=[uow.change_order(order_id, decide_validation(order, command))])

    await execute(uow, attempt)


async def _simulated(uow: UnitOfWork, order: Order, transaction_id: str) -> frozenset[str]:
    """Returns the accounts that judge the id by its text: for a sandbox, one with `fail` is a failed challenge
    (section 8).
    """
    if "fail" not in transaction_id:
        return frozenset()
    return await simulated_accounts(uow.ledger, uow.merchant_id, {payment.account for payment in order.payments})


def _plan(uow: UnitOfWork, order: Order, events: Sequence[OrderEvent], transaction_id: str | None = None) -> Plan:
    change = uow.change_order(order.terms.order_id, events)
    return Plan(changes=[change], target=_target_payment(change.after, events, transaction_id))


def _target_payment(order: Order, events: Sequence[OrderEvent], transaction_id: str | None) -> RequestTarget:
    """Returns the payment whose payer acted, now or before, or the one that failed because it no longer fits."""
    for event in events:
        if isinstance(event, AuthenticationRequested | PaymentDeclined | SessionEndRequested):
            return RequestTarget(payment_id=event.payment_id)
    for payment in order.payments if transaction_id else ():
        if payment.session is not None and payment.session.transaction_id == transaction_id:
            return RequestTarget(payment_id=payment.payment_id)
    failed = (payment for payment in reversed(order.payments) if _no_longer_fits(payment))
    return next((RequestTarget(payment_id=payment.payment_id) for payment in failed), WHOLE_ORDER)


def _no_longer_fits(payment: Payment) -> bool:
    return payment.failure is not None and payment.failure.code == AMOUNT_EXCEEDS_PENDING


def _checked(result: OrderResult) -> OrderResult:
    """Returns the result of a payment that goes on. Raises PayerAuthenticationFailed, AmountExceedsPending."""
    payment = None if result.payment_id is None else result.order.payment(result.payment_id)
    if payment is None or payment.failure is None:
        return result
    rejection: Rejected
    if payment.authentication_failed:
        rejection = PayerAuthenticationFailed(payment.failure.message or "The payer could not be authenticated.")
    elif _no_longer_fits(payment):
        rejection = AmountExceedsPending(
            "Other payments covered the order before the payer was authenticated.",
            amountPending=result.order.amount_pending,
        )
    else:
        return result
    rejection.repeated = result.repeated or result.replayed
    raise rejection
