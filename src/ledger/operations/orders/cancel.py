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
from ledger.operations.inputs import Actor, CancelDraft
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import act, deadline
from ledger.operations.pipeline.idempotency import keyed
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.unit_of_work import Errand, RequestKey
from ledger.operations.results import WHOLE_ORDER, OrderReceipt, Subject


async def cancel_order(
    ledger: Ledger, actor: Actor, reference: str, draft: CancelDraft, key: RequestKey | None = None
) -> OrderReceipt:
    """Cancel the order that `reference` names (contract N40), or the one part of it that the draft names. What is being
    cancelled is shown.

    Raises OrderNotFound, PaymentNotFound, OrderHasCapturedFunds, InvalidOrderState, ConcurrentUpdate, ProcessorUnavailable where nothing was
    sent, a Fault of the journal; under an idempotency key also IdempotencyKeyReused and RequestInProgress.
    """
    errand = Errand(ledger, actor, key)
    if draft.payment_id is not None:
        return await ledger.complete(keyed(errand, partial(_cancel_part, errand, reference, draft.payment_id)))
    return await ledger.complete(keyed(errand, lambda: _cancel(errand, reference, draft)))


async def _cancel_part(errand: Errand, reference: str, payment_id: UUID) -> OrderReceipt:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    call_key, deadline_at = str(uuid7()), deadline(errand.ledger)
    return await act(
        errand,
        order_id,
        lambda order, at: decide_payment_cancellation(
            order, CancelPayment(payment_id=payment_id, idempotency_key=call_key, deadline_at=deadline_at, at=at)
        ),
        lambda _order, _events: Subject(payment_id=payment_id),
    )


async def _cancel(errand: Errand, reference: str, draft: CancelDraft) -> OrderReceipt:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    cancellation_id, refund_id, deadline_at = uuid7(), uuid7(), deadline(errand.ledger)
    return await act(
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
