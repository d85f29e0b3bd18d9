"""Disputes as the payer's bank reports them: opened, won, lost.

The rule a stranger would break: a dispute moves the payment at once and its order only when it is lost.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from api.dependencies import Dependencies
from api.fields.values import is_given, positive_amount
from api.http.decoding import BodyDecoder, bad_input_as_400
from api.http.errors import required
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.sandbox.deliver import deliver_and_respond
from api.sandbox.find_payment import find_payment
from api.sandbox.schemas import ReportDispute
from ledger.domain.money import GROSS_MAX
from ledger.domain.orders.decide.guards import require_multiple
from ledger.domain.rejections import InvalidField, InvalidOrderState, OrderNotRefundable
from ledger.processors.messages import DisputeLost, DisputeOpened, DisputeWon

_decode: Final = BodyDecoder(ReportDispute)


async def report(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/disputes: 200 with the order once it knows; 404 for an unknown payment."""
    request = _decode(await call.body(rooms.body_limit))
    if request.payment_id is None:
        raise required("paymentId")
    with bad_input_as_400():
        asked = positive_amount(request.amount, "amount") if is_given(request.amount) else None
    merchant_id = call.principal.merchant_id
    order, payment = await find_payment(rooms, merchant_id, request.payment_id)
    if payment.processor_reference is None:
        raise InvalidOrderState("Nothing was captured by this payment.", currentStatus=order.status, allowedStatuses=())
    known = payment.dispute
    about: dict[str, Any] = {
        "processor": payment.processor,
        "message_id": f"sbx_msg_{uuid4().hex}",
        "merchant_id": merchant_id,
        "occurred_at": rooms.ledger.clock.now(merchant_id),
        "order_id": order.terms.order_id,
        "payment_id": payment.payment_id,
        "dispute_id": known.dispute_id if known else f"sbx_dp_{uuid4().hex}",
        "processor_reference": payment.processor_reference,
    }
    if request.outcome == "WON":
        if known is None and payment.refundable <= 0:
            raise OrderNotRefundable("Nothing of the payment can be contested.", currentStatus=payment.status)
        return await deliver_and_respond(rooms, call, DisputeWon(**about))
    amount = asked or (known.amount if known else payment.refundable)
    if amount <= 0:
        raise OrderNotRefundable("Nothing of the payment can be contested.", currentStatus=payment.status)
    require_multiple(order, amount, most=GROSS_MAX)
    if amount > payment.refundable:
        raise InvalidField("amount", "must not exceed what is held of the payment")
    kind = DisputeOpened if request.outcome == "OPENED" else DisputeLost
    return await deliver_and_respond(rooms, call, kind(amount=amount, **about))
