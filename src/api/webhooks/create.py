"""POST /v1/webhook-endpoints: creates a webhook endpoint."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse
from api.webhooks.documents import endpoint_response
from api.webhooks.fields import CreateEndpoint, parse_create
from ledger.domain.webhooks.terms import ENDPOINTS_MAX
from ledger.operations.webhooks.create import create_endpoint
from projections.webhook_endpoints import EndpointDocument


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/webhook-endpoints: 201 with the new endpoint and its secret, which no later answer shows."""
    body = await request.body(deps.body_limit)
    terms = parse_create(body)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_endpoint(deps.ledger, deps.feed, request.actor, terms, key)
    return await endpoint_response(deps, request, 201, result, result.secret)


CREATE_ENDPOINT: Final = ScopedOperation(
    create,
    WEBHOOKS,
    OperationSpec(
        name="createWebhookEndpoint",
        summary="Create a webhook endpoint",
        description=f"""
The merchant's events are posted to its `url` from now on, signed by its `secret` as Standard Webhooks 1.0.0 defines it.
The answer has the secret, which is never shown again. A merchant has at most {ENDPOINTS_MAX} endpoints. Its first one
begins the numbering of its events.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreateEndpoint,
        examples={
            "payments": {
                "summary": "Payments and orders",
                "value": {
                    "url": "https://shop.example.com/webhooks",
                    "events": ["payment_order.*", "payment.*"],
                    "description": "Warehouse",
                },
            },
            "everything": {"summary": "All events", "value": {"url": "https://shop.example.com/webhooks"}},
        },
        answers={201: ("The new endpoint with its secret.", EndpointDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {422: ("WEBHOOK_ENDPOINT_LIMIT_REACHED",)}),
        tag=TAG,
        replays=True,
    ),
)
