"""POST /v2/payment-orders/{id}/charge: pays an order that waits for its payment."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_each_text, check_stored_text
from api.decoding.types import Id, Metadata, PositiveNumber
from api.errors import ApiError
from api.fields.payment_method import (
    PaymentMethod,
    check_payment_method,
    payment_method,
    right_method,
    sent_pan,
    stored_part,
)
from api.fields.people import (
    BillingAddress,
    DeviceInformation,
    billing_address,
    billing_address_required,
)
from api.fields.values import is_given, metadata, one_of_aliases, positive_amount, printable, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.orders.responses import merchant_now, order_response
from api.response import ApiResponse
from ledger.domain.orders.terms import MethodType
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.orders.create import charge_order
from projections.orders.documents import OrderDocument


class ChargePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to pay an order that waits for its payment."""

    payment_method: Annotated[PaymentMethod, Meta(description="The payment method.")]
    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="Part of the subtotal to pay, in minor units; only on split orders. Absent: all of it."),
    ] = UNSET
    external_id: Annotated[
        Id | None, Meta(description="The merchant's id of the payment, unique within the order.")
    ] = None
    external_merchant_reference: Annotated[Id | None, Meta(description="Alias of externalId.")] = None
    billing_address: Annotated[BillingAddress | None, Meta(description="Required with a card.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None
    virtual_terminal: Annotated[bool | None, Meta(description="True skips 3-D Secure.")] = None
    is_virtual_terminal: Annotated[bool | None, Meta(description="Alias of virtualTerminal.")] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored with the payment.")] = (
        UNSET
    )


_decode: Final = BodyDecoder(ChargePaymentOrder)


def parse_charge(body: bytes, now: datetime) -> PaymentInput:
    """Returns the payment that a body asks for. `now` is aware, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    try:
        sent = _decode(body)
        with BAD_INPUT_AS_400:
            parsed = payment_input(sent, now)
            check_stored_text(parsed, "payment", body, sent_pan(sent.payment_method))
    except ApiError as refused:
        raise _decode.refusal(body, refused, lambda sent, errors: check_payment(sent, now, errors)) from None
    return parsed


def payment_input(sent: ChargePaymentOrder, now: datetime) -> PaymentInput:
    """Returns the payment of an existing order, whose texts the caller still has to check. Raises ApiError (400)."""
    method = payment_method(sent.payment_method, now.date())
    external_id = one_of_aliases(
        "externalId", sent.external_id, "externalMerchantReference", sent.external_merchant_reference
    )
    virtual = one_of_aliases("virtualTerminal", sent.virtual_terminal, "isVirtualTerminal", sent.is_virtual_terminal)
    billing = billing_address(sent.billing_address)
    if method.type is MethodType.CARD and method.card is not None and billing is None:
        raise billing_address_required(sent.billing_address)
    return replace(
        method,
        amount=positive_amount(sent.amount, "amount") if is_given(sent.amount) else None,
        external_id=printable(external_id, "externalId"),
        virtual_terminal=bool(virtual),
        billing_address=billing,
        device_information=sent.device_information,
        metadata=metadata(sent.metadata),
    )


def check_payment(sent: ChargePaymentOrder, now: datetime, errors: FieldErrors) -> None:
    """Adds every error of the payment of an existing order."""
    valid = ChargePaymentOrder(payment_method=PaymentMethod(type="spei"))
    errors.check_alone(
        lambda alone: payment_input(alone, now),
        sent,
        valid,
        *(("amount",), ("external_id", "external_merchant_reference"), ("virtual_terminal", "is_virtual_terminal")),
        *(("billing_address",), ("metadata",)),
    )
    method = sent.payment_method
    if isinstance(method, PaymentMethod):
        check_payment_method(method, now.date(), errors)
        if not errors.has("billingAddress"):
            paid = replace(valid, payment_method=right_method(method), billing_address=sent.billing_address)
            errors.check(payment_input, paid, now)
        sent = replace(sent, payment_method=stored_part(method))
    check_each_text(sent, errors)


async def charge(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/charge: 200, or 422 for a decline."""
    body = await request.body(deps.body_limit)
    parsed = parse_charge(body, merchant_now(deps, request))
    require_whole(request.principal.settings, ("amount", parsed.amount))
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await charge_order(deps.ledger, request.actor, request.order_reference(), parsed, key)
    return order_response(result, 200, deps, request)


CHARGE: Final = ScopedOperation(
    charge,
    WRITE,
    OperationSpec(
        name="chargePaymentOrder",
        summary="Charge a payment order",
        description="""
Pays an order that is PENDING, PARTIALLY_PAID, FAILED or REFERENCE_GENERATED. `externalId` names the payment within the
order: a repeated request is answered with the order in its current state.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ChargePaymentOrder,
        examples={
            "card": {
                "summary": "The whole amount by card",
                "value": {"paymentMethod": examples.CARD, "billingAddress": examples.BILLING},
            },
            "part": {"summary": "A part of a split order by card", "value": examples.PART_BY_CARD},
        },
        answers={200: ("The order with its new payment, or with the payment that existed already.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            PAYMENT,
            {404: ("ORDER_NOT_FOUND",), 409: ("ORDER_NOT_PAYABLE",), 422: ("AMOUNT_EXCEEDS_PENDING",)},
        ),
        replays=True,
    ),
)
