"""The answers about webhook endpoints: a secret only in the one that made it."""

from __future__ import annotations

from uuid import UUID

from msgspec import UNSET, UnsetType

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.response import REPLAYED, ApiResponse, json_response
from ledger.operations.webhooks.endpoint import EndpointResult
from projections.webhook_endpoints import EndpointProgress, SkippedEvents, endpoint_document


async def endpoint_response(
    deps: Dependencies,
    request: ApiRequest,
    status: int,
    result: EndpointResult,
    secret: str | None | UnsetType = UNSET,
) -> ApiResponse:
    """Returns the answer to a request that made or changed an endpoint, with how far the worker is now."""
    endpoint = result.endpoint
    progress = await _progress(deps, request.principal.merchant_id, endpoint.endpoint_id)
    skipped: SkippedEvents | UnsetType = UNSET
    if result.skipped is not None:
        first, last = result.skipped
        skipped = SkippedEvents(from_sequence=first, to_sequence=last)
    headers = REPLAYED if result.replayed or result.repeated else ()
    return json_response(status, endpoint_document(endpoint, progress, secret=secret, skipped=skipped), headers)


async def _progress(deps: Dependencies, merchant_id: UUID, endpoint_id: UUID) -> EndpointProgress:
    """Returns how far the worker is with an endpoint, which may have been deleted since."""
    found = await deps.queries.webhook_endpoints(merchant_id)
    return next((each.progress for each in found if each.endpoint.endpoint_id == endpoint_id), EndpointProgress())
