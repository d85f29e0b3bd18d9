"""GET …/events of an order, a customer or a subscription: what happened, event by event, as JSON or as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from api import operation
from api.decoding.media_types import HEADERS, HTML, JSON, OF_A_PAGE, preferred_type
from api.decoding.query import Parameters, described_parameters, parse_parameters, parse_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import CUSTOMER_ID, ORDER_ID, SUBSCRIPTION_ID
from api.operation import ANY, Json, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.streams import CUSTOMERS, ORDERS, SUBSCRIPTIONS, Stream
from projections.histories.documents import HistoryPage, page_of, state_document
from projections.histories.pages import history_page
from projections.histories.sentences import currency_of
from projections.histories.steps import History, Step

_LIMIT_MAX: Final = 100
_VERSION_MAX: Final = 2**31 - 1

PARAMETERS: Final[Parameters] = {
    "afterVersion": (
        "Events with a higher version than this. The `lastVersion` of the page before; 0 for the first one.",
        {"type": "integer", "minimum": 0, "maximum": _VERSION_MAX, "default": 0},
    ),
    "limit": (
        f"The number of events on a page, 1 to {_LIMIT_MAX}; default {_LIMIT_MAX}.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_MAX},
    ),
}


class _Asked(Struct, frozen=True):
    after_version: int
    limit: int


def parse_history_query(query: bytes) -> _Asked:
    """Returns the page that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS)
    after = errors.check(parse_whole, given, "afterVersion", 0, 0, _VERSION_MAX)
    limit = errors.check(parse_whole, given, "limit", _LIMIT_MAX, 1, _LIMIT_MAX)
    errors.refuse()
    return _Asked(after or 0, limit or _LIMIT_MAX)


async def history_of(deps: Dependencies, request: ApiRequest, stream: Stream[Any]) -> History:
    """Returns the history of the resource in the path. Raises the stream's rejection if there is none."""
    reference = request.path_id("id")
    found = None if reference is None else await deps.histories.find(request.principal.merchant_id, stream, reference)
    if found is None:
        raise stream.missing()
    return found


def title_of(state: Any) -> str:
    """Returns the name of a resource, as a heading."""
    match state:
        case Order():
            return f"Payment order {state.terms.order_number}"
        case Customer():
            return f"Customer {state.external_id}"
        case _:
            return f"Subscription {state.external_id or state.subscription_id}"


async def _history(deps: Dependencies, request: ApiRequest, stream: Stream[Any]) -> ApiResponse:
    asked = parse_history_query(request.query)
    history = await history_of(deps, request, stream)
    part = await deps.histories.page(history, asked.after_version, asked.limit)
    tree = await deps.trees.place(request.principal.merchant_id)
    sealed_to = 0 if tree.checkpoint is None else tree.size
    names = await _key_names(deps, request, part.steps)
    page = page_of(part.steps, asked.after_version, asked.limit, history.length, names, sealed_to)
    if preferred_type(request.headers.get(b"accept", b""), (JSON, HTML)) == JSON:
        return json_response(200, page, HEADERS)
    state = part.state
    content = history_page(
        f"{title_of(state)}: events",
        page.data,
        page.pagination,
        None if part.before is None else state_document(part.before),
        None if isinstance(state, Customer) else currency_of(state),
        request.principal.zone,
    )
    return ApiResponse(200, content.encode(), (*HEADERS, *OF_A_PAGE), (b"content-type", b"text/html; charset=utf-8"))


async def _key_names(deps: Dependencies, request: ApiRequest, steps: Sequence[Step]) -> Mapping[UUID, str | None]:
    """Returns the names of the merchant's API keys, nothing if no event was caused by one."""
    if not any("actor" in step.context for step in steps):
        return {}
    return {key.key_id: key.name for key in await deps.queries.api_keys(request.principal.merchant_id)}


async def list_order_events(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/events: what happened to the order, oldest first."""
    return await _history(deps, request, ORDERS)


async def list_customer_events(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers/{id}/events: what happened to the customer, oldest first."""
    return await _history(deps, request, CUSTOMERS)


async def list_subscription_events(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions/{id}/events: what happened to the subscription, oldest first."""
    return await _history(deps, request, SUBSCRIPTIONS)


def _spec(name: str, noun: str, path: Json, code: str, more: str = "") -> OperationSpec:
    return OperationSpec(
        name=name,
        summary=f"List what happened to a {noun}",
        description=f"""
Every event of the {noun} as the log holds it, oldest first: what happened in a sentence, who caused it, and the status
and the money after it.{more} The header `Accept` chooses JSON or a page (`text/html`), which people read and print, with
amounts in major units. `GET /v1/events` has the public events, which programs follow.
""",
        parameters=(path, *described_parameters(PARAMETERS)),
        answers={200: ("A page of events.", HistoryPage)},
        texts=(HTML,),
        codes=codes_of(ANY, {404: (code,)}),
        tag=operation.AUDIT,
    )


_ERASED: Final = " An erased customer has its events still, without the person."
_UNBEGUN: Final = " A subscription whose first charge failed has its events too, although no other read shows it."

LIST_ORDER_EVENTS: Final = ScopedOperation(
    list_order_events,
    AUDIT,
    _spec("listPaymentOrderEvents", "payment order", ORDER_ID, "ORDER_NOT_FOUND"),
)
LIST_CUSTOMER_EVENTS: Final = ScopedOperation(
    list_customer_events,
    AUDIT,
    _spec("listCustomerEvents", "customer", CUSTOMER_ID, "CUSTOMER_NOT_FOUND", _ERASED),
)
LIST_SUBSCRIPTION_EVENTS: Final = ScopedOperation(
    list_subscription_events,
    AUDIT,
    _spec("listSubscriptionEvents", "subscription", SUBSCRIPTION_ID, "SUBSCRIPTION_NOT_FOUND", _UNBEGUN),
)
