"""Capture what was authorised, by the merchant's word.

The rule a stranger would break: a capture that nobody answered has perhaps taken the money. It is looked up, never repeated.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import CapturePayment
from ledger.domain.orders.decide.captures import decide_capture
from ledger.domain.orders.events import CaptureRequested, OrderEvent
from ledger.domain.orders.state import Order
from ledger.operations.inputs import Actor, CaptureInput
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline, execute
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import WHOLE_ORDER, OrderResult, RequestTarget


async def capture_order(
    ledger: Ledger, actor: Actor, reference: str, draft: CaptureInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Capture `draft.amount`, gross and in minor units, or all that is left of the authorisation (contract N41).

    Raises OrderNotFound, PaymentNotFound, InvalidField, InvalidOrderState, CaptureExceedsAuthorized, AmountExceedsPending,
    ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault of the journal; under an idempotency key also
    IdempotencyKeyReused and RequestInProgress.
    """
    errand = UnitOfWork(ledger, actor, key)
    return await ledger.complete(run_idempotently(errand, lambda: _capture(errand, reference, draft)))


async def _capture(errand: UnitOfWork, reference: str, draft: CaptureInput) -> OrderResult:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    call_key, deadline_at = str(uuid7()), call_deadline(errand.ledger)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_capture(
            order,
            CapturePayment(
                idempotency_key=call_key,
                deadline_at=deadline_at,
                at=at,
                amount=draft.amount,
                payment_id=draft.payment_id,
            ),
        ),
        _captured,
    )


def _captured(_: Order, events: list[OrderEvent]) -> RequestTarget:
    asked = (event.payment_id for event in events if isinstance(event, CaptureRequested))
    return next((RequestTarget(payment_id=payment_id) for payment_id in asked), WHOLE_ORDER)
