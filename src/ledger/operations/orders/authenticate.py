"""Go on where the payer acted: device data was collected, or the payer came back from a challenge or a redirect.

The rule a stranger would break: the answer is read off the payment as it stood when the request was answered, so that a
repeated request is told the same, also that the payer was not recognised.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import SubmitDeviceData, ValidateAuthentication
from ledger.domain.orders.decide.authentication import AMOUNT_EXCEEDS_PENDING, decide_device_data, decide_validation
from ledger.domain.orders.events import AuthenticationRequested, OrderEvent, PaymentDeclined
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.rejections import AmountExceedsPending, PayerAuthenticationFailed, Rejected
from ledger.operations.inputs import Actor, DeviceDataInput, ValidateInput
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline, execute
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import WHOLE_ORDER, OrderResult, RequestTarget


async def submit_device_data(
    ledger: Ledger, actor: Actor, reference: str, draft: DeviceDataInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Go on with the payment that waits for its payer's device data (contract N18): a challenge follows, or the bank's word.

    Raises OrderNotFound, InvalidField on `referenceId`, InvalidOrderState, PayerAuthenticationFailed, AmountExceedsPending
    where the part no longer fits, RequestInProgress, ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault
    of the journal; under an idempotency key also IdempotencyKeyReused.
    """
    errand = UnitOfWork(ledger, actor, key)
    return _told(await ledger.complete(run_idempotently(errand, lambda: _submit(errand, reference, draft))))


async def validate(
    ledger: Ledger, actor: Actor, reference: str, draft: ValidateInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Go on with the payment whose payer passed, or failed, the challenge (contract N42).

    Raises like `submit_device_data`; InvalidField on `authenticationTransactionId`.
    """
    errand = UnitOfWork(ledger, actor, key)
    return _told(await ledger.complete(run_idempotently(errand, lambda: _validate(errand, reference, draft))))


async def _submit(errand: UnitOfWork, reference: str, draft: DeviceDataInput) -> OrderResult:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await find_order(ledger, merchant_id, reference)
    delay_s = (await ledger.merchant(merchant_id)).capture_delay_seconds
    call_key, deadline_at = str(uuid7()), call_deadline(ledger)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_device_data(
            order,
            SubmitDeviceData(
                idempotency_key=call_key,
                deadline_at=deadline_at,
                at=at,
                reference_id=draft.reference_id,
                device_information=draft.device_information,
                capture_delay_s=delay_s,
            ),
        ),
        _acted,
    )


async def _validate(errand: UnitOfWork, reference: str, draft: ValidateInput) -> OrderResult:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await find_order(ledger, merchant_id, reference)
    delay_s = (await ledger.merchant(merchant_id)).capture_delay_seconds
    call_key, deadline_at = str(uuid7()), call_deadline(ledger)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_validation(
            order,
            ValidateAuthentication(
                transaction_id=draft.transaction_id,
                idempotency_key=call_key,
                deadline_at=deadline_at,
                at=at,
                capture_delay_s=delay_s,
                is_simulated=_is_simulated(ledger, draft.transaction_id),
            ),
        ),
        _acted,
    )


def _is_simulated(ledger: Ledger, transaction_id: str) -> bool:
    """Whether the sandbox shall judge the id itself: one that contains `fail` stands for a challenge that failed (section 8)."""
    processor = ledger.processor
    return processor is not None and processor.capabilities.is_simulated and "fail" in transaction_id


def _acted(order: Order, events: list[OrderEvent]) -> RequestTarget:
    """The payment whose payer acted; where that was no longer possible, the one that has failed of it."""
    for event in events:
        if isinstance(event, AuthenticationRequested | PaymentDeclined):
            return RequestTarget(payment_id=event.payment_id)
    failed = (payment for payment in reversed(order.payments) if _no_longer_fits(payment))
    return next((RequestTarget(payment_id=payment.payment_id) for payment in failed), WHOLE_ORDER)


def _no_longer_fits(payment: Payment) -> bool:
    return payment.failure is not None and payment.failure.code == AMOUNT_EXCEEDS_PENDING


def _told(receipt: OrderResult) -> OrderResult:
    """The receipt of a payment that goes on. Raises PayerAuthenticationFailed, AmountExceedsPending."""
    payment = None if receipt.payment_id is None else receipt.order.payment(receipt.payment_id)
    if payment is None or payment.failure is None:
        return receipt
    refusal: Rejected
    if payment.authentication_failed:
        refusal = PayerAuthenticationFailed(payment.failure.message or "The payer could not be authenticated.")
    elif _no_longer_fits(payment):
        refusal = AmountExceedsPending(
            "The order was paid otherwise before the payer came back.", amountPending=receipt.order.amount_pending
        )
    else:
        return receipt
    refusal.repeated = receipt.repeated or receipt.replayed
    raise refusal
