"""Every operation of the router, and requests to them with chosen values at chosen places."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx
from msgspec import inspect
from tests.api.isolation.cases import Case
from tests.api.isolation.objects import Objects
from tests.api.storefront import JSON, Merchant

from api.app import routes
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint, ScopedOperation
from ledger.settings import Settings


@cache
def operations() -> dict[tuple[str, str], ScopedOperation]:
    """Returns every operation of the router that a merchant calls."""
    return {
        (method, route.path_format): operation
        for route in routes(Settings(), DependencyHolder())
        if isinstance(route.endpoint, Endpoint)
        for method, operation in route.endpoint.operations.items()
    }


def fields_in(kind: inspect.Type, place: str) -> Iterator[str]:
    """Yields the places of the values in a type."""
    match kind:
        case inspect.Metadata():
            yield from fields_in(kind.type, place)
        case inspect.UnionType():
            for each in kind.types:
                yield from fields_in(each, place)
        case inspect.ListType() | inspect.VarTupleType():
            yield from fields_in(kind.item_type, f"{place}[]")
        case inspect.StructType():
            for field in kind.fields:
                yield from fields_in(field.type, f"{place}.{field.encode_name}".lstrip("."))
        case inspect.NoneType():
            return
        case _:
            yield place


class Sender:
    """A merchant with objects of its own, who sends ids of others."""

    def __init__(self, merchant: Merchant, own: Objects) -> None:
        self.merchant = merchant
        self.own = own
        self.sent: list[str] = []

    async def send(
        self, method: str, path: str, case: Case, spec: Any, tried: Mapping[str, str], **headers: str
    ) -> httpx.Response:
        """Sends a request with the tried ids at their places, and own ids at the other places of the path."""
        self.sent += [value for value in tried.values() if value not in self.sent]
        values = {
            place: self.own[case.own.get(place, str(kind))][0]
            for place, kind in case.places.items()
            if place.startswith("path.")
        } | dict(tried)
        body = case.body
        if body is None and spec.takes is not None:
            body = next(iter(spec.examples.values()))["value"]
        body, query = copy.deepcopy(body), []
        for place, value in values.items():
            where, _, name = place.partition(".")
            if where == "path":
                path = path.replace(f"{{{name}}}", quote(value, safe=""))
            elif where == "query":
                query.append(f"{name}={quote(value, safe='')}")
            else:
                _put(body, name, value)
        content = None if body is None else json.dumps(body).encode()
        return await self.merchant.client.request(
            method,
            f"{path}?{'&'.join(query)}" if query else path,
            content=content,
            headers=self.merchant.key | ({} if content is None else JSON) | headers,
        )


def _put(body: Any, place: str, value: str) -> None:
    """Puts a value at a place of a body; makes the objects and lists on the way."""
    name, _, rest = place.partition(".")
    plain = name.removesuffix("[]")
    if not rest:
        body[plain] = [value] if plain != name else value
        if plain == "paymentMethodId":
            body["type"] = "payment_method_id"
    elif plain != name:
        body[plain] = [{}] if not body.get(plain) else body[plain]
        _put(body[plain][0], rest, value)
    else:
        body[plain] = body.get(plain) or {}
        _put(body[plain], rest, value)
