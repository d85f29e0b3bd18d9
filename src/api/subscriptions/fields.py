"""The bodies of requests to create, change, cancel or charge a subscription; and their parsers, which name all wrong
fields.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import Id, Metadata
from api.errors import required
from api.fields.metadata import metadata
from api.fields.values import is_given, moment, printable
from api.operation import Json
from ledger.domain.rejections import InvalidField
from ledger.domain.subscriptions.calendar import start_problem
from ledger.domain.subscriptions.commands import Proration
from ledger.operations.subscriptions.requests import NewSubscription, SubscriptionUpdate

_DateTime = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]


class CreateSubscription(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to create a subscription. `null` is the same as absent."""

    customer_id: Annotated[
        Id | None, Meta(description="Required. The customer who pays: the service's id, or the merchant's own.")
    ] = None
    plan_id: Annotated[
        Id | None, Meta(description="Required. An active plan: the service's id, or the merchant's own.")
    ] = None
    payment_method_id: Annotated[Id | None, Meta(description="Required. A saved card of the customer.")] = None
    external_id: Annotated[
        Id | None, Meta(description="The merchant's own id of the subscription, unique among its subscriptions.")
    ] = None
    trial_end: Annotated[
        _DateTime | None,
        Meta(
            description="The end of the trial, in place of the plan's: the first charge is due then. Within two years. "
            "A time without an offset is in the merchant's time zone."
        ),
    ] = None
    start_date: Annotated[
        _DateTime | None,
        Meta(
            description="When the subscription begins; without it, now. Until then it is on trial, and a trial of the "
            "plan follows. Within two years."
        ),
    ] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent.")] = UNSET


class ChangeSubscription(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to change a subscription. What is left out stays."""

    plan_id: Annotated[Id | None, Meta(description="Another active plan, in the same currency.")] = None
    payment_method_id: Annotated[
        Id | None,
        Meta(
            description="Another saved card of the customer. While the subscription is PAST_DUE or UNPAID, the oldest "
            "open invoice is charged to it at once."
        ),
    ] = None
    proration_behavior: Annotated[
        Literal["NONE", "NEXT_INVOICE", "INVOICE_NOW"] | None,
        Meta(
            description="What another plan means for the rest of the current period: nothing, lines of the next "
            "invoice (default), or an invoice now."
        ),
    ] = None
    metadata: Annotated[
        Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent; null removes it.")
    ] = UNSET


class CancelSubscription(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to cancel a subscription."""

    at_period_end: Annotated[
        bool | None, Meta(description="True (default): at the end of the current period. False: now.")
    ] = None


class RetrySubscription(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to charge a subscription now."""

    all: Annotated[
        bool | None,
        Meta(description="True: also the drafts of missed periods. False (default): the oldest open invoice alone."),
    ] = None


class PreviewSubscription(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for a preview, which has no fields: the invoice is that of the subscription as it is."""


_decode_create: Final = BodyDecoder(CreateSubscription)
_decode_change: Final = BodyDecoder(ChangeSubscription)
_decode_cancel: Final = BodyDecoder(CancelSubscription)
_decode_retry: Final = BodyDecoder(RetrySubscription)
_decode_preview: Final = BodyDecoder(PreviewSubscription)
_NAMES: Final = {
    "customer_id": "customerId",
    "plan_id": "planId",
    "payment_method_id": "paymentMethodId",
    "external_id": "externalId",
}


def parse_create(body: bytes, now: datetime) -> NewSubscription:
    """Returns the subscription that a body asks for. `now` is aware, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode_create.gather(body)
    with BAD_INPUT_AS_400:
        for name in ("customer_id", "plan_id", "payment_method_id"):
            if getattr(sent, name) is None and not errors.has(_NAMES[name]):
                errors.add(required(_NAMES[name]))
        trial_end = errors.check(_date, sent.trial_end, "trialEnd", now)
        start = errors.check(_date, sent.start_date, "startDate", now)
        if trial_end is not None and start is not None and trial_end < start:
            errors.add_rejected(InvalidField("trialEnd", "must not be before startDate"))
        content = _checked(sent, body, errors)
    errors.refuse()
    assert sent.customer_id, "what is required and absent was refused"
    assert sent.plan_id, "what is required and absent was refused"
    assert sent.payment_method_id, "what is required and absent was refused"
    return NewSubscription(
        customer=sent.customer_id,
        plan=sent.plan_id,
        payment_method=sent.payment_method_id,
        external_id=sent.external_id,
        start=start,
        trial_end=UNSET if trial_end is None else trial_end,
        metadata=content or None,
    )


def parse_change(body: bytes) -> SubscriptionUpdate:
    """Returns the changes of a body to a subscription. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_change.gather(body)
    with BAD_INPUT_AS_400:
        content = _checked(sent, body, errors)
    errors.refuse()
    return SubscriptionUpdate(
        plan=sent.plan_id,
        payment_method=sent.payment_method_id,
        proration=Proration.NEXT_INVOICE if sent.proration_behavior is None else Proration(sent.proration_behavior),
        metadata=content,
    )


def parse_cancel(body: bytes) -> bool:
    """Returns whether a body cancels at the end of the period. Raises ApiError (400)."""
    sent, errors = _decode_cancel.gather(body)
    errors.refuse()
    return sent.at_period_end is not False


def parse_retry(body: bytes) -> bool:
    """Returns whether a body also charges the drafts of missed periods. Raises ApiError (400)."""
    sent, errors = _decode_retry.gather(body)
    errors.refuse()
    return bool(sent.all)


def parse_preview(body: bytes) -> None:
    """Warns of the fields of a body, none of which has an effect. Raises ApiError (400)."""
    _, errors = _decode_preview.gather(body)
    errors.refuse()


def _checked(sent: CreateSubscription | ChangeSubscription, body: bytes, errors: FieldErrors) -> Raw | None | UnsetType:
    """Returns the metadata of a body, None if it is null. Adds wrong texts to `errors`."""
    for name, field in _NAMES.items():
        if isinstance(value := getattr(sent, name, None), str):
            errors.check(printable, value, field)
    content: Raw | None | UnsetType = errors.check(metadata, sent.metadata)
    if isinstance(sent.metadata, Raw) and not is_given(sent.metadata):
        content = None
    check_texts(_Kept(external_id=getattr(sent, "external_id", None), metadata=content), body, errors)
    return content


class _Kept(Struct, frozen=True, kw_only=True, rename="camel"):
    """The texts of a request that are stored."""

    external_id: str | None = None
    metadata: Any = None


def _date(value: datetime | None, field: str, now: datetime) -> datetime | None:
    """Returns a time in UTC that is not in the past. Raises ApiError (400), InvalidField."""
    if value is None:
        return None
    at = moment(value, field, now)
    problem = start_problem(at, now)
    if problem is not None:
        raise InvalidField(field, problem)
    return at


EXAMPLE: Final[Json] = {
    "customerId": "cliente-5521",
    "planId": "cafe-del-mes",
    "paymentMethodId": "0198c9a4-51f0-7bb4-9f3c-2f6c1f0a7d11",
    "externalId": "suscripcion-5521",
    "metadata": {"grind": "whole"},
}
