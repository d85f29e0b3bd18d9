"""GET /v1/invoices/month-end: a month's electronic invoices for the accountant, as JSON, CSV or a page.

`ledger merchants month-end` prints the same report.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from api.decoding.media_types import CSV, HEADERS, HTML, JSON, OF_A_PAGE, preferred_type
from api.decoding.query import Parameters, described_parameters, parse_parameters
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, Headers, json_response
from ledger.domain.money import shortest
from ledger.operations.orders.invoices.policy import time_zone_of_documents
from ledger.security.api_keys import Scope
from projections.formats import Amount
from projections.global_invoices import MOVEMENTS_MAX, MovementType
from projections.orders.missing_documents import DOCUMENTS_MAX, MissingDocument
from projections.orders.month_end import MonthLine, as_csv, as_page

_MONTH: Final = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)


class MonthEndLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The documents of one kind, state and currency."""

    kind: Annotated[
        str,
        Meta(description="INVOICE_GLOBAL, INVOICE_PUE, INVOICE_PPD, REP or CREDIT_NOTE.", examples=["INVOICE_PPD"]),
    ]
    state: Annotated[str, Meta(description="PENDING, EMITTED, FAILED or CANCELLED, at present.", examples=["EMITTED"])]
    currency: Annotated[str, Meta(description="The currency of the documents.", examples=["MXN"])]
    documents: Annotated[int, Meta(description="How many there are.")]
    total: Annotated[
        Amount, Meta(description="The sum of the totals, of a REP what it pays of its invoice, in minor units (cents).")
    ]
    iva: Annotated[Amount, Meta(description="The transferred IVA, in minor units (cents).")]
    ieps: Annotated[Amount, Meta(description="The transferred IEPS, in minor units (cents).")]
    iva_withheld: Annotated[Amount, Meta(description="The withheld IVA, in minor units (cents).")]
    isr_withheld: Annotated[Amount, Meta(description="The withheld ISR, in minor units (cents).")]


class MissingDocumentLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document that is not stamped."""

    order_id: Annotated[UUID, Meta(description="The service's id of the order. Stamp it to try again.")]
    document_id: Annotated[UUID, Meta(description="The id of the document among the order's.")]
    kind: Annotated[str, Meta(description="INVOICE_PUE, INVOICE_PPD, REP or CREDIT_NOTE.", examples=["CREDIT_NOTE"])]
    state: Annotated[
        str, Meta(description="PENDING, or FAILED: it was refused or cannot be drawn up.", examples=["FAILED"])
    ]
    currency: Annotated[str, Meta(description="The currency of the document.", examples=["MXN"])]
    total: Annotated[Amount, Meta(description="The document's total, in minor units (cents).")]
    failure_code: Annotated[
        str | None, Meta(description="Why it failed: the provider's code, or that of missing data.")
    ]
    failure_reason: Annotated[str | None, Meta(description="The provider's own words, or what is missing.")]


class MovementAfterGlobal(Struct, frozen=True, kw_only=True, rename="camel"):
    """Money of an order after a global invoice stated the order. It has no document."""

    type: Annotated[
        MovementType,
        Meta(description="PAYMENT and REFUND_REVERSED were received; REFUND and CHARGEBACK were given back."),
    ]
    order_id: Annotated[UUID, Meta(description="The service's id of the order.")]
    global_invoice_id: Annotated[UUID, Meta(description="The global invoice that states it.")]
    amount: Annotated[Amount, Meta(description="The amount with surcharge, in minor units (cents).")]


class MonthEnd(Struct, frozen=True, kw_only=True, rename="camel"):
    """A month's electronic invoices."""

    month: Annotated[str, Meta(description="The month.", examples=["2026-11"])]
    time_zone: Annotated[
        str, Meta(description="The time zone of the issuer's postal code, in which the month begins and ends.")
    ]
    lines: Annotated[list[MonthEndLine], Meta(description="A line for each kind, state and currency, in that order.")]
    missing: Annotated[
        list[MissingDocumentLine], Meta(description="The documents of the month that are not stamped, by order.")
    ]
    movements_after_global: Annotated[
        list[MovementAfterGlobal],
        Meta(description="What orders received or gave back in the month after a global invoice had stated them."),
    ]
    has_more_movements_after_global: Annotated[
        bool, Meta(description=f"Whether there are more than the {MOVEMENTS_MAX} that one report lists at most.")
    ]
    has_more_missing: Annotated[
        bool, Meta(description=f"Whether more are not stamped than the {DOCUMENTS_MAX} that one report lists at most.")
    ]


PARAMETERS: Final[Parameters] = {
    "month": (
        "Required. The month, as 2026-11.",
        {"type": "string", "pattern": f"^{_MONTH.pattern}$", "examples": ["2026-11"]},
    ),
}


def parse_month(query: bytes) -> tuple[int, int]:
    """Returns the year and the month that a query string asks for. Raises ApiError (400)."""
    given, errors = parse_parameters(query, PARAMETERS)
    text = given.get("month")
    found = None if text is None else _MONTH.fullmatch(text)
    if text is None:
        errors.add(required("month"))
    elif found is None and not errors.has("month"):
        errors.add(invalid("month", "must be a month of 2000 to 2099, as 2026-11", "INVALID_FORMAT"))
    errors.refuse()
    assert found is not None, "what is no month was refused"
    return int(found[1]), int(found[2])


async def month_end(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/invoices/month-end: 200 with the report, in the media type that the client prefers."""
    year, month = parse_month(request.query)
    principal = request.principal
    zone = await time_zone_of_documents(deps.ledger, principal.merchant_id, principal.settings.time_zone)
    found = await deps.queries.month_end(principal.merchant_id, year, month, zone)
    name = f"{year}-{month:02}"
    match preferred_type(request.headers.get(b"accept", b""), (JSON, CSV, HTML)):
        case "text/csv":
            file = (b"content-disposition", b'attachment; filename="invoices-%s.csv"' % name.encode())
            return _text(as_csv(found.lines), b"text/csv; charset=utf-8; header=present", (file,))
        case "text/html":
            return _text(as_page(found, f"Electronic invoices {name}"), b"text/html; charset=utf-8", OF_A_PAGE)
        case _:
            report = MonthEnd(
                month=name,
                time_zone=zone,
                lines=[MonthEndLine(**_in_minor_units(line)) for line in found.lines],
                missing=[MissingDocumentLine(**_in_minor_units(each)) for each in found.missing],
                movements_after_global=[
                    MovementAfterGlobal(**asdict(each) | {"amount": shortest(each.amount)}) for each in found.moved
                ],
                has_more_movements_after_global=found.has_more_moved,
                has_more_missing=found.has_more_missing,
            )
            return json_response(200, report, HEADERS)


def _text(content: str, kind: bytes, headers: Headers) -> ApiResponse:
    return ApiResponse(200, content.encode(), (*HEADERS, *headers), (b"content-type", kind))


def _in_minor_units(line: MonthLine | MissingDocument) -> dict[str, Any]:
    """Returns the fields of a line with its amounts in minor units, as in every other answer in JSON."""
    return {name: _minor(value) for name, value in msgspec.structs.asdict(line).items()}


def _minor(value: Any) -> Any:
    return shortest(value * 100) if isinstance(value, Decimal) else value


MONTH_END: Final = ScopedOperation(
    month_end,
    Scope.FISCAL,
    OperationSpec(
        name="getMonthEnd",
        summary="Read a month's electronic invoices",
        description="""
The documents of a month by kind, state and currency, with the sums of their totals and taxes. A document belongs to the
month of its date (SAT's Fecha), which is local to the issuer's postal code; its state is the present one. `missing` names the documents
that are not stamped, also those that could not be drawn up: these belong to the month in which that was noticed.

The header `Accept` chooses JSON, CSV (`text/csv`) or a page (`text/html`). Amounts are in minor units in JSON, and in
pesos or dollars with two decimals in the other two, which people read.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("The month.", MonthEnd)},
        texts=(CSV, HTML),
        codes=ANY,
        tag=TAG,
    ),
)
