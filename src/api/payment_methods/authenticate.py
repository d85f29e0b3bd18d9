"""POST /payment-methods/{id}/payer-authentication/…: continues a card's verification after its payer acted.

Two operations: `device-data` after the browser's device was looked at, `validate` after a challenge or a redirect.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.stored_text import check_texts
from api.decoding.types import Id
from api.fields.values import printable
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, PAYMENT_METHOD_ID
from api.operation import ANY, BODY, DECLINED, IDEMPOTENT, PAYMENT_METHODS, OperationSpec, codes_of
from api.orders.authenticate import ValidatePayerAuthentication, parse_validate
from api.payment_methods.responses import method_response
from api.payment_methods.show import method_id_of, method_not_found
from api.response import ApiResponse
from ledger.operations.context.inputs import DeviceDataInput, ValidateInput
from ledger.operations.payment_methods.verify import resume_verification
from projections.payment_methods import SavedPaymentMethod

_CODES: Final = codes_of(
    ANY,
    BODY,
    IDEMPOTENT,
    DECLINED,
    {
        404: ("PAYMENT_METHOD_NOT_FOUND",),
        409: ("INVALID_PAYMENT_METHOD_STATE",),
        422: ("PAYER_AUTHENTICATION_FAILED",),
        503: ("PROCESSOR_UNAVAILABLE",),
    },
)


class SubmitCardDeviceData(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to continue a card's verification after the payer's browser has sent its device data."""

    reference_id: Annotated[Id | None, Meta(description="A check: must be `payerAuthentication.referenceId`.")] = None


_decode: Final = BodyDecoder(SubmitCardDeviceData)


class _Owner(Struct, rename="camel"):
    customer_id: UUID


def parse_device_data(body: bytes) -> DeviceDataInput:
    """Returns what a body reports about the payer's browser. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        reference_id = errors.check(printable, sent.reference_id, "referenceId")
        check_texts(sent, body, errors)
    errors.refuse()
    return DeviceDataInput(reference_id=reference_id)


async def submit_device_data(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /payment-methods/{id}/payer-authentication/device-data: 200 with the method; 422 for a decline."""
    body = await request.optional_body(deps.body_limit)
    return await _resume(deps, request, body, parse_device_data(body))


async def validate(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /payment-methods/{id}/payer-authentication/validate: 200 with the method; 422 if the card is not saved."""
    body = await request.body(deps.body_limit)
    return await _resume(deps, request, body, parse_validate(body))


async def _resume(
    deps: Dependencies, request: ApiRequest, body: bytes, parsed: DeviceDataInput | ValidateInput
) -> ApiResponse:
    method_id = method_id_of(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    document = await deps.queries.payment_method(request.principal.merchant_id, method_id)
    if document is None:
        raise method_not_found()
    owner = msgspec.json.decode(document, type=_Owner).customer_id
    result = await resume_verification(deps.ledger, request.actor, owner, method_id, parsed, key)
    return method_response(result)


SUBMIT_DEVICE_DATA: Final = ScopedOperation(
    submit_device_data,
    WRITE_CUSTOMERS,
    OperationSpec(
        name="submitCardDeviceData",
        summary="Continue after the device data of a card's payer",
        description="""
For a payment method whose `nextAction` is `DEVICE_DATA`, after the payer's browser has opened
`payerAuthentication.deviceDataCollectionUrl`. Then a challenge follows, or the bank decides without one. Needs no body.
""",
        parameters=(PAYMENT_METHOD_ID, IDEMPOTENCY_KEY),
        takes=SubmitCardDeviceData,
        optional=True,
        examples={"session": {"summary": "With the session's id", "value": {"referenceId": "8e1c5f0a-6f0b-4f43-9a3e"}}},
        answers={200: ("The payment method: saved, or waiting for a challenge.", SavedPaymentMethod)},
        codes=_CODES,
        tag=PAYMENT_METHODS,
        replays=True,
        has_order=False,
    ),
)

VALIDATE: Final = ScopedOperation(
    validate,
    WRITE_CUSTOMERS,
    OperationSpec(
        name="validateCard",
        summary="Continue after the challenge of a card's payer",
        description="""
For a payment method whose `nextAction` is `CHALLENGE` or `REDIRECT`, after the payer's browser has opened
`payerAuthentication.stepUpUrl`. The card is saved if the payer was authenticated. In the sandbox an id that contains
`fail` fails the challenge.
""",
        parameters=(PAYMENT_METHOD_ID, IDEMPOTENCY_KEY),
        takes=ValidatePayerAuthentication,
        examples={
            "returned": {
                "summary": "The payer has returned",
                "value": {"authenticationTransactionId": "8e1c5f0a-6f0b-4f43-9a3e-2f6d7c1b5a90"},
            },
        },
        answers={200: ("The payment method, which is saved.", SavedPaymentMethod)},
        codes=_CODES,
        tag=PAYMENT_METHODS,
        replays=True,
        has_order=False,
    ),
)
