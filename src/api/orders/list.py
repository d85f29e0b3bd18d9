"""GET /v2/payment-orders: a page of the merchant's orders.

The query accepts both families of names (contract N50 and N53 to N56). Answer a value that is not understood with a
400, never with a default: a filter that silently does nothing shows a merchant other orders than it asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time
from decimal import Decimal
from typing import Final

from api.decoding.field_errors import FieldErrors
from api.decoding.query import (
    PLACE_PARAMETERS,
    described_parameters,
    parse_choices,
    parse_flag,
    parse_parameters,
    parse_text,
    refuse_cursor_of_another_list,
)
from api.decoding.types import NUMBER_MAX, TEXT_MAX
from api.errors import conflicting, invalid
from api.fields.as_of import LIST_PARAMETER, parse_as_of, parse_list_place, refuse_future
from api.fields.values import LAST_MOMENT, day_or_moment, with_plus_sign
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, Json, OperationSpec, codes_of
from api.orders.responses import merchant_now
from api.response import ApiResponse
from ledger.domain.money import parse_amount
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import MethodType
from projections.as_of.points import page_with_place
from projections.lists.cursor import CURSORS
from projections.lists.pages import OrderPage, OrderQuery

_DATE: Final[Json] = {
    "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}],
    "examples": ["2026-01-31"],
}
_CURRENCIES: Final = ("MXN", "USD")
_AMOUNT: Final[Json] = {"type": "number", "minimum": 0, "maximum": NUMBER_MAX}
_LAST4: Final = re.compile("[0-9]{4}", re.ASCII)

PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "status": (
        "One or more statuses, separated by commas.",
        {"type": "array", "items": {"$ref": "#/components/schemas/OrderStatus"}, "minItems": 1},
    ),
    "customerId": (
        "Orders of this customer, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "includeRelatedCustomers": (
        "`true`: also the orders of the customers that `sourceId` relates to this customer.",
        {"type": "boolean", "default": False},
    ),
    "excludeOverdue": (
        "`true`: only orders without a due date or with a due date in the future.",
        {"type": "boolean", "default": False},
    ),
    "search": (
        (
            "Part of the customer's e-mail, order number, invoice number or external id, spaces included; upper and lower case "
            "are equal."
        ),
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    "externalId": (
        "The order with this external id, if the other filters let it pass.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "email": (
        "Orders of the customers with this e-mail address, in any case.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "currency": ("Orders in this currency.", {"type": "string", "enum": list(_CURRENCIES)}),
    "amountMin": ("Orders of this amount or more, surcharge included, in minor units.", _AMOUNT),
    "amountMax": ("Orders of this amount or less, surcharge included, in minor units.", _AMOUNT),
    "paymentMethodType": (
        "Orders with a payment by one of these methods, separated by commas; CIE_CASH_NET has the payments at Paycash too.",
        {"type": "array", "items": {"type": "string", "enum": list(MethodType)}, "minItems": 1},
    ),
    "last4": (
        "Orders with a payment by a card that ends with these four digits.",
        {"type": "string", "pattern": "^[0-9]{4}$"},
    ),
    "dateFrom": (
        "Orders created at this time or later. A date alone is the start of that day in the merchant's time zone.",
        _DATE,
    ),
    "dateTo": ("Orders created up to this time, inclusive. A date alone includes that whole day.", _DATE),
    "startDate": ("Alias of dateFrom.", _DATE),
    "endDate": ("Alias of dateTo.", _DATE),
    **LIST_PARAMETER,
    **PLACE_PARAMETERS,
    "sortField": ("`createdAt`.", {"type": "string", "enum": ["createdAt"], "default": "createdAt"}),
    "sortOrder": ("`desc` (default) or `asc`.", {"type": "string", "enum": ["desc", "asc"], "default": "desc"}),
}
"""The query of the order list: what a parameter means, and its schema. All but `status` and `paymentMethodType` may be
given once.
"""


def parse_order_query(query: bytes, now: datetime) -> OrderQuery:
    """Returns the list that a query string asks for. `now` is aware, in the merchant's time zone. Raises ApiError
    (400), with every wrong parameter.
    """
    given, errors = _parameters(query)
    as_of = errors.check(parse_as_of, given, now)
    place = errors.check(parse_list_place, given, as_of, CURSORS.parse)
    if given.get("sortField", "createdAt").lower() != "createdat":
        errors.add(invalid("sortField", "must be createdAt"))
    order = given.get("sortOrder", "desc").lower()
    if order not in ("asc", "desc"):
        errors.add(invalid("sortOrder", "must be asc or desc"))
    cursor = None if place is None else place.cursor
    if "sortOrder" in given and cursor is not None and cursor.ascending != (order == "asc"):
        errors.add(invalid("cursor", "must be the nextCursor of another page with the same sortOrder"))
    statuses = errors.check(parse_choices, given, "status", OrderStatus)
    customer, search, external_id, email = [
        errors.check(parse_text, given, name) for name in ("customerId", "search", "externalId", "email")
    ]
    methods = errors.check(parse_choices, given, "paymentMethodType", MethodType)
    currency, last4 = errors.check(_currency, given), errors.check(_last4, given)
    amount_min, amount_max = [errors.check(_amount, given, name) for name in ("amountMin", "amountMax")]
    if amount_min is not None and amount_max is not None and amount_min > amount_max:
        errors.add(invalid("amountMax", "must not be less than amountMin", "OUT_OF_RANGE"))
    related, exclude_overdue = [
        errors.check(parse_flag, given, name) for name in ("includeRelatedCustomers", "excludeOverdue")
    ]
    created_from = errors.check(_date, given, ("dateFrom", "startDate"), now, time.min)
    created_to = errors.check(_date, given, ("dateTo", "endDate"), now, LAST_MOMENT)
    if created_from is not None and created_to is not None and created_from > created_to:
        errors.add(invalid("dateTo", "must not be before dateFrom", "OUT_OF_RANGE"))
    if as_of is not None and search is not None:
        errors.add(conflicting("search", "asOf", "cannot be sent together: a search reads the present"))
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = OrderQuery(
        statuses=statuses or (),
        customer=customer,
        related=bool(related),
        exclude_overdue=bool(exclude_overdue),
        search=search,
        external_id=external_id,
        email=email,
        currency=currency,
        amount_min=amount_min,
        amount_max=amount_max,
        methods=methods or (),
        last4=last4,
        created_from=created_from,
        created_to=created_to,
        ascending=order == "asc",
        limit=place.limit,
        offset=place.offset,
        cursor=place.cursor,
        as_of=as_of,
    )
    refuse_cursor_of_another_list(asked)
    return asked


def _parameters(query: bytes) -> tuple[Mapping[str, str], FieldErrors]:
    return parse_parameters(query, PARAMETERS, lists=("status", "paymentMethodType"))


def _currency(given: Mapping[str, str]) -> str | None:
    text = given.get("currency")
    if text is not None and text.upper() not in _CURRENCIES:
        raise invalid("currency", f"must be {' or '.join(_CURRENCIES)}")
    return None if text is None else text.upper()


def _last4(given: Mapping[str, str]) -> str | None:
    text = given.get("last4")
    if text is not None and not _LAST4.fullmatch(text):
        raise invalid("last4", "must be the last four digits of a card", "INVALID_FORMAT")
    return text


def _amount(given: Mapping[str, str], name: str) -> Decimal | None:
    """Returns an amount in minor units, None if it is absent. Raises ApiError (400)."""
    text = given.get(name)
    if text is None:
        return None
    value = parse_amount(text)
    if value is None:
        raise invalid(name, f"must be a number from 0 to {NUMBER_MAX} with at most 4 decimals", "OUT_OF_RANGE")
    return value


def _date(given: Mapping[str, str], names: tuple[str, str], now: datetime, at: time) -> datetime | None:
    """Returns an inclusive end of the date range; a day without a time is that day in the merchant's zone (contract
    N21).
    """
    name, alias = names
    text, other = given.get(name), given.get(alias)
    if text is not None and other is not None and text != other:
        raise conflicting(name, alias)
    text = text or other
    if text is None:
        return None
    return day_or_moment(with_plus_sign(text), name, now, at)


async def list_orders(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders: a page of the merchant's orders, without their payments, now or as of a time."""
    now = merchant_now(deps, request)
    query, merchant_id = parse_order_query(request.query, now), request.principal.merchant_id
    if query.as_of is not None:
        await refuse_future(deps, merchant_id, query.as_of)
        return ApiResponse(200, await deps.past_orders.page(merchant_id, query))
    return ApiResponse(200, await deps.queries.orders(merchant_id, query, now))


LIST_ORDERS: Final = ScopedOperation(
    list_orders,
    READ,
    OperationSpec(
        name="listPaymentOrders",
        summary="List payment orders",
        description="""
A page of the merchant's orders, without their payments, and the number of all orders; with `asOf` as they were at that
time. `search` reads the present alone. A list of the past by what events change, such as the status, folds the orders
that have changed since; where more than 50,000 would have to be folded, it is 422 `REPORT_TOO_LARGE`.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of orders.", page_with_place(OrderPage, "OrderAsOfPage"))},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 422: ("REPORT_TOO_LARGE",)}),
    ),
)
