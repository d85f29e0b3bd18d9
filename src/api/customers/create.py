"""POST /customers: creates a customer."""

from __future__ import annotations

from typing import Final

from api.customers.fields import EXAMPLE, KEYED, TAG, CreateCustomer, parse_create
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse
from ledger.operations.customers.create import create_customer
from ledger.security.api_keys import Scope
from projections.customers import CustomerDetailDocument, render_detail


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /customers: 201 with the new customer."""
    body = await request.body(deps.body_limit)
    parsed = parse_create(body)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_customer(deps.ledger, request.actor, parsed, key)
    return ApiResponse(201, render_detail(result.state), REPLAYED if result.repeated else ())


CREATE: Final = ScopedOperation(
    create,
    Scope.CUSTOMERS_WRITE,
    OperationSpec(
        name="createCustomer",
        summary="Create a customer",
        description="""
Creates a customer. `externalId` or `email` is required; without an `externalId` the customer gets one. An order that
names a new customer creates it as well.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreateCustomer,
        examples={"customer": {"summary": "With all details", "value": EXAMPLE}},
        answers={201: ("The new customer.", CustomerDetailDocument)},
        codes=codes_of(ANY, BODY, KEYED, {409: ("DUPLICATE_EXTERNAL_ID",)}),
        tag=TAG,
        replays=True,
    ),
)
