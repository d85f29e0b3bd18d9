"""PUT /payment-methods/{id}: changes the billing details of a saved payment method (contract N59)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.bodies import BODY as WHOLE_BODY
from api.decoding.repeated_names import errors_of_repeated_names, has_repeated_name
from api.decoding.stored_text import check_texts
from api.decoding.types import Country, Email, Text
from api.decoding.unknown_names import UNKNOWN_FIELD, UnknownNames, note_ignored
from api.errors import ApiError, FieldError, invalid
from api.fields.values import email
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, PAYMENT_METHOD_ID
from api.operation import ANY, BODY, IDEMPOTENT, PAYMENT_METHODS, OperationSpec, codes_of
from api.payment_methods.show import method_id_of, method_not_found
from api.response import REPLAYED, ApiResponse
from ledger.operations.payment_methods.change import MethodUpdate, update_payment_method
from projections.payment_methods import SavedPaymentMethod, render

_Text = Text | None | UnsetType


class UpdatePaymentMethod(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to change billing details. At least one of them is required; null clears one."""

    billing_first_name: Annotated[_Text, Meta(description="Given name of the cardholder.")] = UNSET
    billing_last_name: Annotated[_Text, Meta(description="Family name of the cardholder.")] = UNSET
    billing_phone_number: Annotated[_Text, Meta(description="Phone of the cardholder.")] = UNSET
    billing_email: Annotated[Email | None | UnsetType, Meta(description="E-mail address of the cardholder.")] = UNSET
    billing_address_line1: Annotated[_Text, Meta(description="Street and number.")] = UNSET
    billing_address_line2: Annotated[_Text, Meta(description="Further line of the address.")] = UNSET
    billing_city: Annotated[_Text, Meta(description="City.")] = UNSET
    billing_state: Annotated[_Text, Meta(description="State.")] = UNSET
    billing_postal_code: Annotated[_Text, Meta(description="Postal code.")] = UNSET
    billing_country: Annotated[
        Country | None | UnsetType, Meta(description="ISO 3166 country code of two letters.")
    ] = UNSET
    nickname: Annotated[_Text, Meta(description="A name for people. Only beside a billing field.")] = UNSET
    is_default: Annotated[
        bool | UnsetType, Meta(description="True makes it the customer's default. Only beside a billing field.")
    ] = UNSET


_decode: Final = BodyDecoder(UpdatePaymentMethod)
_BILLING: Final = "billing_"
_FIELDS: Final = dict(
    zip(UpdatePaymentMethod.__struct_encode_fields__, UpdatePaymentMethod.__struct_fields__, strict=True)
)
_OF_THE_CARD: Final = frozenset(
    {
        "cardDetails", "card", "options", "paymentMethod", "number", "cardNumber", "cvc", "cvv", "persist",
        "expMonth", "expYear", "expiryMonth", "expiryYear", "bin", "last4", "brand", "issuerBank", "country",
        "cardholderName",
    }
)  # fmt: skip


def parse_update(body: bytes) -> MethodUpdate:
    """Returns what a body changes. Raises ApiError (400), which names every wrong field at once."""
    with BAD_INPUT_AS_400:
        if not body.isascii():
            body.decode()
        try:
            sent = msgspec.json.decode(body, type=dict[str, Raw])
        except msgspec.ValidationError:
            raise invalid(WHOLE_BODY, "must be an object", "INVALID_TYPE") from None
        values, errors = _checked(sent)
        if has_repeated_name(body):
            errors[:0] = [each for error in errors_of_repeated_names(body) for each in error.errors]
    if immutable := [error for error in errors if error.code == "CARD_DETAILS_IMMUTABLE"]:
        message = f"{immutable[0].field} {immutable[0].message}."
        raise ApiError(400, "CARD_DETAILS_IMMUTABLE", message, errors=tuple(errors))
    if not errors and not any(name.startswith(_BILLING) for name in values):
        errors.append(FieldError(WHOLE_BODY, "must have at least one billing field", "REQUIRED"))
    if errors:
        message = f"{errors[0].field} {errors[0].message}."
        code = errors[0].code if errors[0].code == UNKNOWN_FIELD else "VALIDATION_ERROR"
        raise ApiError(400, code, message.replace("?.", "?"), errors=tuple(errors))
    billing = {name.removeprefix(_BILLING): values[name] for name in values if name.startswith(_BILLING)}
    return MethodUpdate(
        billing=billing, nickname=values.get("nickname", UNSET), is_default=values.get("is_default", UNSET)
    )


def _checked(sent: Mapping[str, Raw]) -> tuple[dict[str, Any], list[FieldError]]:
    """Returns the valid values by the struct's names, and what is wrong with the others, in the body's order."""
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    unknown = UnknownNames()
    for name, raw in sent.items():
        if name in _OF_THE_CARD:
            errors.append(
                FieldError(name, "cannot be updated: pay with the new card and persist", "CARD_DETAILS_IMMUTABLE")
            )
        elif name not in _FIELDS:
            unknown.add("", name, _FIELDS, value=raw)
            for error in unknown.errors:
                errors += error.errors
            unknown.errors.clear()
        else:
            try:
                values[_FIELDS[name]] = _value(name, b'{"%s":%s}' % (name.encode(), bytes(raw)))
            except ApiError as error:
                errors += error.errors
    note_ignored(unknown.ignored)
    return values, errors


def _value(name: str, body: bytes) -> Any:
    """Returns the value of the one field of a body. Raises ApiError (400)."""
    parsed, errors = _decode.gather(body)
    check_texts(parsed, body, errors)
    errors.refuse()
    value = getattr(parsed, _FIELDS[name])
    if value is None:
        return None
    if name == "billingEmail":
        return email(value, name)
    if name == "billingCountry":
        if not (len(value) == 2 and value.isascii() and value.isalpha()):
            raise invalid(name, "must be a country code of two letters such as MX", "INVALID_FORMAT")
        return value.upper()
    return value


class _Owner(Struct, rename="camel"):
    customer_id: UUID


async def update(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /payment-methods/{id}: 200 with the method as it is then."""
    body = await request.body(deps.body_limit)
    parsed = parse_update(body)
    method_id = method_id_of(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    document = await deps.queries.payment_method(request.principal.merchant_id, method_id)
    if document is None:
        raise method_not_found()
    owner = msgspec.json.decode(document, type=_Owner)
    updated = await update_payment_method(deps.ledger, request.actor, owner.customer_id, method_id, parsed, key)
    document_after = render(updated.methods, method_id)
    assert document_after is not None, "only a live method is updated"
    return ApiResponse(200, document_after, REPLAYED if updated.replayed else ())


UPDATE: Final = ScopedOperation(
    update,
    WRITE_CUSTOMERS,
    OperationSpec(
        name="updatePaymentMethod",
        summary="Update a saved payment method",
        description="""
Changes billing details, of which at least one is required; `nickname` and `isDefault` may come with them. `null` clears
a field. Card details cannot be updated: a payment with the same card and `persist` renews its expiry.
""",
        parameters=(PAYMENT_METHOD_ID, IDEMPOTENCY_KEY),
        takes=UpdatePaymentMethod,
        examples={
            "address": {
                "summary": "A new address",
                "value": {
                    "billingAddressLine1": "Av. Vallarta 1020",
                    "billingCity": "Guadalajara",
                    "billingState": "Jalisco",
                    "billingPostalCode": "44160",
                    "billingCountry": "MX",
                },
            },
            "default": {
                "summary": "The default, with an e-mail address and a nickname",
                "value": {"billingEmail": "maria.hernandez@example.com", "nickname": "Nómina", "isDefault": True},
            },
        },
        answers={200: ("The payment method as it is now.", SavedPaymentMethod)},
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            {400: ("CARD_DETAILS_IMMUTABLE",), 404: ("PAYMENT_METHOD_NOT_FOUND",)},
        ),
        tag=PAYMENT_METHODS,
        replays=True,
    ),
)
