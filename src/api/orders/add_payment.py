"""POST /v2/payment-orders/{id}/payments: adds a payment to an order that allows several."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from api.decoding.bodies import BodyDecoder
from api.decoding.types import LongText
from api.fields.payment_method import require_card_entry
from api.fields.values import require_https, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.orders.charge import ChargePaymentOrder, payment_input
from api.orders.responses import merchant_now, order_response
from api.response import ApiResponse
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.orders import add_payment as operation
from projections.orders.documents import OrderDocument


class AddPayment(ChargePaymentOrder, frozen=True, kw_only=True, rename="camel"):
    """The request to pay a part of an order that allows partial payments. Other payments may be in progress."""

    description: Annotated[LongText | None, Meta(description="Free text, stored with the payment.")] = None


_decode: Final = BodyDecoder(AddPayment)


def parse_payment(body: bytes, now: datetime) -> PaymentInput:
    """Returns the payment that a body asks for. `now` is aware, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    return replace(payment_input(sent, body, now, errors), description=sent.description)


async def add_payment(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payments: 201 for a further payment of a split order, 422 for a decline."""
    body = await request.body(deps.body_limit)
    parsed = parse_payment(body, merchant_now(deps, request))
    require_whole(request.principal.settings, ("amount", parsed.amount))
    require_card_entry(request.principal.settings, parsed)
    require_https(parsed.return_url, deps.environment)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await operation.add_payment(deps.ledger, request.actor, reference, parsed, key)
    return order_response(result, 201 if result.created else 200, deps, request)


ADD_PAYMENT: Final = ScopedOperation(
    add_payment,
    WRITE,
    OperationSpec(
        name="addPayment",
        summary="Add a payment to a split order",
        description="""
Pays a part of an order that was created with `allowPartials`, or all that is unpaid. Other payments may be in progress:
the amount that card authorisations can still capture is reserved; references and payer authentications reserve nothing.
A surcharge is added to the amount.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=AddPayment,
        examples={
            "card": {"summary": "A part by card", "value": examples.PART_BY_CARD},
            "transfer": {
                "summary": "The rest by bank transfer",
                "value": {"externalId": "pedido-2026-000185-2", "paymentMethod": {"type": "spei"}},
            },
        },
        answers={
            201: ("The order with its new payment.", OrderDocument),
            200: ("The order with the payment that existed already under this `externalId`.", OrderDocument),
        },
        codes=codes_of(
            ANY,
            BODY,
            PAYMENT,
            {
                404: ("ORDER_NOT_FOUND",),
                409: ("PARTIALS_NOT_ALLOWED", "ORDER_NOT_PAYABLE"),
                422: ("AMOUNT_EXCEEDS_PENDING",),
            },
        ),
        replays=True,
    ),
)
