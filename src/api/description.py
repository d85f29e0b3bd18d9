"""The OpenAPI document, made from the routes.

The service answers exactly the routes that the document describes. A test fails for a route without a description.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.routing import Route

from api.decoding.field_warnings import FieldWarning
from api.http.endpoint import Endpoint
from api.http.error_responses import Conflict, Error, TooManyRequests, Unavailable
from api.openapi import components, examples
from api.openapi.error_descriptions import words
from api.openapi.links import LINKS, REFUND_LINKS
from api.openapi.parameters import ANSWER_HEADERS, RATE, REQUEST_HEADERS
from api.operation import (
    DECLINES,
    MERCHANT,
    PAYMENT_METHODS,
    PLANS,
    PRODUCTS,
    SANDBOX,
    SUBSCRIPTIONS,
    OperationSpec,
)
from api.orders.responses import Declined
from api.system.health import PROBES
from api.system.processor_messages import KEEP_MESSAGE, ProcessorMessages
from projections.orders.documents import OrderDocument

Json = dict[str, Any]

_VERSION: Final = "1.0.0"  # of the whole interface; the addresses of orders begin with v2
_JSON: Final = "application/json"
_ORDERS, _CUSTOMERS, _SERVICE = "Payment orders", "Customers", "Service"
_RATED: Final = frozenset({200, 201, 400, 404, 409, 422, 429})  # statuses with RateLimit headers
_IGNORED: Final = "Ledger-Ignored-Fields"

_WARNINGS: Final = {
    "type": "array",
    "items": components.reference(FieldWarning),
    "description": "Only in the answer to a request with a body, and only if there are any: fields that were accepted and "
    "probably mean something else than their author expects.",
}

_REPEATED: Final = frozenset({404, 409, 422})  # statuses that are answered again under the same Idempotency-Key

_ABOUT: Final = """
Payment orders: create them, collect their payments, and follow their progress. Customers: who pays them.

Begin with **Authorize** and an API key of the sandbox. Then open **Payment orders**, `POST /v2/payment-orders`, and
choose one of its examples: by card, by SPEI transfer, in cash, with 3-D Secure, or split into parts. All of them work
as they are.
Every request needs an API key in the header `x-api-key`. In the sandbox no money moves, and card 4242424242424242 is
approved.

Amounts of orders are JSON numbers in minor units (centavos, cents); amounts of payments are decimal strings in the same
unit. Times are UTC, as in `2026-01-31T12:00:00.000Z`. A misspelt field, such as `capture_method` for `captureMethod`,
is 400 `UNKNOWN_FIELD`. Any other unknown one is ignored and named in the answer's `warnings` and in its header
`Ledger-Ignored-Fields`, except in a product, which keeps it; it is 400 if the merchant's `unknownFields` is REJECT. Any
unknown parameter of a query is 400 `UNKNOWN_PARAMETER`. `null` is the same as absent, except in the details of a
customer, of a product and of a plan and in billing details, where it clears them.

Texts for payers, such as `payerMessage`, are in Spanish or English: by the header `Accept-Language`, else in the
language of the customer's notification preferences.

Every answer other than a 2xx has the same shape; match on its `code`, and see [every code](/docs/errors). HEAD works
wherever GET does. Another method is answered with 405 and `Allow`, an address without an operation with 404 `NOT_FOUND`.
"""


def describe(routes: Iterable[Route]) -> Json:
    """Returns the interface as an OpenAPI 3.1 document. Payer pages, `/docs` and `/openapi.json` are left out."""
    paths: dict[str, Json] = {}
    used: list[OperationSpec] = []
    for route in routes:
        for method, spec, has_key in _operations(route):
            paths.setdefault(route.path, {})[method] = _operation(spec, has_key=has_key)
            used.append(spec)
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
            {"name": _ORDERS, "description": "Create, read, charge, capture, refund and cancel payment orders."},
            {"name": _CUSTOMERS, "description": "Create, read, change and erase customers."},
            {
                "name": PRODUCTS,
                "description": "Import products and read them. These operations need the API key alone.",
            },
            {"name": PLANS, "description": "Create, read, change and archive what subscriptions are charged."},
            {
                "name": SUBSCRIPTIONS,
                "description": "Charge a customer's saved card period by period. Each charge is a payment order.",
            },
            {
                "name": MERCHANT,
                "description": "API keys and settings of the merchant, and what a client should know of the service.",
            },
            {
                "name": PAYMENT_METHODS,
                "description": "Read, update and delete the cards that payments have saved for a customer.",
            },
            {
                "name": SANDBOX,
                "description": "Act as the payer, the bank, the acquirer and the clock. These operations do not "
                "exist in production.",
            },
            {"name": _SERVICE, "description": "Health and metrics of the service, and reports of payment processors."},
        ],
        "paths": paths,
        "components": _components(used),
    }


def statuses(routes: Iterable[Route]) -> Mapping[str, Collection[int]]:
    """Returns the statuses of every error code, of addresses without an operation and of broken requests too."""
    found: dict[str, set[int]] = {"NOT_FOUND": {404}, "METHOD_NOT_ALLOWED": {405}, "BAD_REQUEST": {400}}
    for route in routes:
        for _, spec, _ in _operations(route):
            for status, codes in spec.codes.items():
                for code in codes:
                    found.setdefault(code, set()).add(status)
    return found


def as_json(description: Json) -> str:
    """Returns the document as text for docs/reference, indented so that its differences can be read."""
    return json.dumps(description, ensure_ascii=False, indent=2) + "\n"


def _operations(route: Route) -> Iterator[tuple[str, OperationSpec, bool]]:
    """Yields the operations of a route: method, description, whether it needs a key."""
    if isinstance(route.endpoint, Endpoint):
        for method, operation in route.endpoint.operations.items():
            yield method.lower(), operation.spec, True
    elif isinstance(route.endpoint, ProcessorMessages):
        yield "post", KEEP_MESSAGE, False
    elif route.path in PROBES:
        yield "get", PROBES[route.path], False


def _operation(spec: OperationSpec, *, has_key: bool) -> Json:
    operation: Json = {
        "operationId": spec.name,
        "tags": [spec.tag if has_key else _SERVICE],
        "summary": spec.summary,
        "description": inspect.cleandoc(spec.description),
        "parameters": [*spec.parameters, *_header_parameters(has_key=has_key)],
        "responses": _answers(spec, has_key=has_key),
    }
    if spec.takes is not None:
        content = {"schema": components.reference(spec.takes), "examples": dict(spec.examples)}
        operation["requestBody"] = {"required": not spec.optional, "content": {_JSON: content}}
    if not has_key:
        operation["security"] = []
    return operation


def _header_parameters(*, has_key: bool) -> list[Json]:
    names = list(REQUEST_HEADERS) if has_key else ["RequestId"]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _answers(spec: OperationSpec, *, has_key: bool) -> Json:
    answers: Json = {}
    replayed = ["Idempotent-Replayed"] if spec.replays else []
    for status, (meaning, struct) in spec.answers.items():
        rate = [*RATE, _IGNORED] if has_key else []
        answers[str(status)] = _answer(meaning, components.reference(struct), ["x-request-id", *rate, *replayed])
        if issubclass(struct, OrderDocument) and spec.takes is not None:
            answers[str(status)]["links"] = _links(LINKS if struct is OrderDocument else {**LINKS, **REFUND_LINKS})
    for media in spec.texts:
        answers["200"]["content"][media] = {"schema": {"type": "string"}}
    if spec.text is not None:
        answers["200"] = _answer(spec.text, {"type": "string"}, ["x-request-id"], "text/plain")
    for status, codes in spec.codes.items():
        answers[str(status)] = _error(status, codes, has_key=has_key, has_order=spec.has_order)
        if "REQUEST_IN_PROGRESS" in codes:
            answers[str(status)]["headers"] |= {"Retry-After": ANSWER_HEADERS["Retry-After"] | {"required": False}}
        if status in _REPEATED:
            answers[str(status)]["headers"] |= _headers(replayed)
    return dict(sorted(answers.items()))


def _error(status: int, codes: tuple[str, ...], *, has_key: bool, has_order: bool) -> Json:
    """Returns an error answer: which codes it may have, and when."""
    meaning = "\n".join(f"- `{code}`: {words(code, status)}" for code in codes)
    rate = [*RATE, *([_IGNORED] if status != 429 else [])] if has_key and status in _RATED else []
    retry = ["Retry-After"] if status in (429, 503) else []
    answer = _answer(meaning, _error_schema(status, codes, has_order=has_order), ["x-request-id", *rate, *retry])
    if errors := {code: examples.error(code) for code in codes if code in examples.MESSAGES}:
        answer["content"][_JSON]["examples"] = errors
    return answer


def _error_schema(status: int, codes: tuple[str, ...], *, has_order: bool) -> Json:
    plain = tuple(code for code in codes if not has_order or code not in DECLINES)
    struct: Any = {
        429: TooManyRequests,
        409: Conflict,
        422: Conflict,
        503: Unavailable if "PROCESSOR_UNAVAILABLE" in codes else Error,
    }.get(status, Error)
    schema = _with_codes(components.reference(struct), plain)
    declined = tuple(code for code in codes if code not in plain)
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
    """Returns references to links, since many answers have the same ones."""
    return {name: {"$ref": f"#/components/links/{name}"} for name in names}


def _warns(spec: OperationSpec) -> bool:
    """Returns whether the answers of an operation may have warnings: merchants' requests with a body, and no message of
    a processor.
    """
    return spec.takes is not None and spec is not KEEP_MESSAGE


def _components(used: Iterable[OperationSpec]) -> Json:
    structs: list[Any] = [
        Error,
        Conflict,
        TooManyRequests,
        Unavailable,
        Declined,
        FieldWarning,
    ]
    for spec in used:
        structs += [struct for _, struct in spec.answers.values()]
        structs += [] if spec.takes is None else [spec.takes]
    warned = [struct for spec in used if _warns(spec) for _, struct in spec.answers.values()]
    schemas = components.schemas(list(dict.fromkeys(structs)))
    components.add_member(schemas, [Declined, *warned], "warnings", _WARNINGS)
    parameters: Mapping[str, Json] = REQUEST_HEADERS
    return {
        "schemas": schemas,
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
