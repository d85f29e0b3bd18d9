"""What a request to create or to change a plan contains, and its parser, which names every wrong field at once.

A field that is absent stays as it was. Null has the same meaning, except in an optional field of a plan, which it
clears.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import NUMBER_MAX, TAXES_MAX, Id, LongText, Metadata, Text
from api.errors import invalid, required
from api.fields.line_items import Tax, parse_taxes
from api.fields.metadata import metadata
from api.fields.values import is_given, positive_amount, printable, require_whole
from api.http.request import ApiRequest
from api.operation import Json
from ledger.domain import streams
from ledger.domain.merchants.settings import MerchantSettings
from ledger.domain.orders import terms as order_terms
from ledger.domain.plans.commands import NewPlan, PlanUpdate
from ledger.domain.plans.terms import (
    DUNNING_RETRIES,
    DUNNING_RETRIES_MAX,
    DUNNING_RETRY_HOURS,
    DUNNING_RETRY_HOURS_MAX,
    EXPIRY_MAX,
    PERIODS_MAX,
    TRIAL_DAYS_MAX,
    Interval,
    OnRetriesExhausted,
    PlanTerms,
    period_problem,
)
from ledger.domain.rejections import InvalidField, Rejected
from ledger.invoicing.line_keys import wrong_keys, wrong_taxes

_AMOUNT_SCHEMA: Final[Json] = {
    "type": ["string", "number"],
    "exclusiveMinimum": 0,
    "maximum": NUMBER_MAX,
    "pattern": r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,4})?$",
}
_MOST_PERIODS: Final = ", ".join(f"{most} with {interval}" for interval, most in PERIODS_MAX.items())


class PlanBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The fields of a plan."""

    external_id: Annotated[
        Id | None, Meta(description="The merchant's own id of the plan, unique among its plans. It never changes.")
    ] = None
    name: Annotated[Id | None, Meta(description="Name of the plan, as invoices show it.")] = None
    description: Annotated[LongText | None | UnsetType, Meta(description="Free text.")] = UNSET
    amount: Annotated[
        Annotated[Raw, Meta(extra_json_schema=_AMOUNT_SCHEMA)] | UnsetType,
        Meta(
            description="What one period costs, in minor units (cents), above 0: a decimal string, or a number.",
            examples=["19900"],
        ),
    ] = UNSET
    currency: Annotated[Literal["MXN", "USD"] | None, Meta(description="ISO 4217 currency code.")] = None
    interval: Annotated[
        Literal["DAY", "WEEK", "HALF_MONTH", "MONTH", "YEAR"] | None, Meta(description="The unit of a period.")
    ] = None
    interval_count: Annotated[
        Annotated[int, Meta(ge=1, le=max(PERIODS_MAX.values()))] | None,
        Meta(description=f"The number of intervals in a period; default 1, at most {_MOST_PERIODS}."),
    ] = None
    trial_period_days: Annotated[
        Annotated[int, Meta(ge=0, le=TRIAL_DAYS_MAX)] | None,
        Meta(description="The days before the first charge; default 0, for none."),
    ] = None
    expiry_count: Annotated[
        Annotated[int, Meta(ge=1, le=EXPIRY_MAX)] | None | UnsetType,
        Meta(description="The number of periods after which a subscription ends; without it, it does not end."),
    ] = UNSET
    max_retries: Annotated[
        Annotated[int, Meta(ge=0, le=DUNNING_RETRIES_MAX)] | None,
        Meta(description=f"How often a charge that failed is tried again; default {DUNNING_RETRIES}."),
    ] = None
    retry_delay_hours: Annotated[
        Annotated[int, Meta(ge=1, le=DUNNING_RETRY_HOURS_MAX)] | None,
        Meta(description=f"The hours between two attempts; default {DUNNING_RETRY_HOURS}."),
    ] = None
    on_retries_exhausted: Annotated[
        Literal["UNPAID", "CANCEL"] | None,
        Meta(description="What becomes of a subscription whose last retry failed; default UNPAID."),
    ] = None
    product_key: Annotated[
        Text | None | UnsetType,
        Meta(description="SAT c_ClaveProdServ of what is sold, for the invoices of renewals.", examples=["50201706"]),
    ] = UNSET
    unit_key: Annotated[
        Text | None | UnsetType, Meta(description="SAT c_ClaveUnidad of what is sold.", examples=["E48"])
    ] = UNSET
    taxes: Annotated[
        Annotated[list[Tax], Meta(max_length=TAXES_MAX)] | None | UnsetType,
        Meta(description="The taxes that the amount contains. Absent: the IVA of the merchant's fiscalIssuer."),
    ] = UNSET
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent.")] = UNSET


class CreatePlan(PlanBody, frozen=True, kw_only=True, rename="camel"):
    """The request to create a plan: `name`, `amount`, `currency` and `interval` are required."""


class ChangePlan(PlanBody, frozen=True, kw_only=True, rename="camel"):
    """The request to change a plan. What is left out stays. Amount, currency and period are fixed once it is used.

    Keys and taxes apply to the next charge of every subscription to the plan.
    """


_decode_create: Final = BodyDecoder(CreatePlan)
_decode_change: Final = BodyDecoder(ChangePlan)
_REQUIRED: Final = ("name", "amount", "currency", "interval")
_COUNTS: Final = ("interval_count", "trial_period_days", "max_retries", "retry_delay_hours")


def parse_create(body: bytes, settings: MerchantSettings) -> NewPlan:
    """Returns the plan that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_create.gather(body)
    with BAD_INPUT_AS_400:
        for name in _REQUIRED:
            if not errors.has(name) and not _is_sent(getattr(sent, name)):
                errors.add(required(name))
        terms, content = _parse(sent, body, settings, errors)
        taxes = _fiscal(sent, errors)
    errors.refuse()
    assert sent.name is not None, "what is required and absent was refused"
    return NewPlan(
        name=sent.name,
        terms=PlanTerms(**terms),
        external_id=sent.external_id,
        description=sent.description or None,
        metadata=content or None,
        product_key=sent.product_key or None,
        unit_key=sent.unit_key or None,
        taxes=taxes or None,
    )


def parse_change(body: bytes, settings: MerchantSettings) -> PlanUpdate:
    """Returns what a body changes of a plan. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_change.gather(body)
    with BAD_INPUT_AS_400:
        terms, content = _parse(sent, body, settings, errors)
        taxes = _fiscal(sent, errors)
    errors.refuse()
    return PlanUpdate(
        external_id=UNSET if sent.external_id is None else sent.external_id,
        name=UNSET if sent.name is None else sent.name,
        description=sent.description,
        metadata=content,
        product_key=sent.product_key,
        unit_key=sent.unit_key,
        taxes=taxes,
        terms=terms,
    )


def _parse(
    sent: PlanBody, body: bytes, settings: MerchantSettings, errors: FieldErrors
) -> tuple[dict[str, Any], Raw | None | UnsetType]:
    """Returns the terms that a body gives, by their names, and the metadata. Adds what is wrong to `errors`."""
    errors.check(printable, sent.external_id, "externalId")
    terms: dict[str, Any] = {name: value for name in _COUNTS if (value := getattr(sent, name)) is not None}
    if not isinstance(sent.amount, UnsetType) and is_given(sent.amount):
        amount = errors.check(_amount, sent.amount, settings, sent.currency)
        terms |= {} if amount is None else {"amount": amount}
    if sent.currency is not None:
        terms["currency"] = sent.currency
    if sent.interval is not None:
        terms["interval"] = interval = Interval(sent.interval)
        problem = period_problem(interval, sent.interval_count or 1)
        if problem is not None:
            errors.add_rejected(InvalidField("intervalCount", problem))
    if sent.on_retries_exhausted is not None:
        terms["on_retries_exhausted"] = OnRetriesExhausted(sent.on_retries_exhausted)
    if sent.expiry_count is not UNSET:
        terms["expiry_count"] = sent.expiry_count
    content = errors.check(metadata, sent.metadata)
    if isinstance(sent.metadata, Raw) and not is_given(sent.metadata):
        content = None
    check_texts(sent, body, errors)
    return terms, content


def _fiscal(sent: PlanBody, errors: FieldErrors) -> tuple[order_terms.Tax, ...] | None | UnsetType:
    """Returns the taxes of a plan. Adds what is wrong with them, and the keys that SAT's catalogues do not have."""
    for field, problem in wrong_keys(sent.product_key or None, sent.unit_key or None):
        errors.add(invalid(field, problem))
    if sent.taxes is None or isinstance(sent.taxes, UnsetType):
        return sent.taxes
    taxes = parse_taxes(sent.taxes, errors)
    if not errors.has("taxes"):
        for field, problem in wrong_taxes(taxes):
            errors.add(invalid(field, problem))
    return taxes


def _amount(raw: Raw, settings: MerchantSettings, currency: str | None) -> Decimal:
    """Returns the amount of a JSON number or of a string that spells one, in `currency` if that was sent.

    Raises ApiError (400).
    """
    text = bytes(raw)
    value = positive_amount(Raw(text[1:-1]) if text[:1] == b'"' else raw, "amount")
    require_whole(settings, ("amount", value), currency=currency)
    return value


def _is_sent(value: Any) -> bool:
    return is_given(value) if isinstance(value, Raw) else value not in (None, UNSET)


def plan_reference(request: ApiRequest) -> str:
    """Returns the id or external id of the plan in the path. Raises PlanNotFound if the text cannot be an id."""
    reference = request.path_id("id")
    if reference is None:
        raise plan_not_found()
    return reference


def plan_not_found() -> Rejected:
    """Returns the rejection of an id under which the merchant has no plan."""
    return streams.PLANS.missing()


EXAMPLE: Final[Json] = {
    "externalId": "cafe-del-mes",
    "name": "Café del mes, 1 kg",
    "description": "Un kilo de café de altura, cada mes.",
    "amount": "38900",
    "currency": "MXN",
    "interval": "MONTH",
    "trialPeriodDays": 14,
    "productKey": "50201706",
    "unitKey": "H87",
    "taxes": [{"type": "IVA", "rate": 0}],
    "metadata": {"origin": "Coatepec"},
}
