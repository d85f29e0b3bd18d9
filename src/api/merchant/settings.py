"""GET and PUT /v1/merchant: the merchant reads and changes its own settings. `ledger merchants set` changes the same.

Leave the rate limits to the operator: a merchant could otherwise lift what protects the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import Moment, forget_keys
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, MERCHANT, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse, json_response
from ledger.domain.merchants.commands import ChangeSettings
from ledger.domain.merchants.settings import (
    DAYS_MAX,
    DELAY_MAX_S,
    DUE_DAY_MAX,
    EXCHANGE_RATE_MAX,
    INVOICE_TRIGGERS,
    REMINDERS_MAX,
    SETTINGS,
    out_of_bounds,
    parse_setting,
)
from ledger.domain.orders.terms import MethodType
from ledger.operations.merchants.registration import change_settings
from ledger.security.api_keys import Scope
from projections.formats import moment
from projections.merchants import FoundMerchant, MerchantSettings, settings_of

_RATE: Final = (
    "Surcharge in percent, below 50, with at most four decimals; `null` for none. Orders keep the one they have."
)
_PERCENT: Final = {
    "type": ["number", "string", "null"],
    "minimum": 0,
    "exclusiveMaximum": 50,
    "pattern": r"^[0-4]?[0-9](\.[0-9]{1,4})?$",
}
_SURCHARGED: Final = "The payment methods that carry the surcharge."
_ACCEPTED: Final = "The payment methods that the merchant accepts; another one is 422 METHOD_NOT_ENABLED."
_ZONE: Final = "The time zone of dates without an offset: a name of the IANA database."
_HEADER: Final = "Whether every request needs the header x-merchant-id."
_DELAY: Final = "The seconds until an authenticated card payment is captured."
_TRIGGER: Final = "When the invoice of a split order is stamped."
_FRACTIONS: Final = "Whether amounts may have a fraction of a minor unit; false refuses 150.75 with a hint to 15075."
_REMINDERS: Final = (
    "How many days before an order's due date its payer is reminded, 0 for the due date itself; without days, payers "
    "get no message about it. Orders keep what applied at their creation."
)
_OVERPAYMENT: Final = "Whether the excess of a deposit is refunded."
_EXCHANGE: Final = (
    "Pesos for one dollar, with at most six decimals: for the invoices of orders in dollars that bring no `exchangeRate`; "
    "`null` for none."
)
_PESOS: Final = {
    "type": ["number", "string", "null"],
    "exclusiveMinimum": 0,
    "maximum": EXCHANGE_RATE_MAX,
    "pattern": r"^[0-9]{1,7}(\.[0-9]{1,6})?$",
}
_DUE_DAY: Final = "The day of the next month by which payment receipts (REP) are to be stamped."
_LIMIT: Final = (
    "The requests of a key per {}; 0 means unlimited, `null` the limit of the service. Only the operator changes it."
)

_Days = Annotated[
    list[int],
    Meta(
        extra_json_schema={"maxItems": REMINDERS_MAX, "items": {"type": "integer", "minimum": 0, "maximum": DAYS_MAX}}
    ),
]
_Method = Annotated[str, Meta(extra_json_schema={"enum": list(MethodType)})]


class ChangeMerchantSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings to change. One that is absent keeps its value."""

    surcharge_rate: Annotated[
        Annotated[Raw, Meta(extra_json_schema=_PERCENT)] | UnsetType,
        Meta(description=_RATE, examples=["3.5"]),
    ] = UNSET
    surcharge_methods: Annotated[
        Annotated[list[_Method], Meta(extra_json_schema={"minItems": 1})] | None, Meta(description=_SURCHARGED)
    ] = None
    payment_methods: Annotated[
        Annotated[list[_Method], Meta(extra_json_schema={"minItems": 1})] | None, Meta(description=_ACCEPTED)
    ] = None
    time_zone: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description=_ZONE, examples=["America/Tijuana"])
    ] = None
    require_merchant_header: Annotated[bool | None, Meta(description=_HEADER)] = None
    requests_per_minute: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description=_LIMIT.format("minute"))] = None
    requests_per_second: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description=_LIMIT.format("second"))] = None
    capture_delay_seconds: Annotated[Annotated[int, Meta(ge=0, le=DELAY_MAX_S)] | None, Meta(description=_DELAY)] = None
    invoice_trigger: Annotated[
        Annotated[str, Meta(extra_json_schema={"enum": list(INVOICE_TRIGGERS)})] | None, Meta(description=_TRIGGER)
    ] = None
    refund_overpayment: Annotated[bool | None, Meta(description=_OVERPAYMENT)] = None
    fractional_amounts: Annotated[bool | None, Meta(description=_FRACTIONS)] = None
    exchange_rate: Annotated[
        Annotated[Raw, Meta(extra_json_schema=_PESOS)] | UnsetType,
        Meta(description=_EXCHANGE, examples=["17.2545"]),
    ] = UNSET
    receipt_due_day: Annotated[Annotated[int, Meta(ge=1, le=DUE_DAY_MAX)] | None, Meta(description=_DUE_DAY)] = None
    reminder_days: Annotated[_Days | None, Meta(description=_REMINDERS, examples=[[3, 0]])] = None


class ChangeMerchant(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to change the merchant's settings. Other members of the merchant are ignored."""

    settings: Annotated[ChangeMerchantSettings | None, Meta(description="Required. The settings to change.")] = None


class MerchantSettingsDocument(Struct, kw_only=True, rename="camel"):
    """The settings of the merchant."""

    surcharge_rate: Annotated[str | None, Meta(description=_RATE)]
    surcharge_methods: Annotated[tuple[MethodType, ...], Meta(description=_SURCHARGED)]
    payment_methods: Annotated[tuple[MethodType, ...], Meta(description=_ACCEPTED)]
    time_zone: Annotated[str, Meta(description=_ZONE)]
    require_merchant_header: Annotated[bool, Meta(description=_HEADER)]
    requests_per_minute: Annotated[int | None, Meta(description=_LIMIT.format("minute"))]
    requests_per_second: Annotated[int | None, Meta(description=_LIMIT.format("second"))]
    capture_delay_seconds: Annotated[int, Meta(description=_DELAY)]
    invoice_trigger: Annotated[str, Meta(description=_TRIGGER)]
    refund_overpayment: Annotated[bool, Meta(description=_OVERPAYMENT)]
    fractional_amounts: Annotated[bool, Meta(description=_FRACTIONS)]
    exchange_rate: Annotated[str | None, Meta(description=_EXCHANGE)]
    receipt_due_day: Annotated[int, Meta(description=_DUE_DAY)]
    reminder_days: Annotated[tuple[int, ...], Meta(description=_REMINDERS)]


class MerchantDocument(Struct, kw_only=True, rename="camel"):
    """The merchant of the API key."""

    id: Annotated[UUID, Meta(description="The merchant's id, as in the header x-merchant-id.")]
    name: Annotated[str, Meta(description="The merchant's name.")]
    environment: Annotated[Literal["sandbox", "production"], Meta(description="In the sandbox no money moves.")]
    settings: Annotated[MerchantSettingsDocument, Meta(description="The settings.")]
    created_at: Annotated[Moment, Meta(description="When the merchant was registered.")]
    updated_at: Annotated[Moment, Meta(description="When its settings or keys changed last.")]


_decode: Final = BodyDecoder(ChangeMerchant)
_PUBLIC: Final = dict(
    zip(ChangeMerchantSettings.__struct_fields__, ChangeMerchantSettings.__struct_encode_fields__, strict=True)
)
_OPERATORS: Final = ("requests_per_minute", "requests_per_second")


def parse_settings_change(body: bytes, current: MerchantSettings) -> Mapping[str, Any]:
    """Returns the fields of a `ChangeSettings` command that a body asks for. Raises ApiError (400), with every wrong
    field.
    """
    sent, errors = _decode.gather(body, place="settings")
    if sent.settings is None:
        errors.refuse()
        raise required("settings")
    fields: dict[str, Any] = {}
    with BAD_INPUT_AS_400:
        for field, name in _PUBLIC.items():
            value = getattr(sent.settings, field, None)
            if value is None or value is UNSET:
                continue
            if field in _OPERATORS:
                if value != getattr(current, field):
                    errors.add(invalid(name, "can be changed by the operator of the service only", "READ_ONLY"))
                continue
            parsed = errors.check(_parsed, name, value)
            if not errors.has(name):
                fields[SETTINGS[name].field] = parsed
    for problem in out_of_bounds(ChangeSettings(at=datetime.now(UTC), **fields)):
        errors.add(invalid(problem.field, problem.problem))
    errors.refuse()
    return fields


def _parsed(name: str, value: Any) -> Any:
    """Returns a setting's value from its JSON value, by the parser of its text. Raises InvalidField."""
    return parse_setting(name, _text(value))


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        value = msgspec.json.decode(value) if bytes(value)[:1] == b'"' else bytes(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


async def show_merchant(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/merchant: the merchant of the API key, with its settings."""
    return json_response(200, _document(await deps.queries.merchant(request.principal.merchant_id), deps.environment))


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
        settings=settings_of(merchant),
        created_at=merchant.registered_at,
        updated_at=merchant.updated_at,
        closed_at=merchant.closed_at,
    )
    return json_response(200, _document(found, deps.environment), REPLAYED if result.repeated else ())


def _document(merchant: FoundMerchant, environment: Literal["sandbox", "production"]) -> MerchantDocument:
    return MerchantDocument(
        id=merchant.merchant_id,
        name=merchant.name,
        environment=environment,
        settings=MerchantSettingsDocument(**msgspec.structs.asdict(merchant.settings)),
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
