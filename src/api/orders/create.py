"""POST /v2/payment-orders: creates an order, and pays it at once where a payment method is given."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_each_text, check_stored_text
from api.decoding.types import INVOICE_NUMBER_MAX, NUMBER_MAX, DayOrMoment, Id, LongText, Metadata
from api.errors import ApiError, invalid, required
from api.fields.line_items import NO_PRODUCTS, LineItems, Products, check_lines, line_items, product_ids
from api.fields.payment_method import (
    PaymentMethod,
    check_payment_method,
    payment_method,
    right_method,
    sent_pan,
    stored_part,
)
from api.fields.people import (
    BillingAddress,
    Customer,
    CustomerFiscalData,
    DeviceInformation,
    billing_address,
    billing_address_required,
    check_customer,
    check_fiscal_data,
    customer_input,
    fiscal_data,
)
from api.fields.values import (
    LAST_MOMENT,
    day_or_moment,
    metadata,
    one_of_aliases,
    positive_amount,
    printable,
    require_whole,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.orders.invoices.fields import ExchangeRate, exchange_rate
from api.orders.responses import merchant_now, order_response
from api.response import ApiResponse
from ledger.domain.orders.terms import DUE_DATE_MAX, DUE_DATE_MIN, CaptureMethod, OrderTerms
from ledger.operations.context.inputs import OrderInput
from ledger.operations.orders.create import create_order
from projections.orders.documents import OrderDocument


class CreatePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to create a payment order."""

    amount: Annotated[
        Raw,
        Meta(
            description="Subtotal in minor units (cents), above 0; up to four decimals.",
            examples=[150000],
            extra_json_schema={"type": "number", "exclusiveMinimum": 0, "maximum": NUMBER_MAX},
        ),
    ]
    currency: Annotated[Literal["MXN", "USD"], Meta(description="ISO 4217 currency code.")]
    external_id: Annotated[
        Id | None, Meta(description="Required. The merchant's id of the order and its idempotency key.")
    ] = None
    external_merchant_reference: Annotated[Id | None, Meta(description="Alias of externalId.")] = None
    customer: Annotated[Customer | None, Meta(description="Required. The customer who pays.")] = None
    customer_id: Annotated[Id | None, Meta(description="Alias of customer.id.")] = None
    payment_method: Annotated[PaymentMethod | None, Meta(description="Required unless pending is true.")] = None
    pending: Annotated[bool | None, Meta(description="True creates the order without a payment; it is paid later.")] = (
        None
    )
    allow_partials: Annotated[
        bool | None, Meta(description="True allows several payments for the order. Takes effect only with pending.")
    ] = None
    capture_method: Annotated[
        Literal["AUTOMATIC", "MANUAL"] | None, Meta(description="When a card is captured; default AUTOMATIC.")
    ] = None
    description: Annotated[LongText | None, Meta(description="Free text.")] = None
    invoice_number: Annotated[
        Annotated[str, Meta(max_length=INVOICE_NUMBER_MAX)] | None,
        Meta(description="Shown to the customer instead of orderNumber."),
    ] = None
    billing_address: Annotated[BillingAddress | None, Meta(description="Required with a card.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, stored as it was sent.")] = UNSET
    due_date: Annotated[
        DayOrMoment | None,
        Meta(
            description="The due date, for reminders. A date is the end of that day, and a time without an offset is, in "
            "the merchant's time zone.",
            examples=["2026-01-31", "2026-01-31T12:00:00-06:00"],
        ),
    ] = None
    virtual_terminal: Annotated[bool | None, Meta(description="True skips 3-D Secure.")] = None
    is_virtual_terminal: Annotated[bool | None, Meta(description="Alias of virtualTerminal.")] = None
    customer_fiscal_data: Annotated[CustomerFiscalData | None, Meta(description="The receiver of the invoice.")] = None
    fiscal_data: Annotated[CustomerFiscalData | None, Meta(description="Alias of customerFiscalData.")] = None
    fiscal_config: Annotated[CustomerFiscalData | None, Meta(description="Alias of customerFiscalData.")] = None
    line_items: Annotated[
        LineItems | None, Meta(description="The goods or services that are sold: the lines of the invoice.")
    ] = None
    items: Annotated[LineItems | None, Meta(description="Alias of lineItems.")] = None
    exchange_rate: ExchangeRate = UNSET


_decode: Final = BodyDecoder(CreatePaymentOrder)


def parse_create(body: bytes, now: datetime) -> OrderInput:
    """Returns the order that a body asks for, without the data of products. `now` is aware, in the merchant's time
    zone. Raises ApiError (400), with every wrong field.
    """
    return _parsed(_decoded(body, now), body, now, NO_PRODUCTS)


def _decoded(body: bytes, now: datetime) -> CreatePaymentOrder:
    try:
        return _decode(body)
    except ApiError as refused:
        raise _decode.refusal(body, refused, lambda sent, errors: _check_fields(sent, now, None, errors)) from None


def _parsed(sent: CreatePaymentOrder, body: bytes, now: datetime, products: Products) -> OrderInput:
    try:
        with BAD_INPUT_AS_400:
            parsed = _order_input(sent, now, products)
            check_stored_text(parsed, "", body, sent_pan(sent.payment_method))
    except ApiError as refused:
        raise _decode.refusal(body, refused, lambda sent, errors: _check_fields(sent, now, products, errors)) from None
    return parsed


def _due_date(text: str, now: datetime) -> datetime:
    due_date = day_or_moment(text, "dueDate", now, LAST_MOMENT)
    if not DUE_DATE_MIN <= due_date < DUE_DATE_MAX:
        raise invalid("dueDate", "must lie in the years 1970 to 2999", "OUT_OF_RANGE")
    return due_date


def _order_input(sent: CreatePaymentOrder, now: datetime, products: Products) -> OrderInput:
    amount = positive_amount(sent.amount, "amount")
    external_id = one_of_aliases(
        "externalId", sent.external_id, "externalMerchantReference", sent.external_merchant_reference
    )
    if external_id is None:
        raise required("externalId")
    virtual = one_of_aliases("virtualTerminal", sent.virtual_terminal, "isVirtualTerminal", sent.is_virtual_terminal)
    billing = billing_address(sent.billing_address)
    # The method is checked even where the order is created pending and does not use it.
    method = None if sent.payment_method is None else payment_method(sent.payment_method, now.date())
    pending = bool(sent.pending)
    if not pending and method is None:
        raise invalid("paymentMethod", "is required, unless pending is true: such an order is paid later", "REQUIRED")
    if not pending and billing is None and method is not None and method.card is not None:
        raise billing_address_required(sent.billing_address)
    lines = one_of_aliases("lineItems", sent.line_items, "items", sent.items)
    terms = OrderTerms(
        external_id=printable(external_id, "externalId"),
        amount=amount,
        currency=sent.currency,
        allow_partials=pending and bool(sent.allow_partials),
        capture_method=CaptureMethod(sent.capture_method or CaptureMethod.AUTOMATIC),
        virtual_terminal=bool(virtual),
        description=sent.description,
        invoice_number=sent.invoice_number,
        due_date=None if sent.due_date is None else _due_date(sent.due_date, now),
        metadata=metadata(sent.metadata),
        billing_address=billing,
        device_information=sent.device_information,
        fiscal=fiscal_data(sent.customer_fiscal_data, sent.fiscal_data, sent.fiscal_config),
        line_items=line_items(lines, amount, products),
    )
    return OrderInput(
        terms=terms,
        customer=customer_input(sent.customer, sent.customer_id),
        # The billing address and the payer's device are the order's, not its payment's.
        payment=None if pending or method is None else replace(method, virtual_terminal=bool(virtual)),
        exchange_rate=exchange_rate(sent.exchange_rate),
    )


def _check_fields(sent: CreatePaymentOrder, now: datetime, products: Products | None, errors: FieldErrors) -> None:
    """Adds every error of a body. Products are None where they have not been read."""
    customer = Customer(external_id="-")
    valid = CreatePaymentOrder(amount=Raw(b"1"), currency="MXN", external_id="-", customer=customer, pending=True)
    errors.check_alone(
        lambda alone: _order_input(alone, now, NO_PRODUCTS),
        sent,
        valid,
        *(("amount",), ("virtual_terminal", "is_virtual_terminal"), ("billing_address",), ("due_date",), ("metadata",)),
        ("exchange_rate",),
        *(() if errors.has("externalMerchantReference") else (("external_id", "external_merchant_reference"),)),
    )
    check_customer(sent.customer, sent.customer_id, errors)
    check_fiscal_data((sent.customer_fiscal_data, sent.fiscal_data, sent.fiscal_config), errors)
    method = sent.payment_method
    if method is not None:
        check_payment_method(method, now.date(), errors)
        method = right_method(method)
    if not errors.has("pending") and not errors.has("billingAddress"):
        paid = replace(valid, pending=sent.pending, payment_method=method, billing_address=sent.billing_address)
        errors.check(_order_input, paid, now, NO_PRODUCTS)
    total = None if errors.has("amount") else positive_amount(sent.amount, "amount")
    if not errors.has("lineItems") and not errors.has("items"):
        errors.check(one_of_aliases, "lineItems", sent.line_items, "items", sent.items)
    check_lines(sent.line_items or sent.items, total, products, errors)
    stored = None if sent.pending or sent.payment_method is None else stored_part(sent.payment_method)
    check_each_text(replace(sent, payment_method=stored), errors)


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for one that existed, 422 for a decline."""
    body = await request.body(deps.body_limit)
    now = merchant_now(deps, request)
    sent = _decoded(body, now)
    products = NO_PRODUCTS
    if named := product_ids(sent.line_items or sent.items):
        products = await deps.queries.products_by_id(request.principal.merchant_id, named)
    parsed = _parsed(sent, body, now, products)
    require_whole(request.principal.settings, ("amount", parsed.terms.amount))
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_order(deps.ledger, request.actor, parsed, key)
    return order_response(result, 201 if result.created else 200, deps, request)


EXAMPLES: Final = examples.ORDERS

CREATE: Final = ScopedOperation(
    create,
    WRITE,
    OperationSpec(
        name="createPaymentOrder",
        summary="Create a payment order",
        description="""
Creates an order, and charges it at once where a payment method is given. `externalId` names the order: a repeated
request is answered with the same order, and nothing is paid twice. An order that is FAILED gets a new payment.

With `pending: true` nothing is paid yet; the order waits for its charge.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreatePaymentOrder,
        examples=EXAMPLES,
        answers={
            201: ("The order is new, or has a new payment.", OrderDocument),
            200: (
                "An order with this `externalId` existed already; it is returned in its current state.",
                OrderDocument,
            ),
        },
        codes=codes_of(ANY, BODY, PAYMENT, {404: ("CUSTOMER_NOT_FOUND",), 409: ("DUPLICATE_EXTERNAL_ID",)}),
        replays=True,
    ),
)
