"""The operations of one path, as a plain ASGI endpoint of the router.

Check in the contract's order (N72): key, merchant, rate, and only then the body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder
from api.http.errors import method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from api.http.response import ApiResponse, send_response
from api.openapi.operation import OperationSpec
from ledger.security import api_keys

READ: Final = api_keys.Scope.ORDERS_READ
WRITE: Final = api_keys.Scope.ORDERS_WRITE

Handler = Callable[[Dependencies, ApiRequest], Awaitable[ApiResponse]]


class ScopedOperation(Struct, frozen=True):
    """What answers one method of a path, the scope that a key needs for it, and its published description."""

    handler: Handler
    scope: api_keys.Scope
    spec: OperationSpec


class Endpoint:
    """The operations of one path, by method; HEAD is GET without the body."""

    def __init__(self, house: DependencyHolder, **operations: ScopedOperation) -> None:
        self._house = house
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]

    @property
    def operations(self) -> Mapping[str, ScopedOperation]:
        """The operations of the path by method, without HEAD."""
        return {method: allowed for method, allowed in self._operations.items() if method != "HEAD"}

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers one request. The middleware answers what this raises."""
        allowed = self._operations.get(scope["method"])
        if allowed is None:
            raise method_not_allowed(*self._operations)
        call: ApiRequest = scope[REQUEST_SCOPE_KEY]
        rooms = self._house.opened()
        call.principal = principal = await rooms.keys.identify(call.headers, allowed.scope)
        if rooms.shared_limiter is None:
            call.rate_headers = rooms.limiter.admit(principal.key_id, principal.per_minute, principal.per_second)
        else:
            call.rate_headers = await rooms.shared_limiter.admit(
                principal.merchant_id, principal.key_id, principal.per_minute, principal.per_second
            )
        await rooms.ledger.clock.refresh(principal.merchant_id)
        answer = await allowed.handler(rooms, call)
        await send_response(answer, send, call.answer_headers)
