"""POST /v2/payment-orders/{id}/charge: pays an order that waits for its payment."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import is_harmless, search_texts
from api.decoding.types import Id, Metadata, PositiveNumber, ReturnUrl, alias_of
from api.fields.metadata import metadata
from api.fields.payment_method import PaymentMethod, payment_method, require_card_entry, sent_pan, stored_part
from api.fields.people import BillingAddress, DeviceInformation, billing_address, require_billing_address
from api.fields.values import (
    external_id,
    is_given,
    positive_amount,
    require_https,
    require_whole,
    return_url,
    virtual_terminal,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.orders.responses import merchant_now, order_response
from api.response import ApiResponse
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.orders.create import charge_order
from projections.orders.documents import OrderDocument


class ChargePaymentOrder(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The request to pay an order that waits for its payment."""

    payment_method: Annotated[PaymentMethod, Meta(description="The payment method.")]
    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="Part of the subtotal to pay, in minor units; only on split orders. Absent: all of it."),
    ] = UNSET
    external_id: Annotated[
        Id | None, Meta(description="The merchant's id of the payment, unique within the order.")
    ] = None
    external_merchant_reference: Annotated[Id | None, alias_of("externalId")] = None
    billing_address: Annotated[BillingAddress | None, Meta(description="Required with a card.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None
    return_url: Annotated[
        ReturnUrl | None,
        Meta(
            description="Where the payer returns after a redirect: an https address, in the sandbox also one of this machine."
        ),
    ] = None
    virtual_terminal: Annotated[bool | None, Meta(description="True skips 3-D Secure.")] = None
    is_virtual_terminal: Annotated[bool | None, alias_of("virtualTerminal")] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored with the payment.")] = (
        UNSET
    )


_decode: Final = BodyDecoder(ChargePaymentOrder)


def parse_charge(body: bytes, now: datetime) -> PaymentInput:
    """Returns the payment that a body asks for. `now` is aware, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    return payment_input(sent, body, now, errors)


def payment_input(sent: ChargePaymentOrder, body: bytes, now: datetime, errors: FieldErrors) -> PaymentInput:
    """Returns the payment of an existing order. Raises ApiError (400), with every wrong field."""
    sent_method = _method_of(sent.payment_method)
    with BAD_INPUT_AS_400:
        amount = errors.check(positive_amount, sent.amount, "amount") if is_given(sent.amount) else None
        payment_id = errors.check(external_id, sent.external_id, sent.external_merchant_reference)
        virtual = errors.check(virtual_terminal, sent.virtual_terminal, sent.is_virtual_terminal)
        returns_to = errors.check(return_url, sent.return_url)
        billing = errors.check(billing_address, sent.billing_address)
        content = errors.check(metadata, sent.metadata)
        method = None
        if sent_method is not None:
            method = payment_method(sent_method, now.date(), errors)
            require_billing_address(sent_method, sent.billing_address, billing, errors)
        if not is_harmless(body, sent_pan(sent_method)):
            stored = sent if sent_method is None else replace(sent, payment_method=stored_part(sent_method))
            search_texts(stored, errors)
    errors.refuse()
    assert method is not None, "what is wrong was refused"
    return replace(
        method,
        amount=amount,
        external_id=payment_id,
        virtual_terminal=bool(virtual),
        billing_address=billing,
        device_information=sent.device_information,
        return_url=returns_to,
        metadata=content or UNSET,
    )


def _method_of(sent: object) -> PaymentMethod | None:
    return sent if isinstance(sent, PaymentMethod) else None  # UNSET if it is wrong


async def charge(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/charge: 200, or 422 for a decline."""
    body = await request.body(deps.body_limit)
    parsed = parse_charge(body, merchant_now(deps, request))
    require_whole(request.principal.settings, ("amount", parsed.amount))
    require_card_entry(request.principal.settings, parsed)
    require_https(parsed.return_url, deps.environment)
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
