"""Pay a part of an order that allows partial payments.

The rule a stranger would break: other parts may be on their way at the same time. What they may still take is reserved by the
core; the version of the commit, not a look beforehand, decides which of two parts came first.
"""

from __future__ import annotations

from ledger.domain.orders.commands import AddPayment
from ledger.domain.orders.decide.payments import decide_payment
from ledger.operations.inputs import Actor, PaymentInput
from ledger.operations.ledger import Ledger
from ledger.operations.orders.new_payment import new_payment, target_payment
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import OrderResult


async def add_payment(
    ledger: Ledger, actor: Actor, reference: str, draft: PaymentInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Pay `draft.amount` of the order's subtotal, in minor units, or all that is unpaid (contract N32 to N34, section 8.7).

    Raises OrderNotFound, PaymentMethodNotFound, MethodNotEnabled, PartialsNotAllowed, OrderNotPayable, AmountExceedsPending,
    IdempotencyMismatch, InvalidField, ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault of the
    journal; under an idempotency key also IdempotencyKeyReused and RequestInProgress.
    """
    errand = UnitOfWork(ledger, actor, key)
    return await ledger.complete(run_idempotently(errand, lambda: _add(errand, reference, draft), creates=True))


async def _add(errand: UnitOfWork, reference: str, draft: PaymentInput) -> OrderResult:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await find_order(ledger, merchant_id, reference)
    payment = new_payment(ledger, await ledger.merchant(merchant_id), draft)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_payment(order, AddPayment(payment=payment, at=at)),
        lambda order, events: target_payment(order, events, payment, draft.external_id),
        SecretInputs(card=draft.card),
        creates=True,
    )
