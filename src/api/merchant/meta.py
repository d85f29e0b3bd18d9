"""GET /v1/meta: the unit of money, the currencies, and the key of the request with its limits (contract section 3)."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import Moment, RequestLimits, Scopes, limits_of
from api.operation import ANY, MERCHANT, OperationSpec
from api.response import ApiResponse, json_response
from ledger.security.api_keys import Scope
from projections.formats import DECIMALS, moment_or_null


class UsedKey(Struct, kw_only=True, rename="camel"):
    """The API key that sent the request."""

    id: Annotated[UUID, Meta(description="The id of the key.")]
    scopes: Scopes
    expires_at: Annotated[Moment | None, Meta(description="From when on the key is refused. `null` for never.")]


class ServiceMeta(Struct, kw_only=True, rename="camel"):
    """What a client should know of the service before it sends an amount."""

    money_unit: Annotated[Literal["minor"], Meta(description="Amounts of orders are in minor units (centavos, cents).")]
    currencies: Annotated[dict[str, int], Meta(description="The number of decimals of each currency.")]
    environment: Annotated[Literal["sandbox", "production"], Meta(description="In the sandbox no money moves.")]
    merchant_id: Annotated[UUID, Meta(description="The merchant of the API key.")]
    api_key: UsedKey
    limits: Annotated[RequestLimits, Meta(description="The rate limits in force.")]


async def show_meta(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/meta: the unit of money, the currencies, the environment, and the key of the request."""
    principal = request.principal
    used = UsedKey(
        id=principal.key_id,
        scopes=sorted(map(Scope, principal.scopes)) or None,
        expires_at=moment_or_null(principal.expires_at),
    )
    meta = ServiceMeta(
        money_unit="minor",
        currencies=dict(DECIMALS),
        environment=deps.environment,
        merchant_id=principal.merchant_id,
        api_key=used,
        limits=limits_of(request),
    )
    return json_response(200, meta)


SHOW_META: Final = ScopedOperation(
    show_meta,
    None,
    OperationSpec(
        name="getMeta",
        summary="Read the unit of money and the current key",
        description="What a client should know before it sends an amount. Every valid key may ask, whatever its scopes: "
        "a program can test a new key by it.",
        tag=MERCHANT,
        answers={200: ("The service and the key.", ServiceMeta)},
        codes=ANY,
    ),
)
