"""DELETE /v1/api-keys/{id}: revokes an API key, in every process at once."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import KEY_ID, RevokedApiKeyDocument, forget_keys, key_id_of, revoked_response
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, IDEMPOTENT, MERCHANT, UNREADABLE, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.operations.merchants.api_keys import revoke_key
from ledger.security.api_keys import Scope


async def revoke(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /v1/api-keys/{id}: 200 with the revoked key; 409 for the last key that can manage all keys."""
    body = await request.optional_body(deps.body_limit)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await revoke_key(deps.ledger, request.actor, key_id_of(request), key)
    forget_keys(deps, request)
    return revoked_response(result)


REVOKE_KEY: Final = ScopedOperation(
    revoke,
    Scope.KEYS,
    OperationSpec(
        name="revokeApiKey",
        summary="Revoke an API key",
        description="""
Revokes a key: every process refuses it from now on. A revoked key stays so; a second request changes nothing. A key can
revoke itself. There must always be a key that has the scope `keys` and every scope in use, and that stays valid for a
day: create another one first, or ask the service's operator.
""",
        tag=MERCHANT,
        parameters=(KEY_ID, IDEMPOTENCY_KEY),
        answers={200: ("The key, revoked.", RevokedApiKeyDocument)},
        codes=codes_of(ANY, UNREADABLE, IDEMPOTENT, {404: ("API_KEY_NOT_FOUND",), 409: ("LAST_API_KEY",)}),
        replays=True,
    ),
)
