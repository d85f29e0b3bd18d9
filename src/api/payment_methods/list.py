"""GET /customers/{customerId}/payment-methods: a page of a customer's saved payment methods (contract N52)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs
from uuid import UUID

from api.dependencies import Dependencies
from api.http.endpoint import READ_CUSTOMERS, ScopedOperation
from api.http.errors import conflicting, invalid
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.openapi.operation import ANY, PAYMENT_METHODS, Json, OperationSpec, codes_of
from api.openapi.parameters import OF_CUSTOMER
from ledger.domain.rejections import CustomerNotFound
from ledger.operations.payment_methods.change import find_customer
from projections.payment_methods import SavedPaymentMethodPage

_LIMIT_DEFAULT, _LIMIT_MAX = 20, 100
_WHOLE_MAX: Final = 1_000_000_000
_FIELDS_MAX: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,10}")

PARAMETERS: Final = {
    "limit": (
        f"The number of methods on a page, 1 to {_LIMIT_MAX}; default {_LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_DEFAULT},
    ),
    "offset": (
        "The number of methods to skip. Cannot be combined with page.",
        {"type": "integer", "minimum": 0, "maximum": _WHOLE_MAX, "default": 0},
    ),
    "page": ("The number of the page, from 1.", {"type": "integer", "minimum": 1, "maximum": _WHOLE_MAX}),
}


async def customer_of(deps: Dependencies, request: ApiRequest) -> UUID:
    """Returns the customer in the path. Raises CustomerNotFound, also for an erased one."""
    reference = request.path_id("customerId")
    if reference is None:
        raise CustomerNotFound("The merchant has no customer with this id.")
    return await find_customer(deps.ledger, request.principal.merchant_id, reference)


def parse_page(query: bytes) -> tuple[int, int]:
    """Returns the limit and the offset that a query string asks for (contract N53). Raises ApiError (400)."""
    given = parameters(query)
    if "page" in given and "offset" in given:
        raise conflicting("page", "offset", "cannot be sent together, because each of them sets where the page begins")
    limit = _whole(given, "limit", _LIMIT_DEFAULT, 1, _LIMIT_MAX)
    page = _whole(given, "page", 1, 1, _WHOLE_MAX)
    return limit, _whole(given, "offset", (page - 1) * limit, 0, _WHOLE_MAX)


def parameters(query: bytes) -> dict[str, str]:
    """Returns each parameter once; a parameter without a value counts as absent. Raises ApiError (400)."""
    try:
        lists = parse_qs(query.decode("ascii"), errors="strict", max_num_fields=_FIELDS_MAX)
    except UnicodeError:
        raise invalid("query", "must be percent-encoded UTF-8", "INVALID_ENCODING") from None
    except ValueError:
        raise invalid("query", f"must have at most {_FIELDS_MAX} parameters", "INVALID_LENGTH") from None
    for name, values in lists.items():
        if len(set(values)) > 1 and name in {*PARAMETERS, "force"}:
            raise invalid(name, "was sent twice with different values", "CONFLICTING_FIELDS")
    return {name: values[0] for name, values in lists.items()}


def _whole(given: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise invalid(name, f"must be a whole number from {least} to {most}", "OUT_OF_RANGE")
    return int(text)


async def list_methods(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers/{customerId}/payment-methods: the default first, then the newest."""
    limit, offset = parse_page(request.query)
    customer_id = await customer_of(deps, request)
    merchant_id = request.principal.merchant_id
    return ApiResponse(200, await deps.queries.payment_methods(merchant_id, customer_id, limit, offset))


def _described(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "allowEmptyValue": True, "schema": schema}


LIST_METHODS: Final = ScopedOperation(
    list_methods,
    READ_CUSTOMERS,
    OperationSpec(
        name="listPaymentMethods",
        summary="List a customer's payment methods",
        description="A page of the customer's saved payment methods without deleted ones: the default first, then "
        "the newest.",
        parameters=(OF_CUSTOMER, *(_described(name, *about) for name, about in PARAMETERS.items())),
        answers={200: ("A page of payment methods.", SavedPaymentMethodPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 404: ("CUSTOMER_NOT_FOUND",)}),
        tag=PAYMENT_METHODS,
    ),
)
