"""POST {base}/sandbox/disputes: a dispute as the payer's bank reports it: opened, won, lost.

A dispute changes the payment at once, and its order only when it is lost.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.types import PositiveNumber
from api.errors import required
from api.fields.values import is_given, positive_amount, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse
from api.sandbox.deliver import Reported, deliver_and_respond
from api.sandbox.find_payment import find_payment
from api.sandbox.processor import OWN, AccountName, sandbox_account
from ledger.domain.money import GROSS_MAX
from ledger.domain.orders.decide.guards import require_multiple
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.rejections import InvalidField, InvalidOrderState, OrderNotRefundable
from ledger.processors.messages import DisputeLost, DisputeOpened, DisputeWon, Message


class ReportDispute(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The report of the payer's bank that a payment is disputed, or that the dispute is decided."""

    payment_id: Annotated[UUID | None, Meta(description="Required. The service's id of the payment.")] = None
    outcome: Annotated[
        Literal["OPENED", "WON", "LOST"],
        Meta(description="LOST for a payment without an open dispute also opens the dispute."),
    ]
    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(
            description="In minor units, at most what was captured. Absent: the amount of the open dispute, or all that "
            "can still be refunded. Of more than that, the dispute is about what can be refunded."
        ),
    ] = UNSET
    account: AccountName = OWN


_decode: Final = BodyDecoder(ReportDispute)


async def report(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/disputes: 200 with the order once it has recorded the report; 404 for an unknown payment."""
    body = await request.body(deps.body_limit)
    sent, errors = _decode.gather(body)
    if sent.payment_id is None:
        errors.add(required("paymentId"))
    with BAD_INPUT_AS_400:
        asked = errors.check(positive_amount, sent.amount, "amount") if is_given(sent.amount) else None
    errors.check(require_whole, request.principal.settings, ("amount", asked))
    errors.refuse()
    payment_id = sent.payment_id
    assert payment_id is not None, "it was checked"

    async def make(seed: UUID) -> Message:
        merchant_id = request.principal.merchant_id
        await sandbox_account(deps, merchant_id, sent.account)
        disputed = await find_payment(deps, merchant_id, payment_id, sent.account)
        return _message(deps, merchant_id, disputed, sent.outcome, asked, seed)

    return await deliver_and_respond(deps, request, body, make)


def _message(
    deps: Dependencies,
    merchant_id: UUID,
    disputed: tuple[Order, Payment],
    outcome: str,
    asked: Decimal | None,
    seed: UUID,
) -> Message:
    """Returns the report of the payer's bank.

    Raises InvalidOrderState, OrderNotRefundable, InvalidField for an amount that no bank can take back.
    """
    order, payment = disputed
    if payment.processor_reference is None:
        raise InvalidOrderState(
            "The payment has captured nothing, so it cannot be disputed.",
            currentStatus=order.status,
            allowedStatuses=(),
        )
    open_dispute = payment.dispute
    about: dict[str, Any] = {
        "processor": payment.processor,
        "account": payment.account_in_event,
        "message_id": f"sbx_msg_{seed.hex}",
        "merchant_id": merchant_id,
        "occurred_at": deps.ledger.clock.now(merchant_id),
        "order_id": order.terms.order_id,
        "payment_id": payment.payment_id,
        "dispute_id": open_dispute.dispute_id if open_dispute else f"sbx_dp_{seed.hex}",
        "processor_reference": payment.processor_reference,
    }
    if outcome == "WON":
        if open_dispute is None and payment.refundable <= 0:
            raise OrderNotRefundable("The payment holds no money that can be disputed.", currentStatus=payment.status)
        return DisputeWon(**about)
    amount = asked or (open_dispute.reported_amount if open_dispute else payment.refundable)
    if amount <= 0:
        raise OrderNotRefundable("The payment holds no money that can be disputed.", currentStatus=payment.status)
    require_multiple(order, amount, most=GROSS_MAX)
    if asked is not None and asked > payment.contestable:
        raise InvalidField("amount", "must not exceed what the payment has captured and no bank has taken back")
    kind = DisputeOpened if outcome == "OPENED" else DisputeLost
    return kind(amount=amount, **about)


REPORT_DISPUTE: Final = ScopedOperation(
    report,
    WRITE,
    OperationSpec(
        name="reportDispute",
        summary="Dispute a payment",
        description="Acts as the payer's bank: opens a dispute, or decides it. Sandbox only.",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=ReportDispute,
        examples={
            "opened": {
                "summary": "Opened",
                "value": {"paymentId": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7", "outcome": "OPENED"},
            },
        },
        answers={
            200: ("The order has recorded the report.", Reported),
            202: ("The order cannot record the report yet. It is stored, and the worker tries it again.", Reported),
        },
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            {
                404: ("PAYMENT_NOT_FOUND", "PROCESSOR_ACCOUNT_NOT_FOUND"),
                409: ("INVALID_ORDER_STATE", "ORDER_NOT_REFUNDABLE"),
            },
        ),
        replays=True,
    ),
)
