"""Capture what was authorised, by the merchant's word.

The rule a stranger would break: a capture that nobody answered has perhaps taken the money. It is looked up, never repeated.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import CapturePayment
from ledger.domain.orders.decide.captures import decide_capture
from ledger.domain.orders.events import CaptureRequested, OrderEvent
from ledger.domain.orders.state import Order
from ledger.operations.inputs import Actor, CaptureDraft
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import act, deadline
from ledger.operations.pipeline.idempotency import keyed
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.unit_of_work import Errand, RequestKey
from ledger.operations.results import WHOLE_ORDER, OrderReceipt, Subject


async def capture_order(
    ledger: Ledger, actor: Actor, reference: str, draft: CaptureDraft, key: RequestKey | None = None
) -> OrderReceipt:
    """Capture `draft.amount`, gross and in minor units, or all that is left of the authorisation (contract N41).

    Raises OrderNotFound, PaymentNotFound, InvalidTerms, InvalidOrderState, CaptureExceedsAuthorized, AmountExceedsPending,
    ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault of the journal; under an idempotency key also
    IdempotencyKeyReused and RequestInProgress.
    """
    errand = Errand(ledger, actor, key)
    return await ledger.complete(keyed(errand, lambda: _capture(errand, reference, draft)))


async def _capture(errand: Errand, reference: str, draft: CaptureDraft) -> OrderReceipt:
    order_id = await find_order(errand.ledger, errand.merchant_id, reference)
    call_key, deadline_at = str(uuid7()), deadline(errand.ledger)
    return await act(
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


def _captured(_: Order, events: list[OrderEvent]) -> Subject:
    asked = (event.payment_id for event in events if isinstance(event, CaptureRequested))
    return next((Subject(payment_id=payment_id) for payment_id in asked), WHOLE_ORDER)
