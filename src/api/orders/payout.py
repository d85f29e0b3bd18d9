"""POST …/refunds/{refundId}/confirm and PUT …/destination beside it: refunds that the merchant pays out itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.stored_text import check_texts
from api.decoding.types import Clabe, Id
from api.fields.values import moment
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, KEYED, OperationSpec, codes_of
from api.orders.refund import ACCOUNT_HOLDER, Destination, OrderWithRefund, account_of, refund_response
from api.orders.refunds import REFUND_ID
from api.orders.responses import merchant_now
from api.response import ApiResponse
from ledger.domain.orders import terms
from ledger.domain.rejections import RefundNotFound
from ledger.operations.context.inputs import ConfirmationInput
from ledger.operations.orders.payout import change_refund_destination, confirm_payout


class ConfirmRefund(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The confirmation that the merchant has paid out a refund."""

    paid_at: Annotated[datetime | None, Meta(description="When it was paid; the present time where absent.")] = None
    reference: Annotated[
        Id | None, Meta(description="The merchant's own reference of the payment, such as the tracking key of SPEI.")
    ] = None


class ChangeRefundDestination(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The account for a pending refund."""

    clabe: Annotated[Clabe | None, Meta(description="Required. 18 digits, the last of which is a check digit.")] = None
    account_holder: Annotated[Id | None, Meta(description=ACCOUNT_HOLDER)] = None


_decode_confirmation: Final = BodyDecoder(ConfirmRefund)
_decode_destination: Final = BodyDecoder(ChangeRefundDestination)


def parse_confirmation(body: bytes, now: datetime) -> ConfirmationInput:
    """Returns the confirmation in a body. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_confirmation.gather(body)
    with BAD_INPUT_AS_400:
        paid_at = None if sent.paid_at is None else errors.check(moment, sent.paid_at, "paidAt", now)
        check_texts(sent, body, errors)
    errors.refuse()
    return ConfirmationInput(paid_at=paid_at, reference=sent.reference)


def parse_destination(body: bytes) -> terms.Destination:
    """Returns the account in a body. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_destination.gather(body)
    with BAD_INPUT_AS_400:
        given = Destination(clabe=sent.clabe, account_holder=sent.account_holder)
        destination = errors.check(account_of, given, "clabe")
        check_texts(sent, body, errors)
    errors.refuse()
    assert destination is not None, "what is wrong was refused"
    return destination


async def confirm(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/refunds/{refundId}/confirm: 200 with the order and the refund."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_confirmation(body, merchant_now(deps, request))
    reference, refund = request.order_reference(), _refund_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await confirm_payout(deps.ledger, request.actor, reference, refund, parsed, key)
    return refund_response(result, deps, request)


async def change_destination(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v2/payment-orders/{id}/refunds/{refundId}/destination: 200 with the order and the refund."""
    body = await request.body(deps.body_limit)
    destination = parse_destination(body)
    reference, refund = request.order_reference(), _refund_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_refund_destination(deps.ledger, request.actor, reference, refund, destination, key)
    return refund_response(result, deps, request)


def _refund_reference(request: ApiRequest) -> str:
    name = request.path_id("refundId")
    if name is None:
        raise RefundNotFound("The order has no refund with this id.")
    return name


CONFIRM: Final = ScopedOperation(
    confirm,
    WRITE,
    OperationSpec(
        name="confirmRefund",
        summary="Confirm a refund that you have paid out",
        description="""
Confirms that a PENDING refund with the destination MANUAL was paid out: it is SUCCEEDED then. Needs no body. A second
confirmation changes nothing.
""",
        parameters=(ORDER_ID, REFUND_ID, IDEMPOTENCY_KEY),
        takes=ConfirmRefund,
        optional=True,
        examples={"paid": {"summary": "Paid by transfer", "value": {"reference": "MBAN01002605150000000001"}}},
        answers={200: ("The order and the refund.", OrderWithRefund)},
        codes=codes_of(
            ANY, BODY, KEYED, {404: ("REFUND_NOT_FOUND",), 409: ("INVALID_ORDER_STATE", "REFUND_IN_PROGRESS")}
        ),
        replays=True,
    ),
)
CHANGE_DESTINATION: Final = ScopedOperation(
    change_destination,
    WRITE,
    OperationSpec(
        name="changeRefundDestination",
        summary="Name the account for a refund",
        description="""
Names the account for a PENDING refund with the destination MANUAL: the processor pays it out. A refund that a processor
has already keeps its account: 409.
""",
        parameters=(ORDER_ID, REFUND_ID, IDEMPOTENCY_KEY),
        takes=ChangeRefundDestination,
        examples={
            "account": {
                "summary": "The payer's account",
                "value": {"clabe": "032180000118359719", "accountHolder": "María Fernanda Hernández Ochoa"},
            }
        },
        answers={200: ("The order and the refund.", OrderWithRefund)},
        codes=codes_of(
            ANY, BODY, KEYED, {404: ("REFUND_NOT_FOUND",), 409: ("INVALID_ORDER_STATE", "REFUND_IN_PROGRESS")}
        ),
        replays=True,
    ),
)
