"""GET /v1/webhook-endpoints/{id}/deliveries: what became of the events for a webhook endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args
from uuid import UUID

from api.decoding.query import described_parameters, parse_parameters, parse_text, parse_whole
from api.decoding.types import TEXT_MAX
from api.errors import invalid
from api.fields.event_kinds import parse_kinds
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, Json, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse, json_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.domain import streams
from ledger.domain.ids import parse_uuid
from ledger.domain.public_events.kinds import PATTERNS
from projections.webhook_deliveries import DeliveryPage, DeliveryQuery, delivery_page

_LIMIT_MAX, _LIMIT_DEFAULT = 100, 20
_Status = Literal["PENDING", "SUCCEEDED", "FAILED", "SKIPPED"]
_STATUSES: Final = get_args(_Status)

PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "status": ("Deliveries with this status.", {"type": "string", "enum": list(_STATUSES)}),
    "type": (
        "Deliveries of events of one or more kinds, separated by commas; `payment_order.*` means all that begin so.",
        {"type": "array", "items": {"type": "string", "enum": list(PATTERNS)}, "minItems": 1},
    ),
    "paymentOrderId": (
        "Deliveries of events of this order with its payments and documents, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "limit": (
        f"The number of deliveries on a page, 1 to {_LIMIT_MAX}; default {_LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_DEFAULT},
    ),
    "cursor": ("The `nextCursor` of the page before.", {"type": "string", "format": "uuid"}),
}


async def list_deliveries(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/webhook-endpoints/{id}/deliveries: a page of deliveries, newest first."""
    query, order = _parse(request.query)
    merchant_id = request.principal.merchant_id
    endpoint_id = parse_uuid(endpoint_reference(request))
    known = {each.endpoint.endpoint_id for each in await deps.queries.webhook_endpoints(merchant_id)}
    if endpoint_id is None or endpoint_id not in known:
        raise streams.WEBHOOK_ENDPOINTS.missing()
    stream_id: UUID | None = None
    if order is not None:
        row = await deps.queries.order(merchant_id, order)
        if row is None:
            return json_response(200, delivery_page((), query.limit))
        stream_id = UUID(str(row.order_id))
    rows = await deps.queries.webhook_deliveries(merchant_id, endpoint_id, query, stream_id)
    return json_response(200, delivery_page(rows, query.limit))


def _parse(query: bytes) -> tuple[DeliveryQuery, str | None]:
    """Returns a page, and the order that it is of. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS, lists=("type",))
    limit = errors.check(parse_whole, given, "limit", _LIMIT_DEFAULT, 1, _LIMIT_MAX)
    status = errors.check(_status, given)
    kinds = errors.check(parse_kinds, given)
    order = errors.check(parse_text, given, "paymentOrderId")
    before = errors.check(_cursor, given)
    errors.refuse()
    return DeliveryQuery(limit=limit or _LIMIT_DEFAULT, status=status, kinds=kinds or None, before=before), order


def _status(given: Mapping[str, str]) -> str | None:
    text = given.get("status")
    status = None if text is None else text.upper()
    if status is not None and status not in _STATUSES:
        raise invalid("status", f"must be one of {', '.join(_STATUSES)}")
    return status


def _cursor(given: Mapping[str, str]) -> UUID | None:
    text = given.get("cursor")
    before = None if text is None else parse_uuid(text)
    if text is not None and before is None:
        raise invalid("cursor", "must be the nextCursor of a page", "INVALID_FORMAT")
    return before


LIST_DELIVERIES: Final = ScopedOperation(
    list_deliveries,
    WEBHOOKS,
    OperationSpec(
        name="listWebhookDeliveries",
        summary="List deliveries",
        description="The deliveries of the last 30 days to the endpoint, newest first, with their attempts.",
        parameters=(ENDPOINT_ID, *described_parameters(PARAMETERS)),
        answers={200: ("A page of deliveries.", DeliveryPage)},
        codes=codes_of(ANY, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",)}),
        tag=TAG,
    ),
)
