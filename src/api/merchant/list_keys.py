"""GET /v1/api-keys and /v1/api-keys/{id}: the merchant's API keys, together or one of them."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.query import SHORT_PLACE_PARAMETERS, described_parameters, short_place_of
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import KEY_ID, ApiKeyDocument, key_document, key_id_of, key_not_found
from api.operation import ANY, MERCHANT, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.security.api_keys import Scope
from projections.lists.paging import Pagination, cut


class ApiKeyPage(Struct, rename="camel"):
    """The API keys of the merchant."""

    data: Annotated[list[ApiKeyDocument], Meta(description="The keys, oldest first, without their secrets.")]
    pagination: Pagination


async def list_keys(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/api-keys: the merchant's API keys, oldest first, expired and revoked ones included."""
    place = short_place_of(request.query)
    keys = [key_document(key) for key in await deps.queries.api_keys(request.principal.merchant_id)]
    part, pagination = cut(place, [key.id for key in keys])
    return json_response(200, ApiKeyPage(data=keys[part], pagination=pagination))


async def show_key(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/api-keys/{id}: one API key, without its secret."""
    key_id = key_id_of(request)
    for key in await deps.queries.api_keys(request.principal.merchant_id):
        if key.key_id == key_id:
            return json_response(200, key_document(key))
    raise key_not_found()


LIST_KEYS: Final = ScopedOperation(
    list_keys,
    Scope.KEYS,
    OperationSpec(
        name="listApiKeys",
        summary="List API keys",
        description="All API keys of the merchant, oldest first, expired and revoked ones included.",
        tag=MERCHANT,
        parameters=described_parameters(SHORT_PLACE_PARAMETERS),
        answers={200: ("The keys.", ApiKeyPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
    ),
)
SHOW_KEY: Final = ScopedOperation(
    show_key,
    Scope.KEYS,
    OperationSpec(
        name="getApiKey",
        summary="Get an API key",
        description="One API key of the merchant, without its secret.",
        tag=MERCHANT,
        parameters=(KEY_ID,),
        answers={200: ("The key.", ApiKeyDocument)},
        codes=codes_of(ANY, {404: ("API_KEY_NOT_FOUND",)}),
    ),
)
