"""PUT /v1/webhook-endpoints/{id}: changes a webhook endpoint, disables it or enables it again."""

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
from api.webhooks.fields import ENDPOINT_ID, ChangeEndpoint, endpoint_reference, parse_change
from ledger.operations.webhooks.change import change_endpoint
from projections.webhook_endpoints import EndpointDocument


async def change(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/webhook-endpoints/{id}: 200 with the endpoint as it is now."""
    body = await request.body(deps.body_limit)
    changes = parse_change(body)
    reference = endpoint_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_endpoint(deps.ledger, deps.feed, request.actor, reference, changes, key)
    return await endpoint_response(deps, request, 200, result)


CHANGE_ENDPOINT: Final = ScopedOperation(
    change,
    WEBHOOKS,
    OperationSpec(
        name="changeWebhookEndpoint",
        summary="Change a webhook endpoint",
        description="""
Changes the fields that are sent; the others stay as they are. `null` clears `description`, and chooses all kinds as
`events`. The next attempts go to the new `url`, also those of earlier events.

An endpoint that was disabled, by a request or because its receiver accepted nothing, is enabled by the `status`. By
default it goes on with what happens from now on; with `"resume": "MISSED"` it gets everything since it was disabled.
""",
        parameters=(ENDPOINT_ID, IDEMPOTENCY_KEY),
        takes=ChangeEndpoint,
        examples={
            "kinds": {
                "summary": "Other kinds, in the order of each order's events",
                "value": {"events": ["payment_order.*", "invoice.*"], "ordering": "STRICT"},
            },
            "enable": {"summary": "Enable it, with what it missed", "value": {"status": "ENABLED", "resume": "MISSED"}},
        },
        answers={200: ("The endpoint as it is now.", EndpointDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",), 503: ("FEED_BEHIND",)}),
        tag=TAG,
        replays=True,
    ),
)
