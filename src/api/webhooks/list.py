"""GET /v1/webhook-endpoints and /v1/webhook-endpoints/{id}: the merchant's webhook endpoints, or one of them."""

from __future__ import annotations

from typing import Final

from api.decoding.query import SHORT_PLACE_PARAMETERS, described_parameters, short_place_of
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse, json_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.domain import streams
from ledger.domain.ids import parse_uuid
from projections.lists.paging import cut
from projections.webhook_endpoints import EndpointDocument, EndpointPage, endpoint_document


async def list_endpoints(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/webhook-endpoints: every endpoint, oldest first."""
    place = short_place_of(request.query)
    endpoints = await deps.queries.webhook_endpoints(request.principal.merchant_id)
    documents = [endpoint_document(each.endpoint, each.progress) for each in endpoints]
    part, pagination = cut(place, [each.id for each in documents])
    return json_response(200, EndpointPage(data=documents[part], pagination=pagination))


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/webhook-endpoints/{id}: one endpoint."""
    endpoint_id = parse_uuid(endpoint_reference(request))
    for each in await deps.queries.webhook_endpoints(request.principal.merchant_id):
        if each.endpoint.endpoint_id == endpoint_id:
            return json_response(200, endpoint_document(each.endpoint, each.progress))
    raise streams.WEBHOOK_ENDPOINTS.missing()


LIST_ENDPOINTS: Final = ScopedOperation(
    list_endpoints,
    WEBHOOKS,
    OperationSpec(
        name="listWebhookEndpoints",
        summary="List webhook endpoints",
        description="All webhook endpoints of the merchant, oldest first; never their secrets.",
        tag=TAG,
        parameters=described_parameters(SHORT_PLACE_PARAMETERS),
        answers={200: ("The endpoints.", EndpointPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
    ),
)
SHOW_ENDPOINT: Final = ScopedOperation(
    show,
    WEBHOOKS,
    OperationSpec(
        name="getWebhookEndpoint",
        summary="Get a webhook endpoint",
        description="The endpoint as it is now; never its secret.",
        tag=TAG,
        parameters=(ENDPOINT_ID,),
        answers={200: ("The endpoint.", EndpointDocument)},
        codes=codes_of(ANY, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",)}),
    ),
)
