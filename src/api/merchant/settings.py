"""GET and PUT /v1/merchant: the merchant reads and changes its own settings. `ledger merchants set` changes the same.

Leave the rate limits to the operator: a merchant could otherwise lift what protects the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import Moment, RequestLimits, forget_keys, limits_of
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, MERCHANT, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse, json_response
from ledger.domain.merchants.settings import (
    SETTINGS,
    MerchantSettings,
    Setting,
    from_sent,
    with_settings,
)
from ledger.operations.merchants.registration import change_settings
from ledger.security.api_keys import Scope
from projections.formats import moment
from projections.merchants import FoundMerchant


def _sent(setting: Setting) -> tuple[Any, Any]:
    """Returns the type and the default of a setting's member in a request."""
    type_, default = setting.kind.member()
    return Annotated[type_, setting.meta], default


def _shown(setting: Setting) -> tuple[Any]:
    """Returns the type of a setting's member in an answer, which always has it."""
    return (Annotated[setting.shown, Meta(description=setting.meta.description)],)


@with_settings(_sent)
class ChangeMerchantSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings to change. One that is absent keeps its value."""


class ChangeMerchant(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to change the merchant's settings. Other members of the merchant are ignored."""

    settings: Annotated[ChangeMerchantSettings | None, Meta(description="Required. The settings to change.")] = None


@with_settings(_shown)
class MerchantSettingsDocument(Struct, kw_only=True, rename="camel"):
    """The settings of the merchant."""


class MerchantDocument(Struct, kw_only=True, rename="camel"):
    """The merchant of the API key."""

    id: Annotated[UUID, Meta(description="The merchant's id, as in the header x-merchant-id.")]
    name: Annotated[str, Meta(description="The merchant's name.")]
    environment: Annotated[Literal["sandbox", "production"], Meta(description="In the sandbox no money moves.")]
    settings: Annotated[MerchantSettingsDocument, Meta(description="The settings.")]
    limits: Annotated[
        RequestLimits,
        Meta(description="The rate limits in force: those of the settings, where they are null the service's."),
    ]
    created_at: Annotated[Moment, Meta(description="When the merchant was registered.")]
    updated_at: Annotated[Moment, Meta(description="When its settings or keys changed last.")]


_decode: Final = BodyDecoder(ChangeMerchant)


def parse_settings_change(body: bytes, current: MerchantSettings) -> Mapping[str, Any]:
    """Returns the fields of a `ChangeSettings` command that a body asks for. Raises ApiError (400), with every wrong
    field.
    """
    sent, errors = _decode.gather(body, place="settings")
    if sent.settings is None:
        errors.refuse()
        raise required("settings")
    fields = {}
    for name, setting in SETTINGS.items():
        value = getattr(sent.settings, setting.field)
        if value is None or value is UNSET:
            continue
        if not setting.kind.operators_only:
            fields[setting.field] = errors.check(from_sent, setting, value)
        elif value != getattr(current, setting.field):
            errors.add(invalid(name, "can be changed by the operator of the service only", "READ_ONLY"))
    errors.refuse()
    return fields


async def show_merchant(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/merchant: the merchant of the API key, with its settings."""
    found = await deps.queries.merchant(request.principal.merchant_id)
    return json_response(200, _document(found, deps.environment, limits_of(request)))


async def change_merchant(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/merchant: 200 with the merchant after the change; settings that were not sent keep their values."""
    body = await request.body(deps.body_limit)
    fields = parse_settings_change(body, request.principal.settings)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_settings(deps.ledger, request.actor, fields, key)
    forget_keys(deps, request)
    merchant = result.state
    found = FoundMerchant(
        merchant_id=merchant.merchant_id,
        name=merchant.name,
        settings=merchant.settings,
        created_at=merchant.registered_at,
        updated_at=merchant.updated_at,
        closed_at=merchant.closed_at,
    )
    return json_response(
        200, _document(found, deps.environment, limits_of(request)), REPLAYED if result.repeated else ()
    )


def _document(
    merchant: FoundMerchant, environment: Literal["sandbox", "production"], limits: RequestLimits
) -> MerchantDocument:
    return MerchantDocument(
        id=merchant.merchant_id,
        name=merchant.name,
        environment=environment,
        settings=msgspec.convert(msgspec.to_builtins(merchant.settings), MerchantSettingsDocument),
        limits=limits,
        created_at=moment(merchant.created_at),
        updated_at=moment(merchant.updated_at),
    )


SHOW_MERCHANT: Final = ScopedOperation(
    show_merchant,
    Scope.SETTINGS,
    OperationSpec(
        name="getMerchant",
        summary="Read the merchant and its settings",
        description="The merchant of the API key, with its settings.",
        tag=MERCHANT,
        answers={200: ("The merchant.", MerchantDocument)},
        codes=ANY,
    ),
)
CHANGE_MERCHANT: Final = ScopedOperation(
    change_merchant,
    Scope.SETTINGS,
    OperationSpec(
        name="changeMerchant",
        summary="Change the merchant's settings",
        description="""
Changes the settings that are sent; the others keep their values. What was read can be sent back. Orders keep the terms
with which they were created. The rate limits are the operator's.
""",
        tag=MERCHANT,
        parameters=(IDEMPOTENCY_KEY,),
        takes=ChangeMerchant,
        examples={
            "zone": {
                "summary": "Another time zone, and only cards",
                "value": {"settings": {"timeZone": "America/Tijuana", "paymentMethods": ["CARD"]}},
            },
        },
        answers={200: ("The merchant after the change.", MerchantDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT),
        replays=True,
    ),
)
