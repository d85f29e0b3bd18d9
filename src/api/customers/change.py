"""PUT /customers/{id}: changes a customer."""

from __future__ import annotations

from typing import Final

from api.customers.fields import KEYED, TAG, ChangeCustomer, customer_reference, parse_change, sent_ids
from api.errors import ApiError
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import CUSTOMER_ID, IDEMPOTENCY_KEY
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse
from ledger.domain.rejections import CustomerNotFound
from ledger.operations.customers.change import change_customer, refused_ids
from ledger.security.api_keys import Scope
from projections.customers import CustomerDetailDocument, render_detail


async def change(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /customers/{id}: 200 with the customer as it is now."""
    body = await request.body(deps.body_limit)
    try:
        parsed = parse_change(body)
    except ApiError as error:
        raise await _with_refused_ids(error, deps, request, body) from None
    reference = customer_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_customer(deps.ledger, request.actor, reference, parsed, key)
    headers = REPLAYED if result.replayed or result.repeated else ()
    return ApiResponse(200, render_detail(result.state), headers)


async def _with_refused_ids(error: ApiError, deps: Dependencies, request: ApiRequest, body: bytes) -> ApiError:
    """Returns the error about a body together with what only the customer shows: ids that it cannot take."""
    try:
        ids = sent_ids(body)
        refused = await refused_ids(deps.ledger, request.actor, customer_reference(request), ids)
        parse_change(body, refused)
    except CustomerNotFound:
        return error
    except ApiError as complete:
        return complete
    return error


CHANGE: Final = ScopedOperation(
    change,
    Scope.CUSTOMERS_WRITE,
    OperationSpec(
        name="changeCustomer",
        summary="Change a customer",
        description="""
Changes the fields that are sent; the others stay as they are. `null` clears a field, and sets
`notificationPreferences` to their defaults. `metadata` and `fiscalData` are replaced as a whole. Orders show their
customer as it is now, and keep the fiscal data with which they were created.
""",
        parameters=(CUSTOMER_ID, IDEMPOTENCY_KEY),
        takes=ChangeCustomer,
        examples={
            "email": {
                "summary": "Another e-mail address, and messages in English",
                "value": {"email": "maria.h@example.com", "notificationPreferences": {"language": "en"}},
            }
        },
        answers={200: ("The customer.", CustomerDetailDocument)},
        codes=codes_of(ANY, BODY, KEYED),
        tag=TAG,
        replays=True,
    ),
)
