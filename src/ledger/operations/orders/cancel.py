"""Cancel an order, or a part of it: let go of what is authorised, give back what is held where that is wanted.

The rule a stranger would break: a processor that does not let go keeps the order alive. Only the outcomes of all voids and
refunds close it, and then it may stand again.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import CancelOrder, CancelPayment
from ledger.domain.orders.decide.cancellation import decide_cancellation, decide_payment_cancellation
from ledger.operations.inputs import Actor, CancelInput
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline, execute
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import WHOLE_ORDER, OrderResult, RequestTarget


async def cancel_order(
    ledger: Ledger, actor: Actor, reference: str, draft: CancelInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Cancel the order that `reference` names (contract N40), or the one part of it that the draft names. What is being
    cancelled is shown.

    Raises OrderNotFound, PaymentNotFound, OrderHasCapturedFunds, InvalidOrderState, ConcurrentUpdate, ProcessorUnavailable where nothing was
    sent, a Fault of the journal; under an idempotency key also IdempotencyKeyReused and RequestInProgress.
    """
    errand = UnitOfWork(ledger, actor, key)
    if draft.payment_id is not None:
        return await ledger.complete(
            run_idempotently(errand, partial(_cancel_part, errand, reference, draft.payment_id))
        )
    return await ledger.complete(run_idempotently(errand, lambda: _cancel(errand, reference, draft)))


async def _cancel_part(errand: UnitOfWork, reference: str, payment_id: UUID) -> OrderResult:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    call_key, deadline_at = str(uuid7()), call_deadline(errand.ledger)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_payment_cancellation(
            order, CancelPayment(payment_id=payment_id, idempotency_key=call_key, deadline_at=deadline_at, at=at)
        ),
        lambda _order, _events: RequestTarget(payment_id=payment_id),
    )


async def _cancel(errand: UnitOfWork, reference: str, draft: CancelInput) -> OrderResult:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    cancellation_id, refund_id, deadline_at = uuid7(), uuid7(), call_deadline(errand.ledger)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_cancellation(
            order,
            CancelOrder(
                cancellation_id=cancellation_id,
                refund_id=refund_id,
                deadline_at=deadline_at,
                at=at,
                refund_captured=draft.refund_captured,
                reason=draft.reason,
            ),
        ),
        lambda _order, _events: WHOLE_ORDER,
    )
