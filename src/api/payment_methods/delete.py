"""DELETE /customers/{customerId}/payment-methods/{paymentMethodId}: deletes a saved payment method (contract N58)."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.query import parse_flag, parse_parameters
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, OF_CUSTOMER, PAYMENT_METHOD_ID
from api.operation import ANY, IDEMPOTENT, PAYMENT_METHODS, Json, OperationSpec, codes_of
from api.payment_methods.list import customer_of
from api.payment_methods.show import method_id_of
from api.response import REPLAYED, ApiResponse, json_response
from ledger.operations.payment_methods.change import delete_payment_method


class DeletedPaymentMethod(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a deletion."""

    id: Annotated[UUID, Meta(description="The deleted payment method.")]
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


async def delete(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /customers/{customerId}/payment-methods/{paymentMethodId}: 200, and 404 the second time."""
    body = await request.optional_body(deps.body_limit)
    given, errors = parse_parameters(request.query, {"force"})
    force = errors.check(parse_flag, given, "force")
    errors.refuse()
    customer_id = await customer_of(deps, request)
    method_id = method_id_of(request, "paymentMethodId")
    # The fingerprint covers the path and the body only, so `force` is added: with another `force` it is another
    # request.
    key = request.idempotency_key(deps.fingerprint_key, b'{"force":true,"body":%s}' % body if force else body)
    repeated = await delete_payment_method(deps.ledger, request.actor, customer_id, method_id, key, force=bool(force))
    return json_response(200, DeletedPaymentMethod(id=method_id), REPLAYED if repeated else ())


_FORCE: Final[Json] = {
    "name": "force",
    "in": "query",
    "description": "`true` deletes the method even where a subscription is charged to it.",
    "allowEmptyValue": True,
    "schema": {"type": "boolean", "default": False},
}

DELETE: Final = ScopedOperation(
    delete,
    WRITE_CUSTOMERS,
    OperationSpec(
        name="deletePaymentMethod",
        summary="Delete a saved payment method",
        description="""
Destroys the card's number. Orders that it paid keep its first six and last four digits. Where it was the default, the
newest of the customer's other methods becomes the default.
""",
        parameters=(OF_CUSTOMER, PAYMENT_METHOD_ID | {"name": "paymentMethodId"}, _FORCE, IDEMPOTENCY_KEY),
        answers={200: ("The method is deleted.", DeletedPaymentMethod)},
        codes=codes_of(
            ANY,
            IDEMPOTENT,
            {404: ("CUSTOMER_NOT_FOUND", "PAYMENT_METHOD_NOT_FOUND"), 409: ("PAYMENT_METHOD_IN_USE",)},
        ),
        tag=PAYMENT_METHODS,
        replays=True,
    ),
)
