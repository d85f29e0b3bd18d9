"""The OpenAPI document, made from the routes.

The service answers exactly the routes that the document describes. A test fails for a route without a description.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.routing import Route

from api.decoding.body_notes import FieldWarning
from api.error_answers import IGNORED, JSON, STRUCTS, ErrorAnswers, answer
from api.http.endpoint import Endpoint
from api.openapi import components
from api.openapi import webhooks as messages
from api.openapi.links import LINKS, REFUND_LINKS
from api.openapi.parameters import ANSWER_HEADERS, RATE, REQUEST_HEADERS
from api.operation import (
    AUDIT,
    EVENTS,
    LOG,
    MERCHANT,
    PAYMENT_METHODS,
    PLANS,
    PROCESSORS,
    PRODUCTS,
    SANDBOX,
    SUBSCRIPTIONS,
    WEBHOOKS,
    OperationSpec,
)
from api.orders.responses import Declined
from api.system.account_messages import KEEP_ACCOUNT_MESSAGE, AccountMessages
from api.system.health import PROBES
from api.system.processor_messages import KEEP_MESSAGE, ProcessorMessages
from projections.orders.documents import OrderDocument

Json = dict[str, Any]

_VERSION: Final = "1.0.0"  # of the whole interface; the addresses of orders begin with v2
_ORDERS, _INVOICES, _CUSTOMERS, _SERVICE = "Payment orders", "Electronic invoices", "Customers", "Service"

_WARNINGS: Final = {
    "type": "array",
    "items": components.reference(FieldWarning),
    "description": "Only in the answer to a request with a body, and only if there are any: fields that were accepted and "
    "probably mean something else than their author expects.",
}

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
unknown parameter of a query is 400 `UNKNOWN_PARAMETER`. `null` is the same as absent, except in a change of an
order or of a webhook endpoint and in the details of a customer, of a product, of a plan and of billing, where it clears them.

Texts for payers, such as `payerMessage`, are in Spanish or English: by the header `Accept-Language`, else in the
language of the customer's notification preferences.

What happens is announced by events, in a feed and to webhook endpoints: [every kind](/docs/events). Every answer other
than a 2xx has the same shape; match on its `code`, and see [every code](/docs/errors). HEAD works wherever GET does. Another method is answered with 405 and `Allow`, an address without an operation with 404 `NOT_FOUND`.
"""


def describe(routes: Iterable[Route]) -> Json:
    """Returns the interface as an OpenAPI 3.1 document. Payer pages, `/docs` and `/openapi.json` are left out."""
    paths: dict[str, Json] = {}
    used: list[OperationSpec] = []
    errors = ErrorAnswers()
    for route in routes:
        for method, spec, has_key in _operations(route):
            paths.setdefault(route.path_format, {})[method] = _operation(spec, errors, has_key=has_key)
            used.append(spec)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Payment ledger",
            "version": _VERSION,
            "description": _ABOUT.strip(),
            "contact": {"name": "The operator of the service"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The service that serves this description."}],
        "security": [{"apiKey": []}],
        "tags": [
            {"name": _ORDERS, "description": "Create, read, charge, capture, refund and cancel payment orders."},
            {
                "name": _INVOICES,
                "description": "Stamp the electronic invoices (CFDI) of orders, download, cancel and count them.",
            },
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
                "name": PROCESSORS,
                "description": "Connect, check and disconnect the merchant's own accounts with payment processors.",
            },
            {"name": EVENTS, "description": "Follow every change, in the order in which the changes happened."},
            {"name": AUDIT, "description": "See what happened, and who caused it, as the log holds it."},
            {
                "name": LOG,
                "description": "Prove what happened: the signed Merkle tree over the merchant's log, and proofs that are "
                "verified without the service.",
            },
            {"name": WEBHOOKS, "description": "Choose where events are posted, and by which secret they are signed."},
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
        "webhooks": messages.webhooks(),
        "components": _components(used, errors),
    }


def statuses(routes: Iterable[Route]) -> Mapping[str, Collection[int]]:
    """Returns the statuses of every error code, of addresses without an operation and of broken requests too."""
    found: dict[str, set[int]] = {
        "NOT_FOUND": {404},
        "METHOD_NOT_ALLOWED": {405},
        "BAD_REQUEST": {400},
        "FILE_MISSING": {503},
    }
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
    elif isinstance(route.endpoint, AccountMessages):
        yield "post", KEEP_ACCOUNT_MESSAGE, False
    elif route.path in PROBES:
        yield "get", PROBES[route.path], False


def _operation(spec: OperationSpec, errors: ErrorAnswers, *, has_key: bool) -> Json:
    operation: Json = {
        "operationId": spec.name,
        "tags": [spec.tag if has_key else _SERVICE],
        "summary": spec.summary,
        "description": inspect.cleandoc(spec.description),
        "parameters": [*filter(components.is_canonical, spec.parameters), *_header_parameters(has_key=has_key)],
        "responses": _answers(spec, errors, has_key=has_key),
    }
    if spec.takes is not None:
        content = {"schema": components.reference(spec.takes), "examples": dict(spec.examples)}
        operation["requestBody"] = {"required": not spec.optional, "content": {JSON: content}}
    if not has_key:
        operation["security"] = []
    return operation


def _header_parameters(*, has_key: bool) -> list[Json]:
    names = list(REQUEST_HEADERS) if has_key else ["RequestId"]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _answers(spec: OperationSpec, errors: ErrorAnswers, *, has_key: bool) -> Json:
    answers: Json = {}
    replayed = ["Idempotent-Replayed"] if spec.replays else []
    for status, (meaning, struct) in spec.answers.items():
        rate = [*RATE, IGNORED] if has_key else []
        answers[str(status)] = answer(meaning, components.reference(struct), ["x-request-id", *rate, *replayed])
        if issubclass(struct, OrderDocument) and spec.takes is not None:
            answers[str(status)]["links"] = _links(LINKS if struct is OrderDocument else {**LINKS, **REFUND_LINKS})
    for media in spec.texts:
        answers["200"]["content"][media] = {"schema": {"type": "string"}}
    if spec.text is not None:
        answers["200"] = answer(spec.text, {"type": "string"}, ["x-request-id"], spec.text_type)
    return dict(sorted((answers | errors.references(spec, has_key=has_key)).items()))


def _links(names: Iterable[str]) -> Json:
    """Returns references to links, since many answers have the same ones."""
    return {name: {"$ref": f"#/components/links/{name}"} for name in names}


def _warns(spec: OperationSpec) -> bool:
    """Returns whether the answers of an operation may have warnings: merchants' requests with a body, and no message of
    a processor.
    """
    return spec.takes is not None and spec is not KEEP_MESSAGE


def _components(used: Iterable[OperationSpec], errors: ErrorAnswers) -> Json:
    answered = [
        *STRUCTS,
        *messages.STRUCTS,
        FieldWarning,
        *(struct for spec in used for _, struct in spec.answers.values()),
    ]
    taken = [spec.takes for spec in used if spec.takes is not None]
    warned = [struct for spec in used if _warns(spec) for _, struct in spec.answers.values()]
    schemas = components.schemas(answered, taken)
    components.add_member(schemas, [Declined, *warned], "warnings", _WARNINGS)
    return {
        "schemas": dict(sorted((schemas | errors.schemas()).items())),
        "responses": errors.responses(),
        "parameters": {**REQUEST_HEADERS, **messages.PARAMETERS},
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
