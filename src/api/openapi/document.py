"""The description as a whole, made from the routes.

The rule a stranger would break: what is served and what is described is one list of routes. A route that this module does
not know stops the start of the service's tests, not its readers.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.routing import Route

from api.http.endpoint import Endpoint
from api.http.error_responses import Conflict, Error, TooManyRequests
from api.openapi import components, examples
from api.openapi.error_codes import words
from api.openapi.links import LINKS, REFUND_LINKS
from api.openapi.operation import DECLINES, SANDBOX, OperationSpec
from api.openapi.parameters import ANSWER_HEADERS, RATE, REQUEST_HEADERS
from api.orders.responses import Declined
from api.processor_messages import KEEP_MESSAGE, ProcessorMessages
from api.system.health import PROBES
from projections.orders.documents import OrderDocument

Json = dict[str, Any]

_VERSION: Final = "2.0.0"  # of the interface, whose addresses begin with v2
_JSON: Final = "application/json"
_ORDERS, _SERVICE = "Payment orders", "Service"
_RATED: Final = frozenset({200, 201, 400, 404, 409, 422, 429})

_REPEATED: Final = frozenset({404, 409, 422})  # what is answered again under the same Idempotency-Key

_ABOUT: Final = """
Payment orders: ask for money, take it, follow what becomes of it.

Amounts of orders are JSON numbers in minor units (centavos, cents); amounts of payments are decimal strings in the same unit.
Times are UTC, as in `2026-01-31T12:00:00.000Z`. Unknown fields of a body and unknown parameters of a query are ignored.
`null` is the same as absent, except in a customer's details, where it clears them.

Every answer that is not a 2xx has the same shape; match on its `code`. HEAD works wherever GET does. Another method is
answered 405 with `Allow`, an address without an operation 404 `NOT_FOUND`.
"""


def describe(routes: Iterable[Route]) -> Json:
    """The interface as an OpenAPI 3.1 document. Routes that are neither operations nor probes are left out."""
    paths: dict[str, Json] = {}
    used: list[OperationSpec] = []
    for route in routes:
        for method, described, has_key in _operations(route):
            paths.setdefault(route.path, {})[method] = _operation(described, has_key=has_key)
            used.append(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Payment ledger",
            "version": _VERSION,
            "description": _ABOUT.strip(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The service that serves this description."}],
        "security": [{"apiKey": []}],
        "tags": [
            {"name": _ORDERS, "description": "Create, read, charge, refund, cancel."},
            {"name": SANDBOX, "description": "Move the world around the merchant. Not in production."},
            {"name": _SERVICE, "description": "Whether the service is well."},
        ],
        "paths": paths,
        "components": _components(used),
    }


def as_json(description: Json) -> str:
    """The description as it is kept in docs/reference, for people to compare."""
    return json.dumps(description, ensure_ascii=False, indent=2) + "\n"


def _operations(route: Route) -> Iterator[tuple[str, OperationSpec, bool]]:
    """The operations of a route: method, description, whether it needs a key."""
    if isinstance(route.endpoint, Endpoint):
        for method, allowed in route.endpoint.operations.items():
            yield method.lower(), allowed.spec, True
    elif isinstance(route.endpoint, ProcessorMessages):
        yield "post", KEEP_MESSAGE, False
    elif route.path in PROBES:
        yield "get", PROBES[route.path], False


def _operation(described: OperationSpec, *, has_key: bool) -> Json:
    operation: Json = {
        "operationId": described.name,
        "tags": [described.tag if has_key else _SERVICE],
        "summary": described.summary,
        "description": inspect.cleandoc(described.description),
        "parameters": [*described.parameters, *_header_parameters(has_key=has_key)],
        "responses": _answers(described, has_key=has_key),
    }
    if described.takes is not None:
        content = {"schema": components.reference(described.takes), "examples": dict(described.examples)}
        operation["requestBody"] = {"required": not described.optional, "content": {_JSON: content}}
    if not has_key:
        operation["security"] = []
    return operation


def _header_parameters(*, has_key: bool) -> list[Json]:
    names = list(REQUEST_HEADERS) if has_key else ["RequestId"]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _answers(described: OperationSpec, *, has_key: bool) -> Json:
    answers: Json = {}
    replayed = ["Idempotent-Replayed"] if described.replays else []
    for status, (meaning, struct) in described.answers.items():
        rate = list(RATE) if has_key else []
        answers[str(status)] = _answer(meaning, components.reference(struct), ["x-request-id", *rate, *replayed])
        if issubclass(struct, OrderDocument) and described.takes is not None:
            answers[str(status)]["links"] = _links(LINKS if struct is OrderDocument else {**LINKS, **REFUND_LINKS})
    if described.text is not None:
        answers["200"] = _answer(described.text, {"type": "string"}, ["x-request-id"], "text/plain")
    for status, codes in described.codes.items():
        answers[str(status)] = _refusal(status, codes, has_key=has_key)
        if "REQUEST_IN_PROGRESS" in codes:
            answers[str(status)]["headers"] |= {"Retry-After": ANSWER_HEADERS["Retry-After"] | {"required": False}}
        if status in _REPEATED:
            answers[str(status)]["headers"] |= _headers(replayed)
    return dict(sorted(answers.items()))


def _refusal(status: int, codes: tuple[str, ...], *, has_key: bool) -> Json:
    """An answer with an error: which codes it may carry, and when."""
    meaning = "\n".join(f"- `{code}`: {words(code, status)}" for code in codes)
    rate = list(RATE) if has_key and status in _RATED else []
    retry = ["Retry-After"] if status in (429, 503) else []
    answer = _answer(meaning, _error_schema(status, codes), ["x-request-id", *rate, *retry])
    if shown := {code: examples.error(code) for code in codes if code in examples.MESSAGES}:
        answer["content"][_JSON]["examples"] = shown
    return answer


def _error_schema(status: int, codes: tuple[str, ...]) -> Json:
    plain = tuple(code for code in codes if code not in DECLINES)
    struct: Any = {
        429: TooManyRequests,
        409: Conflict,
        422: Conflict,
    }.get(status, Error)
    schema = _with_codes(components.reference(struct), plain)
    declined = tuple(code for code in codes if code in DECLINES)
    if not declined:
        return schema
    return {"oneOf": [_with_codes(components.reference(Declined), declined), schema]}


def _with_codes(schema: Json, codes: tuple[str, ...]) -> Json:
    return {"allOf": [schema, {"properties": {"code": {"enum": list(codes)}}}]}


def _answer(meaning: str, schema: Json, headers: Iterable[str], media: str = _JSON) -> Json:
    return {
        "description": meaning,
        "headers": _headers(headers),
        "content": {media: {"schema": schema}},
    }


def _headers(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _links(names: Iterable[str]) -> Json:
    """What can be done with what was answered: references, since many answers have them."""
    return {name: {"$ref": f"#/components/links/{name}"} for name in names}


def _components(used: Iterable[OperationSpec]) -> Json:
    structs: list[Any] = [
        Error,
        Conflict,
        TooManyRequests,
        Declined,
    ]
    for described in used:
        structs += [struct for _, struct in described.answers.values()]
        structs += [] if described.takes is None else [described.takes]
    parameters: Mapping[str, Json] = REQUEST_HEADERS
    return {
        "schemas": components.schemas(list(dict.fromkeys(structs))),
        "parameters": dict(parameters),
        "headers": dict(ANSWER_HEADERS),
        "links": {**LINKS, **REFUND_LINKS},
        "securitySchemes": {
            "apiKey": {
                "type": "apiKey",
                "in": "header",
                "name": "x-api-key",
                "description": "The merchant's key: `sk_test_…` in the sandbox, `sk_live_…` in production.",
            }
        },
    }
