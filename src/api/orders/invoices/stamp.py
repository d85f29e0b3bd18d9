"""POST /v2/payment-orders/{id}/stamp: stamps an order's documents that are pending or failed (contract N43)."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.stored_text import check_texts
from api.decoding.types import alias_of
from api.fields.people import CustomerFiscalData, fiscal_data
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.orders.invoices.fields import KEYED, TAG, ExchangeRate, exchange_rate
from api.response import REPLAYED, ApiResponse
from ledger.domain.invoices.commands import StampRequest, StampScope
from ledger.operations.context.inputs import StampInput
from ledger.operations.orders.invoices.stamp import stamp_order
from ledger.security.api_keys import Scope
from projections.orders.invoices import StampDocument, render_stamp

_IDS_MAX: Final = 1000


class StampPaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to stamp an order's documents."""

    fiscal_config: Annotated[
        CustomerFiscalData | None,
        Meta(description="The receiver of every document that is not stamped yet. Absent: the order's own."),
    ] = None
    customer_fiscal_data: Annotated[CustomerFiscalData | None, alias_of("fiscalConfig")] = None
    fiscal_data: Annotated[CustomerFiscalData | None, alias_of("fiscalConfig")] = None
    scope: Annotated[StampScope | None, Meta(description="The documents to stamp; default ALL.")] = None
    complement_ids: Annotated[
        Annotated[list[UUID], Meta(min_length=1, max_length=_IDS_MAX)] | None,
        Meta(description="The receipts and credit notes to stamp. Absent: all of the scope."),
    ] = None
    exchange_rate: ExchangeRate = UNSET


_decode: Final = BodyDecoder(StampPaymentOrder)


def parse_stamp(body: bytes) -> StampInput:
    """Returns what a body asks to be stamped. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        names = sent.customer_fiscal_data, sent.fiscal_data, sent.fiscal_config
        fiscal = fiscal_data(*names, errors, place="fiscalConfig")
        rate = errors.check(exchange_rate, sent.exchange_rate)
        check_texts(sent, body, errors)
    errors.refuse()
    request = StampRequest(scope=sent.scope or StampScope.ALL, document_ids=tuple(sent.complement_ids or ()))
    return StampInput(stamp=request, fiscal=fiscal, exchange_rate=rate)


async def stamp(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/stamp: 200 with the documents, stamped, refused or pending."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_stamp(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await stamp_order(deps.ledger, request.actor, reference, parsed, key)
    return ApiResponse(200, render_stamp(result.order), REPLAYED if result.repeated else ())


STAMP: Final = ScopedOperation(
    stamp,
    Scope.FISCAL,
    OperationSpec(
        name="stampPaymentOrder",
        summary="Stamp an order's documents",
        description="""
Stamps the invoice, payment receipts and credit notes that are due and pending or failed, one after another in their
order; documents that are stamped stay as they are. The service does the same by itself, and repeats refused documents
after 5 minutes, 1 hour, 6 hours and 24 hours. Needs no body.

Of an order of one payment that was captured in part, and whose rest was released or has lapsed, it draws up the invoice
of what was captured. The service does not do that by itself: the rest could still be charged.

A document that the stamping provider refuses is FAILED, with the provider's own words in `failureReason`. The payment
receipts after it wait for it; a credit note waits for no other credit note.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=StampPaymentOrder,
        optional=True,
        examples={
            "all": {"summary": "Everything that is due", "value": {}},
            "receiver": {
                "summary": "With the receiver of the invoice",
                "value": {
                    "fiscalConfig": {
                        "taxId": "URE180429TM6",
                        "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
                        "taxSystem": "601",
                        "cfdiUse": "G03",
                        "zipCode": "86991",
                    }
                },
            },
        },
        answers={200: ("The order's documents after the request.", StampDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            {409: ("ORDER_IN_GLOBAL_INVOICE",), 422: ("FISCAL_DATA_INCOMPLETE", "AMOUNT_NOT_STAMPABLE")},
        ),
        tag=TAG,
        replays=True,
    ),
)
