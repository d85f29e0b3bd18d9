"""DELETE /v1/webhook-endpoints/{id}: deletes a webhook endpoint."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, IDEMPOTENT, UNREADABLE, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import REPLAYED, ApiResponse, json_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.operations.webhooks.delete import delete_endpoint
from projections.webhook_endpoints import DeletedEndpoint


async def delete(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /v1/webhook-endpoints/{id}: 200, and 404 from then on."""
    body = await request.optional_body(deps.body_limit)
    reference = endpoint_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await delete_endpoint(deps.ledger, request.actor, reference, key)
    headers = REPLAYED if result.repeated else ()
    return json_response(200, DeletedEndpoint(id=result.endpoint.endpoint_id), headers)


DELETE_ENDPOINT: Final = ScopedOperation(
    delete,
    WEBHOOKS,
    OperationSpec(
        name="deleteWebhookEndpoint",
        summary="Delete a webhook endpoint",
        description="Nothing is posted to it from now on, and its secret is destroyed. Afterwards it is not found.",
        tag=TAG,
        parameters=(ENDPOINT_ID, IDEMPOTENCY_KEY),
        answers={200: ("The endpoint is deleted.", DeletedEndpoint)},
        codes=codes_of(ANY, UNREADABLE, IDEMPOTENT, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",)}),
        replays=True,
    ),
)
