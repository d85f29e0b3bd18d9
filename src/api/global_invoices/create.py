"""POST /v1/invoices/global: makes the global invoice of a period's orders without fiscal data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, json_response
from ledger.domain.orders.invoices.terms import GlobalPeriod, Periodicity
from ledger.operations.global_invoices.create import create_global_invoice
from ledger.operations.global_invoices.due import GlobalStampUnderWay, advance_global_invoice
from ledger.security.api_keys import Scope
from projections.global_invoices import GlobalInvoiceDocument, document_of

_MONTH: Final = re.compile("(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)


class CreateGlobalInvoice(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for a global invoice."""

    month: Annotated[
        str | None,
        Meta(
            description="Required. The month of the period, as 2026-10; of two months the first one.",
            examples=["2026-10"],
            extra_json_schema={"pattern": f"^{_MONTH.pattern}$"},
        ),
    ] = None
    periodicity: Annotated[
        Periodicity | None,
        Meta(description="How long the period is; default MONTHLY. BIMONTHLY is for issuers of the regime 621 alone."),
    ] = None
    first_day: Annotated[
        Annotated[int, Meta(ge=1, le=31)] | None,
        Meta(description="The day of the month on which a DAILY, WEEKLY or FORTNIGHTLY (1 or 16) period begins."),
    ] = None


class CreatedGlobalInvoice(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a request for a global invoice has made."""

    global_invoice: Annotated[
        GlobalInvoiceDocument | None, Meta(description="The global invoice; null where no order is left for one.")
    ]
    has_more: Annotated[bool, Meta(description="Whether more orders are left: send the request again.")]


_decode: Final = BodyDecoder(CreateGlobalInvoice)


def parse_period(body: bytes) -> GlobalPeriod:
    """Returns the period that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    found = None if sent.month is None else _MONTH.fullmatch(sent.month)
    if sent.month is None and not errors.has("month"):
        errors.add(required("month"))
    elif found is None and not errors.has("month"):
        errors.add(invalid("month", "must be a month of 2000 to 2099, as 2026-10", "INVALID_FORMAT"))
    periodicity = sent.periodicity or Periodicity.MONTHLY
    needs_day = periodicity in {Periodicity.DAILY, Periodicity.WEEKLY, Periodicity.FORTNIGHTLY}
    if needs_day and sent.first_day is None and not errors.has("firstDay"):
        errors.add(required("firstDay"))
    errors.refuse()
    assert found is not None, "what is no month was refused"
    return GlobalPeriod(year=int(found[1]), month=int(found[2]), periodicity=periodicity, first_day=sent.first_day or 1)


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/invoices/global: 201 with the new global invoice, 200 where no order is left for one."""
    period = parse_period(await request.body(deps.body_limit))
    merchant_id = request.principal.merchant_id
    for pending in await deps.queries.pending_global_invoices(merchant_id):
        with suppress(GlobalStampUnderWay):
            await advance_global_invoice(deps.ledger, merchant_id, pending)

    async def candidates(begin: datetime, end: datetime, last: Sequence[Any] | None) -> Sequence[tuple[datetime, UUID]]:
        return await deps.queries.global_candidates(
            merchant_id, begin, end, None if last is None else (last[0], last[1])
        )

    invoice, has_more = await create_global_invoice(deps.ledger, request.actor, period, candidates)
    shown = None if invoice is None else document_of(invoice)
    return json_response(200 if shown is None else 201, CreatedGlobalInvoice(global_invoice=shown, has_more=has_more))


CREATE: Final = ScopedOperation(
    create,
    Scope.FISCAL,
    OperationSpec(
        name="createGlobalInvoice",
        summary="Make a global invoice",
        description="""
Invoices the orders of a period that has ended, and that have no fiscal data, to the public in general (XAXX010101000):
one document with a concept for each order, of what it holds. It has the orders in pesos that were paid in full in the
period, in the merchant's time zone, and that have no invoice. They are not invoiced once more: `stamp` and the payer's
page answer that a global invoice states them.

Sent again, it makes another one of the orders that are left, a thousand at most in each: as long as `hasMore` is true.
A document that the provider refuses is FAILED, and its orders are free again. One that cannot be sent stays PENDING,
and the service goes on with it.
""",
        takes=CreateGlobalInvoice,
        examples={
            "month": {"summary": "A month", "value": {"month": "2026-10"}},
            "day": {"summary": "A day", "value": {"month": "2026-10", "periodicity": "DAILY", "firstDay": 31}},
        },
        answers={
            200: ("No order is left for a global invoice.", CreatedGlobalInvoice),
            201: ("The new global invoice.", CreatedGlobalInvoice),
        },
        codes=codes_of(
            ANY, BODY, {409: ("CONCURRENT_UPDATE",), 422: ("FISCAL_DATA_INCOMPLETE",), 503: ("PROCESSOR_UNAVAILABLE",)}
        ),
        tag=TAG,
    ),
)
