"""The answers about a merchant's API keys: never a secret, except in the one answer that made it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.operation import Json
from api.response import REPLAYED, ApiResponse, json_response
from ledger.domain.rejections import ApiKeyNotFound
from ledger.operations.merchants.api_keys import KeyResult
from ledger.security.api_keys import NewKey, Scope
from projections.formats import moment, moment_or_null
from projections.merchants import ListedKey, listed

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Scopes = Annotated[
    list[Scope] | None,
    Meta(description="What the key allows. `null` allows everything, also what later releases add."),
]

KEY_ID: Final[Json] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of the API key, never the key itself.",
    "schema": {"type": "string", "format": "uuid"},
}


class RequestLimits(Struct, kw_only=True, rename="camel"):
    """The requests that the key of the request may make. A merchant's keys share a further limit (contract N75)."""

    requests_per_minute: Annotated[int, Meta(description="In a minute; 0 means unlimited.")]
    requests_per_second: Annotated[int, Meta(description="In a second; 0 means unlimited.")]


class ApiKeyDocument(Struct, kw_only=True, rename="camel"):
    """An API key of the merchant. Its secret is not stored."""

    id: Annotated[UUID, Meta(description="The id of the key. It is no secret: events name the key by it.")]
    name: Annotated[str | None, Meta(description="The merchant's name of the key, for people.")]
    hint: Annotated[str, Meta(description="The last four characters of the key, to recognise it.")]
    scopes: Scopes
    status: Annotated[Literal["ACTIVE", "EXPIRED", "REVOKED"], Meta(description="Only an ACTIVE key is accepted.")]
    created_at: Annotated[Moment, Meta(description="When the key was issued, by the merchant's clock.")]
    expires_at: Annotated[
        Moment | None, Meta(description="From when on the key is refused, in real time. `null` for never.")
    ]
    revoked_at: Annotated[Moment | None, Meta(description="When the key was revoked, by the merchant's clock.")]
    replaced_by: Annotated[UUID | None, Meta(description="The key that took this one's place in a rotation.")]
    last_used_at: Annotated[
        Moment | None | UnsetType,
        Meta(
            description="When a request last came with the key, in real time and about a minute late; `null` for never. "
            "Absent in the answer to a revocation, and of a key that was replaced."
        ),
    ] = UNSET


class NewApiKeyDocument(ApiKeyDocument, kw_only=True, rename="camel"):
    """A new API key with its secret."""

    secret: Annotated[
        str | None,
        Meta(
            description="The key itself, for the header x-api-key. Shown in this answer only, and stored nowhere: `null` "
            "in a repeated answer to the same Idempotency-Key. If the first answer was lost, rotate the key."
        ),
    ]


class RotatedApiKeyDocument(NewApiKeyDocument, kw_only=True, rename="camel"):
    """A new API key with its secret, and the key whose place it took."""

    replaced: Annotated[ApiKeyDocument, Meta(description="The old key. It is accepted until its expiresAt.")]


class RevokedApiKeyDocument(ApiKeyDocument, kw_only=True, rename="camel"):
    """An API key after its revocation."""

    deleted: Annotated[Literal[True], Meta(description="Always true: the key is refused from now on.")] = True


def limits_of(request: ApiRequest) -> RequestLimits:
    """Returns the rate limits that are in force for the request's key."""
    principal = request.principal
    return RequestLimits(requests_per_minute=principal.per_minute, requests_per_second=principal.per_second)


def key_document(key: ListedKey) -> ApiKeyDocument:
    """Returns a key as it is now."""
    return ApiKeyDocument(**_fields(key))  # type: ignore[arg-type]


def created_response(result: KeyResult, key: NewKey) -> ApiResponse:
    """Returns the answer to a request that issued a key. `key` is the secret that the request drew: a repeated request
    drew another one, which was not stored.
    """
    secret = None if result.repeated else key.secret
    fields = _fields(listed(result.key)) | {"last_used_at": None}
    document: NewApiKeyDocument
    if result.replaced is None:
        document = NewApiKeyDocument(**fields, secret=secret)  # type: ignore[arg-type]
    else:
        replaced = key_document(listed(result.replaced))
        document = RotatedApiKeyDocument(**fields, secret=secret, replaced=replaced)  # type: ignore[arg-type]
    return json_response(201, document, REPLAYED if result.repeated else ())


def revoked_response(result: KeyResult) -> ApiResponse:
    """Returns the answer to a revocation, also of a key that was revoked before."""
    document = RevokedApiKeyDocument(**_fields(listed(result.key)))  # type: ignore[arg-type]
    return json_response(200, document, REPLAYED if result.replayed or result.repeated else ())


def key_id_of(request: ApiRequest) -> UUID:
    """Returns the id of the key in the path. Raises ApiKeyNotFound if the text cannot be an id."""
    try:
        return UUID(request.path_id("id") or "")
    except ValueError:
        raise key_not_found() from None


def key_not_found() -> ApiKeyNotFound:
    """Returns the rejection of an id under which the merchant has no key."""
    return ApiKeyNotFound("The merchant has no such API key.")


def forget_keys(deps: Dependencies, request: ApiRequest) -> None:
    """Drops what this process has cached of the merchant. The database notifies the other processes."""
    deps.authenticator.forget(request.principal.merchant_id)


def _fields(key: ListedKey) -> dict[str, object]:
    return {
        "id": key.key_id,
        "name": key.name,
        "hint": key.hint,
        "scopes": [Scope(scope) for scope in key.scopes] or None,
        "status": _status(key, datetime.now(UTC)),
        "created_at": moment(key.created_at),
        "expires_at": moment_or_null(key.expires_at),
        "revoked_at": moment_or_null(key.revoked_at),
        "replaced_by": key.replaced_by,
        "last_used_at": UNSET if isinstance(key.last_used_at, UnsetType) else moment_or_null(key.last_used_at),
    }


def _status(key: ListedKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "REVOKED"
    return "EXPIRED" if key.expires_at is not None and key.expires_at <= now else "ACTIVE"
