"""POST /v2/payment-orders/{id}/payer-authentication/…: goes on with 3-D Secure after the payer's browser acted.

Two operations: `device-data` after the browser's device was looked at, `validate` after a challenge or a redirect.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.stored_text import check_texts
from api.decoding.types import Id
from api.errors import required
from api.fields.people import DeviceInformation
from api.fields.values import printable
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, DECLINED, KEYED, OperationSpec, codes_of
from api.orders.responses import declined_response, order_json, order_response
from api.response import REPLAYED, ApiResponse
from ledger.operations.context.inputs import DeviceDataInput, ValidateInput
from ledger.operations.orders import authenticate as operations
from projections.orders.authentication import ValidationDocument, render_validation
from projections.orders.documents import OrderDocument

_CODES: Final = codes_of(
    ANY,
    BODY,
    KEYED,
    DECLINED,
    {409: ("INVALID_ORDER_STATE",), 422: ("PAYER_AUTHENTICATION_FAILED", "AMOUNT_EXCEEDS_PENDING")},
)


class SubmitDeviceData(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to continue after the payer's browser has sent its device data."""

    reference_id: Annotated[Id | None, Meta(description="A check: must be `payerAuthentication.referenceId`.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None


_decode_device_data: Final = BodyDecoder(SubmitDeviceData)


def parse_device_data(body: bytes) -> DeviceDataInput:
    """Returns what a body reports about the payer's browser. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_device_data.gather(body)
    with BAD_INPUT_AS_400:
        reference_id = errors.check(printable, sent.reference_id, "referenceId")
        check_texts(sent, body, errors)
    errors.refuse()
    return DeviceDataInput(reference_id=reference_id, device_information=sent.device_information)


async def submit_device_data(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payer-authentication/device-data: 200 with the order; 422 for a decline."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_device_data(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await operations.submit_device_data(deps.ledger, request.actor, reference, parsed, key)
    return order_response(result, 200, deps, request)


SUBMIT_DEVICE_DATA: Final = ScopedOperation(
    submit_device_data,
    WRITE,
    OperationSpec(
        name="submitDeviceData",
        summary="Continue after the device data of the payer",
        description="""
For an order in PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED, after the payer's browser has opened
`payerAuthentication.deviceDataCollectionUrl`. Then a challenge follows, or the bank decides without one. Needs no body.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=SubmitDeviceData,
        optional=True,
        examples={
            "browser": {
                "summary": "With data of the browser",
                "value": {"deviceInformation": {"ipAddress": "201.141.20.7", "httpBrowserLanguage": "es-MX"}},
            },
        },
        answers={200: ("The order: it waits for a challenge, or its payment continues.", OrderDocument)},
        codes=_CODES,
        replays=True,
    ),
)


class ValidatePayerAuthentication(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to continue after the payer has returned from the challenge or the redirect."""

    authentication_transaction_id: Annotated[
        Id | None, Meta(description="Required. `payerAuthentication.authenticationTransactionId`.")
    ] = None


_decode_validate: Final = BodyDecoder(ValidatePayerAuthentication)


def parse_validate(body: bytes) -> ValidateInput:
    """Returns the transaction that the payer came back from. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_validate.gather(body)
    with BAD_INPUT_AS_400:
        transaction_id = errors.check(_transaction_id, sent.authentication_transaction_id)
        check_texts(sent, body, errors)
    errors.refuse()
    assert transaction_id is not None, "what is wrong was refused"
    return ValidateInput(transaction_id=transaction_id)


def _transaction_id(sent: str | None) -> str:
    if sent is None:
        raise required("authenticationTransactionId")
    return printable(sent, "authenticationTransactionId")


async def validate(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payer-authentication/validate: 200 with the order's status; 422 if the payment
    failed.
    """
    body = await request.body(deps.body_limit)
    parsed = parse_validate(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await operations.validate(deps.ledger, request.actor, reference, parsed, key)
    declined = declined_response(result, order_json(result, deps, request), request)
    if declined is not None and not result.replayed:
        return declined
    content = render_validation(result.order, result.customer, result.payment_id)
    return ApiResponse(200, content, REPLAYED if result.replayed or result.repeated else ())


VALIDATE: Final = ScopedOperation(
    validate,
    WRITE,
    OperationSpec(
        name="validatePayerAuthentication",
        summary="Continue after the payer's challenge",
        description="""
For an order in PAYER_AUTHENTICATION_CHALLENGE_REQUIRED or ACTION_REQUIRED, after the payer's browser has opened
`payerAuthentication.stepUpUrl`. The granted amount is captured automatically a few seconds later. In the sandbox an id
that contains `fail` fails the challenge.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ValidatePayerAuthentication,
        examples={
            "returned": {
                "summary": "The payer has returned",
                "value": {"authenticationTransactionId": "8e1c5f0a-6f0b-4f43-9a3e-2f6d7c1b5a90"},
            },
        },
        answers={200: ("The state of the order after the authentication.", ValidationDocument)},
        codes=_CODES,
        replays=True,
    ),
)
