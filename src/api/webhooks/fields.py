"""What requests about webhook endpoints contain, and the endpoint that a path names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import LongText
from api.errors import invalid, required
from api.fields.event_kinds import unknown_kind
from api.http.request import ApiRequest
from api.operation import Json
from ledger.domain import streams
from ledger.domain.public_events.kinds import PATTERNS, unknown_patterns
from ledger.domain.rejections import InvalidField
from ledger.domain.webhooks.terms import EndpointStatus, EndpointTerms, Ordering, Payload, Resume
from ledger.operations.webhooks.change import EndpointChanges
from ledger.webhooks.urls import LENGTH_MAX, parse_url

ENDPOINT_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The service's id of the endpoint.",
    "schema": {"type": "string", "format": "uuid"},
}


_WHERE: Final = "Where events are posted: https, and an address on the public internet."
_Url = Annotated[str, Meta(extra_json_schema={"maxLength": LENGTH_MAX, "format": "uri"})]


class EndpointBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The fields of a webhook endpoint."""

    url: Annotated[_Url | None, Meta(description=_WHERE, examples=["https://shop.example.com/webhooks"])] = None
    events: Annotated[
        Annotated[
            list[Annotated[str, Meta(extra_json_schema={"enum": list(PATTERNS)})]],
            Meta(max_length=len(PATTERNS), extra_json_schema={"minItems": 1}),
        ]
        | None
        | UnsetType,
        Meta(
            description="The kinds of events that it gets; `payment_order.*` means all kinds that begin so. Null, "
            "or absent in a creation: all, those of later releases too."
        ),
    ] = UNSET
    description: Annotated[LongText | None | UnsetType, Meta(description="Free text; null for none.")] = UNSET
    ordering: Annotated[
        Literal["DEFAULT", "STRICT"] | None,
        Meta(
            description="How long an event waits for an earlier one of the same order or subscription that has not been "
            "accepted: 60 seconds, or with STRICT until that one is accepted or given up. A new endpoint has DEFAULT."
        ),
    ] = None
    payload: Annotated[
        Literal["FULL", "THIN"] | None,
        Meta(
            description="THIN for messages without `data`: the receiver reads what it needs. A new endpoint has FULL."
        ),
    ] = None


class CreateEndpoint(EndpointBody, frozen=True, kw_only=True, rename="camel"):
    """The request to create a webhook endpoint."""

    url: Annotated[
        _Url | None, Meta(description=f"Required. {_WHERE}", examples=["https://shop.example.com/webhooks"])
    ] = None


class ChangeEndpoint(EndpointBody, frozen=True, kw_only=True, rename="camel"):
    """The request to change a webhook endpoint. What is left out stays."""

    status: Annotated[
        Literal["ENABLED", "DISABLED"] | None,
        Meta(description="DISABLED: nothing is posted to it. ENABLED: events are posted again."),
    ] = None
    resume: Annotated[
        Literal["MISSED", "NOW"] | None,
        Meta(
            description="Only with the status ENABLED, for an endpoint that is not: whether it gets the events since it was "
            "disabled. Default NOW: it skips them, and the answer has their numbers as `skipped`."
        ),
    ] = None


_decode_change: Final = BodyDecoder(ChangeEndpoint)
_decode_create: Final = BodyDecoder(CreateEndpoint)


def parse_create(body: bytes) -> EndpointTerms:
    """Returns the terms that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_create.gather(body)
    with BAD_INPUT_AS_400:
        if not sent.url and not errors.has("url"):
            errors.add(required("url"))
        terms = given_terms(sent, body, errors)
    errors.refuse()
    return EndpointTerms(**terms)


def parse_change(body: bytes) -> EndpointChanges:
    """Returns what a body changes of an endpoint. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode_change.gather(body)
    with BAD_INPUT_AS_400:
        terms = given_terms(sent, body, errors)
        if sent.resume is not None and sent.status != EndpointStatus.ENABLED and not errors.has("status"):
            errors.add(invalid("resume", "can be sent with the status ENABLED alone"))
    errors.refuse()
    return EndpointChanges(
        terms=terms,
        status=None if sent.status is None else EndpointStatus(sent.status),
        resume=Resume.NOW if sent.resume is None else Resume(sent.resume),
    )


def given_terms(sent: EndpointBody, body: bytes, errors: FieldErrors) -> Mapping[str, Any]:
    """Returns the fields of `EndpointTerms` that a body gives. Adds what is wrong to `errors`."""
    terms: dict[str, Any] = {}
    if sent.url:
        terms["url"] = sent.url
        try:
            parse_url(sent.url)
        except InvalidField as wrong:
            errors.add_rejected(wrong)
    elif sent.url is not None and not errors.has("url"):
        errors.add(invalid("url", "must not be empty", "INVALID_LENGTH"))
    if not isinstance(sent.events, UnsetType):
        terms["events"] = None if sent.events is None else _kinds(sent.events, errors)
    if not isinstance(sent.description, UnsetType):
        terms["description"] = sent.description or None
    if sent.ordering is not None:
        terms["ordering"] = Ordering(sent.ordering)
    if sent.payload is not None:
        terms["payload"] = Payload(sent.payload)
    check_texts(sent, body, errors)
    return terms


def _kinds(patterns: Sequence[str], errors: FieldErrors) -> tuple[str, ...]:
    """Returns the kinds of a body, each once."""
    if not patterns:
        errors.add(invalid("events", "must not be empty: send null for all kinds", "INVALID_LENGTH"))
    for at in unknown_patterns(patterns):
        errors.add(invalid(f"events[{at}]", unknown_kind(patterns[at])))
    return tuple(dict.fromkeys(patterns))


def endpoint_reference(request: ApiRequest) -> str:
    """Returns the endpoint's id in the path. Raises WebhookEndpointNotFound if the text cannot be an id."""
    reference = request.path_id("id")
    if reference is None:
        raise streams.WEBHOOK_ENDPOINTS.missing()
    return reference
