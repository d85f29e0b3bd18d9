"""POST /customers/{customerId}/payment-methods: saves a card without a payment, once its issuer has confirmed it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import is_harmless, search_texts
from api.decoding.types import ReturnUrl
from api.errors import customer_not_found, invalid
from api.fields.payment_method import PaymentMethod, payment_method, require_card_entry, sent_pan, stored_part
from api.fields.people import BillingAddress, billing_address
from api.fields.values import require_https, return_url
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY, OF_CUSTOMER
from api.operation import ANY, BODY, DECLINED, IDEMPOTENT, PAYMENT_METHODS, OperationSpec, codes_of
from api.orders.responses import merchant_now
from api.payment_methods.responses import method_response
from api.response import ApiResponse
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.payment_methods.verify import verify_and_save
from projections.payment_methods import SavedPaymentMethod


class CreatePaymentMethod(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to save a card without a payment."""

    payment_method: Annotated[PaymentMethod, Meta(description="The card: type card, with cardDetails or cardTokens.")]
    billing_address: Annotated[BillingAddress | None, Meta(description="The billing address of the card.")] = None
    is_default: Annotated[
        bool | None,
        Meta(description="True makes it the customer's default. The first saved card is the default in any case."),
    ] = None
    return_url: Annotated[
        ReturnUrl | None,
        Meta(
            description="Where the payer returns after a challenge or a redirect: an https address, in the sandbox also "
            "one of this machine."
        ),
    ] = None


_decode: Final = BodyDecoder(CreatePaymentMethod)


class CardToSave(Struct, frozen=True):
    """A card that a request saves, and whether it becomes the default."""

    card: PaymentInput
    is_default: bool


def parse_create(body: bytes, now: datetime) -> CardToSave:
    """Returns the card that a body saves. `now` is aware, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    method = _method_of(sent.payment_method)
    with BAD_INPUT_AS_400:
        card = None if method is None else _card(method, now, errors)
        billing = errors.check(billing_address, sent.billing_address)
        returns_to = errors.check(return_url, sent.return_url)
        if not is_harmless(body, sent_pan(method)):
            search_texts(sent if method is None else replace(sent, payment_method=stored_part(method)), errors)
    errors.refuse()
    assert card is not None, "what is wrong was refused"
    return CardToSave(replace(card, billing_address=billing, return_url=returns_to), bool(sent.is_default))


def _method_of(sent: object) -> PaymentMethod | None:
    return sent if isinstance(sent, PaymentMethod) else None  # UNSET if it is wrong


def _card(method: PaymentMethod, now: datetime, errors: FieldErrors) -> PaymentInput | None:
    parsed = payment_method(method, now.date(), errors)
    if method.installments is not None:
        errors.add(invalid("paymentMethod.installments", "is for a payment: leave it out"))
    if method.type != "card" and not errors.has("paymentMethod.type"):
        errors.add(invalid("paymentMethod.type", "must be card: only cards are saved"))
    return parsed


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /customers/{customerId}/payment-methods: 201, or 422 for a decline."""
    body = await request.body(deps.body_limit)
    parsed = parse_create(body, merchant_now(deps, request))
    require_card_entry(request.principal.settings, parsed.card)
    require_https(parsed.card.return_url, deps.environment)
    reference = request.path_id("customerId")
    if reference is None:
        raise customer_not_found()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await verify_and_save(
        deps.ledger, request.actor, reference, parsed.card, is_default=parsed.is_default, key=key
    )
    return method_response(result)


CREATE: Final = ScopedOperation(
    create,
    WRITE_CUSTOMERS,
    OperationSpec(
        name="createPaymentMethod",
        summary="Save a card without a payment",
        description="""
Asks the card's issuer to confirm the card, for an amount of zero, and saves it then. Where the issuer wants the payer to
be authenticated, `status` is `REQUIRES_ACTION` and `payerAuthentication` has what the payer's browser needs, as for a
payment; the card is saved by the operation that continues it. `PENDING` means that the processor has not answered yet:
read the method until its `status` changes. A card that is declined is not saved, and the answer is 422.

A card by `cardTokens` is kept by the processor of the first connected account that has a token, and is charged there
alone.

The same card again is the same method: with the same expiry nothing is asked and the answer is 200; with another one the
card is verified again and gets it.
""",
        parameters=(OF_CUSTOMER, IDEMPOTENCY_KEY),
        takes=CreatePaymentMethod,
        examples={
            "card": {
                "summary": "A card that becomes the default",
                "value": {"paymentMethod": examples.CARD, "billingAddress": examples.BILLING, "isDefault": True},
            },
        },
        answers={
            201: ("The card is saved, or its verification has begun.", SavedPaymentMethod),
            200: ("The customer has this card already; it is returned as it is.", SavedPaymentMethod),
        },
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            DECLINED,
            {
                400: ("CARD_NUMBER_NOT_ACCEPTED",),
                404: ("CUSTOMER_NOT_FOUND", "PAYMENT_METHOD_NOT_FOUND"),
                409: ("PAYMENT_METHOD_LIMIT_REACHED", "TOO_MANY_CARD_VERIFICATIONS"),
                422: ("METHOD_NOT_ENABLED", "CARD_TOKEN_INVALID"),
                503: ("PROCESSOR_UNAVAILABLE",),
            },
        ),
        tag=PAYMENT_METHODS,
        replays=True,
        has_order=False,
    ),
)
