"""The operations of one path, as a plain ASGI endpoint of the router, and the router.

Check in the contract's order (N72): key, merchant, rate, and only then the body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder, not_started
from api.fields.query import ignore_parameters
from api.fields.unknown_names import IGNORED, ignored_header
from api.http.errors import method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.openapi.operation import OperationSpec
from ledger.security import api_keys

READ: Final = api_keys.Scope.ORDERS_READ
WRITE: Final = api_keys.Scope.ORDERS_WRITE
READ_CUSTOMERS: Final = api_keys.Scope.CUSTOMERS_READ
WRITE_CUSTOMERS: Final = api_keys.Scope.CUSTOMERS_WRITE
PRODUCTS: Final = api_keys.Scope.PRODUCTS
SUBSCRIPTIONS: Final = api_keys.Scope.SUBSCRIPTIONS

Handler = Callable[[Dependencies, ApiRequest], Awaitable[ApiResponse]]


class ScopedOperation(Struct, frozen=True):
    """The function that answers one method of a path, the scope that a key needs for it, and its published description.

    Without a scope, every valid key may ask. An operation
    `by_key_alone` needs no `x-merchant-id`, also where the merchant requires that header.
    """

    handler: Handler
    scope: api_keys.Scope | None
    spec: OperationSpec
    by_key_alone: bool = False

    @property
    def takes_parameters(self) -> bool:
        """Returns whether the operation has parameters of a query."""
        return any(parameter["in"] == "query" for parameter in self.spec.parameters)


class Endpoint:
    """The operations of one path, by method; HEAD is GET without the body."""

    def __init__(self, holder: DependencyHolder, **operations: ScopedOperation) -> None:
        self._holder = holder
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]

    @property
    def operations(self) -> Mapping[str, ScopedOperation]:
        """Returns the operations of the path by method, without HEAD."""
        return {method: operation for method, operation in self._operations.items() if method != "HEAD"}

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers one request. The middleware answers what this raises."""
        operation = self._operations.get(scope["method"])
        if operation is None:
            raise method_not_allowed(*self._operations)
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        request.needs_database = True
        request.principal = principal = await deps.authenticator.identify(
            request.headers, operation.scope, by_key_alone=operation.by_key_alone
        )
        request.rate_headers = deps.limiter.admit(principal.key_id, principal.per_minute, principal.per_second)
        await deps.ledger.clock.refresh(principal.merchant_id)
        if request.query and not operation.takes_parameters:
            ignore_parameters(request.query)
        try:
            response = await operation.handler(deps, request)
        finally:
            if IGNORED.get():
                request.rate_headers += ignored_header()
        await request.respond(response, send)


class ExactRouter(Router):
    """Starlette's router, which matches only the paths that have parameters, or no route, one route after the other.

    No route with parameters may match the path of a route without: it would lose it.
    """

    def __init__(self, routes: Sequence[Route], **options: Any) -> None:
        super().__init__(routes, **options)
        self._exact = {route.path: route for route in routes if not route.param_convertors}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request by the endpoint of its path."""
        route = self._exact.get(scope["path"]) if scope["type"] == "http" else None
        if route is None:
            await super().__call__(scope, receive, send)
            return
        scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {}
        await route.handle(scope, receive, send)
