"""POST /v1/api-keys/{id}/rotate: issues an API key in the place of another, which stays valid for a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.types import Id
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import KEY_ID, RotatedApiKeyDocument, created_response, forget_keys, key_id_of
from api.merchant.fields import key_expiry, key_name
from api.merchant.new_keys import make_key
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, MERCHANT, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.operations.merchants.api_keys import rotate_key
from ledger.security.api_keys import OVERLAP_MAX_S, OVERLAP_S, Scope


class RotateApiKey(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for a key in the place of another. Without a body, both are valid for a day."""

    overlap_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=OVERLAP_MAX_S)] | None,
        Meta(description=f"How long the old key stays valid; default {OVERLAP_S}. 0 ends it at once."),
    ] = None
    name: Annotated[Id | None, Meta(description="The name of the new key. Absent: that of the old one.")] = None
    expires_at: Annotated[
        Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})] | None,
        Meta(
            description="From when on the new key is refused, in real time. Absent: the expiry of the old one, if any."
        ),
    ] = None


class RotationInput(Struct, frozen=True, kw_only=True):
    """How long the old key stays valid, and what differs in the new one."""

    overlap: timedelta
    name: str | None
    expires_at: datetime | None


_decode: Final = BodyDecoder(RotateApiKey)


def parse_rotation(body: bytes, now: datetime) -> RotationInput:
    """Returns the rotation that a body asks for. `now` is real time, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        name = errors.check(key_name, sent.name)
        expires_at = errors.check(key_expiry, sent.expires_at, now)
    errors.refuse()
    overlap_s = OVERLAP_S if sent.overlap_seconds is None else sent.overlap_seconds
    return RotationInput(overlap=timedelta(seconds=overlap_s), name=name, expires_at=expires_at)


async def rotate(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/api-keys/{id}/rotate: 201 with the new key and its secret, and the old key with its expiry."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_rotation(body, datetime.now(request.principal.zone))
    key = deps.new_key()
    make = partial(
        rotate_key,
        deps.ledger,
        request.actor,
        key_id_of(request),
        key,
        overlap=parsed.overlap,
        name=parsed.name,
        expires_at=parsed.expires_at,
        idempotency_key=request.idempotency_key(deps.fingerprint_key, body),
    )
    result = await make_key(deps, request, make)
    forget_keys(deps, request)
    return created_response(result, key)


ROTATE_KEY: Final = ScopedOperation(
    rotate,
    Scope.KEYS,
    OperationSpec(
        name="rotateApiKey",
        summary="Rotate an API key",
        description="""
Issues a key in the place of another, with the same scopes. The old key stays valid for `overlapSeconds`, so that no
request fails while a program is given the new one. A key can rotate itself; another one only where it has all that the
other one allows. Needs no body.
""",
        tag=MERCHANT,
        parameters=(KEY_ID, IDEMPOTENCY_KEY),
        takes=RotateApiKey,
        optional=True,
        examples={"anHour": {"summary": "The old key for another hour", "value": {"overlapSeconds": 3600}}},
        answers={201: ("The new key with its secret, and the old key.", RotatedApiKeyDocument)},
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            {404: ("API_KEY_NOT_FOUND",), 409: ("API_KEY_NOT_ACTIVE", "API_KEY_LIMIT_REACHED", "LAST_API_KEY")},
        ),
        replays=True,
    ),
)
