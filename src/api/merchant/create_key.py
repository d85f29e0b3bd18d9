"""POST /v1/api-keys: issues a further API key. The other keys stay valid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.types import Id
from api.errors import invalid
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import NewApiKeyDocument, created_response, forget_keys
from api.merchant.fields import key_expiry, key_name
from api.merchant.new_keys import make_key
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, MERCHANT, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.operations.merchants.api_keys import issue_key
from ledger.security.api_keys import Scope


class CreateApiKey(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for a further API key."""

    name: Annotated[Id | None, Meta(description="A name of the key, for people.")] = None
    scopes: Annotated[
        Annotated[
            list[Annotated[str, Meta(extra_json_schema={"enum": list(Scope)})]], Meta(extra_json_schema={"minItems": 1})
        ]
        | None,
        Meta(description="What the key allows: scopes that the key of the request has. Absent: everything."),
    ] = None
    expires_at: Annotated[
        Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})] | None,
        Meta(
            description="From when on the key is refused, in real time; not later than the expiry of the key of the "
            "request. Absent: never. A time without an offset is in the merchant's time zone."
        ),
    ] = None


class NewKeyInput(Struct, frozen=True, kw_only=True):
    """What a new key may be called, may do, and how long. No scopes allow everything."""

    name: str | None
    scopes: Sequence[str]
    expires_at: datetime | None


_decode: Final = BodyDecoder(CreateApiKey)


def parse_new_key(body: bytes, now: datetime) -> NewKeyInput:
    """Returns the key that a body asks for. `now` is real time, in the merchant's time zone.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        name = errors.check(key_name, sent.name)
        scopes = errors.check(_scopes, sent.scopes, errors) or ()
        expires_at = errors.check(key_expiry, sent.expires_at, now)
    errors.refuse()
    return NewKeyInput(name=name, scopes=scopes, expires_at=expires_at)


def _scopes(sent: Sequence[str] | None, errors: FieldErrors) -> list[str]:
    if sent is None:
        return []
    if not sent:
        raise invalid(
            "scopes", "must not be empty: leave the field out for a key that allows everything", "INVALID_LENGTH"
        )
    for at, scope in enumerate(sent):
        if scope.lower() not in list(Scope):
            errors.add(invalid(f"scopes[{at}]", f"must be one of {', '.join(Scope)}"))
    return sorted({scope.lower() for scope in sent})


async def create_key(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/api-keys: 201 with the new key and its secret, which no other answer shows."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_new_key(body, datetime.now(request.principal.zone))
    key = deps.new_key()
    make = partial(
        issue_key,
        deps.ledger,
        request.actor,
        key,
        name=parsed.name,
        scopes=parsed.scopes,
        expires_at=parsed.expires_at,
        idempotency_key=request.idempotency_key(deps.fingerprint_key, body),
    )
    result = await make_key(deps, request, make)
    forget_keys(deps, request)
    return created_response(result, key)


EXAMPLES: Final = {
    "limited": {
        "summary": "A key for a program that reads orders",
        "value": {"name": "reports", "scopes": ["orders:read"]},
    },
    "everything": {"summary": "A key that allows everything", "value": {"name": "shop"}},
}

CREATE_KEY: Final = ScopedOperation(
    create_key,
    Scope.KEYS,
    OperationSpec(
        name="createApiKey",
        summary="Create an API key",
        description="""
Issues a further API key; the other keys stay valid. The answer has the secret, which is stored nowhere and never shown
again. A key gives only what it has: its own scopes, a validity up to its own, its own environment.
""",
        tag=MERCHANT,
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreateApiKey,
        optional=True,
        examples=EXAMPLES,
        answers={201: ("The key with its secret.", NewApiKeyDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {409: ("API_KEY_LIMIT_REACHED", "MERCHANT_CLOSED")}),
        replays=True,
    ),
)
