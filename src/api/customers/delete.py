"""DELETE /customers/{id}: erases a customer."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.customers.fields import KEYED, TAG, customer_reference
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import CUSTOMER_ID, IDEMPOTENCY_KEY
from api.operation import ANY, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse, json_response
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.security.api_keys import Scope


class DeletedCustomer(Struct, frozen=True, kw_only=True):
    """The customer that was erased."""

    id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


async def delete(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /customers/{id}: 200 once the customer's data key is destroyed."""
    body = await request.optional_body(deps.body_limit)
    reference = customer_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await delete_customer(deps.ledger, request.actor, reference, deps.queries.orders_of, key)
    content = DeletedCustomer(id=result.state.customer_id)
    return json_response(200, content, REPLAYED if result.repeated else ())


DELETE: Final = ScopedOperation(
    delete,
    Scope.CUSTOMERS_WRITE,
    OperationSpec(
        name="deleteCustomer",
        summary="Erase a customer",
        description="""
Erases the customer's personal data by destroying its key; this cannot be undone. Afterwards the customer is not found,
and its `externalId` is not given again. Its orders stay, with their amounts and without the person.
""",
        parameters=(CUSTOMER_ID, IDEMPOTENCY_KEY),
        answers={200: ("The customer is erased.", DeletedCustomer)},
        codes=codes_of(ANY, KEYED, {404: ("CUSTOMER_NOT_FOUND",)}),
        tag=TAG,
        replays=True,
    ),
)
