"""The operations of one path, as a plain ASGI endpoint, and the table of all paths.

Check in the contract's order (N72): key, merchant, rate, and only then the body.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.decoding.body_notes import NOTES, BodyNotes, UnknownFieldPolicy
from api.decoding.choosing_names import choices_left
from api.decoding.field_warnings import with_warnings
from api.decoding.query import refuse_parameters
from api.decoding.unknown_names import ignored_header, known_name, spelling_of, warn_of_unchanged
from api.errors import method_not_allowed, no_such_operation
from api.http.dependencies import Dependencies, DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.operation import OperationSpec
from api.response import ApiResponse
from ledger.domain.merchants.settings import UnknownFields
from ledger.security import api_keys

READ: Final = api_keys.Scope.ORDERS_READ
WRITE: Final = api_keys.Scope.ORDERS_WRITE
READ_CUSTOMERS: Final = api_keys.Scope.CUSTOMERS_READ
WRITE_CUSTOMERS: Final = api_keys.Scope.CUSTOMERS_WRITE
PRODUCTS: Final = api_keys.Scope.PRODUCTS
SUBSCRIPTIONS: Final = api_keys.Scope.SUBSCRIPTIONS
EVENTS: Final = api_keys.Scope.EVENTS_READ
WEBHOOKS: Final = api_keys.Scope.WEBHOOKS
AUDIT: Final = api_keys.Scope.AUDIT

_COMPARED_PATH_MAX: Final = 200
"""Longer paths are no operation's with a slip."""
_VERSION: Final = re.compile(r"v[0-9]", re.ASCII)
_WHOLE: Final = frozenset({"PUT"})
"""The methods whose body may be what was read before. That of PATCH has what is to be changed and nothing else."""
_MOVES: Final = frozenset({WRITE, SUBSCRIPTIONS, api_keys.Scope.FISCAL})
"""The scopes of the operations on money and on fiscal documents."""

Handler = Callable[[Dependencies, ApiRequest], Awaitable[ApiResponse]]


class ScopedOperation(Struct, frozen=True):
    """The function that answers one method of a path, the scope that a key needs for it, and its published description.

    Without a scope, every valid key may ask. An operation
    `by_key_alone` needs no `x-merchant-id`, even if the merchant requires that header.
    """

    handler: Handler
    scope: api_keys.Scope | None
    spec: OperationSpec
    by_key_alone: bool = False

    @property
    def takes_parameters(self) -> bool:
        """Returns whether the operation has parameters of a query."""
        return any(parameter["in"] == "query" for parameter in self.spec.parameters)

    @property
    def answered_fields(self) -> frozenset[str]:
        """Returns the names of the fields of its answers."""
        return frozenset(name for _, answer in self.spec.answers.values() for name in answer.__struct_encode_fields__)

    @property
    def choices(self) -> frozenset[str]:
        """Returns what a field of its body could choose, if it acts on money or documents of what its path names."""
        in_path = [each["name"] for each in self.spec.parameters if each["in"] == "path"]
        return choices_left(map(spelling_of, in_path)) if in_path and self.scope in _MOVES else frozenset()


class Endpoint:
    """The operations of one path, by method; HEAD is GET without the body."""

    def __init__(self, holder: DependencyHolder, **operations: ScopedOperation) -> None:
        self._holder = holder
        self._operations = dict(operations)
        read = operations["GET"].answered_fields if "GET" in operations else frozenset()
        read_only = {method: each.answered_fields | read for method, each in operations.items() if method in _WHOLE}
        self._policies = {
            (method, setting): UnknownFieldPolicy(
                rejects=setting is UnknownFields.REJECT,
                read_only=read_only.get(method, frozenset()),
                choices=operation.choices,
            )
            for method, operation in operations.items()
            for setting in UnknownFields
        }
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
        request.rate_headers = deps.limiter.admit(
            principal.key_id, principal.per_minute, principal.per_second, principal.merchant_id
        )
        if deps.ledger.clock.must_be_read(principal.merchant_id):
            await deps.ledger.clock.refresh(principal.merchant_id)
        if request.query and not operation.takes_parameters:
            refuse_parameters(request.query)
        if operation.spec.takes is None:
            await request.respond(await operation.handler(deps, request), send)
            return
        notes = BodyNotes(self._policies[scope["method"], principal.settings.unknown_fields])
        outer = NOTES.set(notes)
        try:
            response = await operation.handler(deps, request)
            if response.status == 200:
                warn_of_unchanged(response.body, notes)
            response = with_warnings(response, notes)
        finally:
            NOTES.reset(outer)
            if notes.ignored:
                request.rate_headers += ignored_header(notes.ignored)
        await request.respond(response, send)


def path_meant(path: str, operations: Iterable[str]) -> str | None:
    """Returns the path of an operation that an unknown one is meant to be, with the names of its parameters; None if
    there is none. The two differ in the prefix, the first segment, or in the version, or in the letters of one other
    segment, as `known_name` compares names.
    """
    sent = path.strip("/").split("/")
    if len(path) > _COMPARED_PATH_MAX:
        return None
    return next((each for each in operations if _is_alike(sent, each.strip("/").split("/"))), None)


def _is_alike(sent: Sequence[str], known: Sequence[str]) -> bool:
    if len(sent) == len(known) - 1:  # without the prefix
        return _differing(sent, known[1:]) == []
    if len(sent) != len(known):
        return False
    match _differing(sent, known):
        case [0] if len(known) > 1:  # with another prefix
            return True
        case [at]:
            is_version = _VERSION.fullmatch(sent[at]) and _VERSION.fullmatch(known[at])
            return bool(is_version) or known_name(sent[at], [known[at]]) is not None
        case _:
            return False


def _differing(sent: Sequence[str], known: Sequence[str]) -> list[int]:
    """Returns the places at which two paths of as many segments differ. A parameter is like any text."""
    return [at for at, (one, other) in enumerate(zip(sent, known, strict=True)) if other[:1] != "{" and one != other]


class RouteTable(Router):
    """The routes of the service. One without parameters is found by its path, one with parameters by the first match.

    Starlette's router asks each route in turn by a scope of its own, which takes longer than checking the key. No route
    with parameters may match the path of a route without: it would lose it. Every parameter is text.
    """

    def __init__(self, routes: Sequence[Route], **options: Any) -> None:
        super().__init__(routes, **options)
        self._exact = {route.path: route for route in routes if not route.param_convertors}
        self._patterns = [(route.path_regex.match, route) for route in routes if route.param_convertors]
        self._operations = [route.path for route in routes if isinstance(route.endpoint, Endpoint)]

    def find(self, scope: Scope) -> ASGIApp:
        """Returns what answers the request, whose scope gets its route and the parameters of its path. Raises ApiError
        (404).
        """
        path: str = scope["path"]
        route = self._exact.get(path)
        if route is not None:
            scope["route"], scope["path_params"] = route, {}
            return route.app
        for match, candidate in self._patterns:
            if found := match(path):
                scope["route"], scope["path_params"] = candidate, found.groupdict()
                return candidate.app
        if path.endswith("/") and self._has(path.rstrip("/")):
            raise no_such_operation(has_slash_too_many=True)
        raise no_such_operation(meant=path_meant(path, self._operations))

    def _has(self, path: str) -> bool:
        return path in self._exact or any(match(path) for match, _ in self._patterns)
