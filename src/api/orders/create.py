"""POST /v2/payment-orders: creates an order, and pays it at once if a payment method is given."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import is_harmless, search_texts
from api.decoding.types import NUMBER_MAX, DayOrMoment, Id, InvoiceNumber, LongText, Metadata, ReturnUrl, alias_of
from api.errors import invalid, required
from api.fields.line_items import NO_PRODUCTS, LineItems, Products, line_items, product_ids
from api.fields.metadata import metadata
from api.fields.payment_method import PaymentMethod, payment_method, require_card_entry, sent_pan, stored_part
from api.fields.people import (
    BillingAddress,
    Customer,
    DeviceInformation,
    OrderReceiver,
    billing_address,
    customer_input,
    order_receiver,
    require_billing_address,
)
from api.fields.values import (
    LAST_MOMENT,
    day_or_moment,
    external_id,
    one_of_aliases,
    positive_amount,
    require_https,
    require_whole,
    return_url,
    virtual_terminal,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi import examples
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.orders.invoices.fields import ExchangeRate, exchange_rate
from api.orders.responses import merchant_now, order_response, warn_of_past_due_date
from api.response import ApiResponse
from ledger.domain.orders import terms
from ledger.domain.orders.terms import DUE_DATE_MAX, DUE_DATE_MIN, CaptureMethod, OrderTerms
from ledger.operations.context.inputs import CustomersFiscal, OrderInput
from ledger.operations.orders.create import create_order
from projections.orders.documents import OrderDocument


class CreatePaymentOrder(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
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
    external_merchant_reference: Annotated[Id | None, alias_of("externalId")] = None
    customer: Annotated[Customer | None, Meta(description="Required. The customer who pays.")] = None
    customer_id: Annotated[Id | None, alias_of("customer.id")] = None
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
        InvoiceNumber | None,
        Meta(description="Shown to the customer instead of orderNumber."),
    ] = None
    billing_address: Annotated[BillingAddress | None, Meta(description="Required with a card.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None
    return_url: Annotated[
        ReturnUrl | None,
        Meta(
            description="Where the payer returns after a redirect: an https address, in the sandbox also one of this machine."
        ),
    ] = None
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
    is_virtual_terminal: Annotated[bool | None, alias_of("virtualTerminal")] = None
    customer_fiscal_data: Annotated[
        OrderReceiver | None,
        Meta(description="The receiver of the invoice. CUSTOMER: the fiscalData of the customer, who must have some."),
    ] = None
    fiscal_data: Annotated[OrderReceiver | None, alias_of("customerFiscalData")] = None
    fiscal_config: Annotated[OrderReceiver | None, alias_of("customerFiscalData")] = None
    line_items: Annotated[
        LineItems | None, Meta(description="The goods or services that are sold: the lines of the invoice.")
    ] = None
    items: Annotated[LineItems | None, alias_of("lineItems")] = None
    exchange_rate: ExchangeRate = UNSET


_decode: Final = BodyDecoder(CreatePaymentOrder)


def parse_create(body: bytes, now: datetime) -> OrderInput:
    """Returns the order that a body asks for, without the data of products. `now` is aware, in the merchant's time
    zone. Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    return _order_input(sent, body, now, None if errors else NO_PRODUCTS, errors)


def _order_input(
    sent: CreatePaymentOrder, body: bytes, now: datetime, products: Products | None, errors: FieldErrors
) -> OrderInput:
    """Returns the order that was sent. `products` is None if they were not read, because the body is wrong already.

    Raises ApiError (400), with every wrong field.
    """
    with BAD_INPUT_AS_400:
        amount = errors.check(positive_amount, sent.amount, "amount")
        virtual = sent.virtual_terminal
        if sent.is_virtual_terminal is not None:
            virtual = errors.check(virtual_terminal, virtual, sent.is_virtual_terminal)
        returns_to = errors.check(return_url, sent.return_url)
        billing = None if sent.billing_address is None else errors.check(billing_address, sent.billing_address)
        due_date = None if sent.due_date is None else errors.check(parse_due_date, sent.due_date, now)
        content = sent.metadata if sent.metadata is UNSET else errors.check(metadata, sent.metadata)
        rate = None if sent.exchange_rate is UNSET else errors.check(exchange_rate, sent.exchange_rate)
        is_unknown = errors.has("externalMerchantReference")
        order_id = None if is_unknown else errors.check(_external_id, sent)
        customer = customer_input(sent.customer, sent.customer_id, errors)
        receivers = (sent.customer_fiscal_data, sent.fiscal_data, sent.fiscal_config)
        is_invoiced = receivers != (None, None, None)
        fiscal, takes_customers = order_receiver(*receivers, errors) if is_invoiced else (None, False)
        # The method is checked even if the order is created pending and does not use it.
        method = None if sent.payment_method is None else payment_method(sent.payment_method, now.date(), errors)
        if not sent.pending and not errors.has("pending"):
            _require_payable(sent.payment_method, sent.billing_address, billing, errors)
        if sent.items is not None and not errors.has("lineItems", "items"):
            errors.check(one_of_aliases, "lineItems", sent.line_items, "items", sent.items)
        lines = line_items(sent.line_items or sent.items, amount, products, errors, is_invoiced=is_invoiced)
        if not is_harmless(body, sent_pan(sent.payment_method)):
            stored = None if sent.pending or sent.payment_method is None else stored_part(sent.payment_method)
            search_texts(replace(sent, payment_method=stored), errors)
    errors.refuse()
    assert amount is not None, "what is wrong was refused"
    assert order_id is not None, "what is wrong was refused"
    assert customer is not None, "what is wrong was refused"
    ordered = OrderTerms(
        external_id=order_id,
        amount=amount,
        currency=sent.currency,
        allow_partials=bool(sent.pending) and bool(sent.allow_partials),
        capture_method=CaptureMethod(sent.capture_method or CaptureMethod.AUTOMATIC),
        virtual_terminal=bool(virtual),
        description=sent.description,
        invoice_number=sent.invoice_number,
        due_date=due_date,
        metadata=content or UNSET,
        billing_address=billing,
        device_information=sent.device_information,
        fiscal=fiscal,
        line_items=lines,
    )
    return OrderInput(
        terms=ordered,
        customer=customer,
        # The billing address and the payer's device are the order's, not its payment's.
        payment=None
        if sent.pending or method is None
        else replace(method, virtual_terminal=bool(virtual), return_url=returns_to),
        exchange_rate=rate,
        customers_fiscal=CustomersFiscal.REQUIRED if takes_customers else CustomersFiscal.BY_SETTING,
    )


def parse_due_date(text: str, now: datetime) -> datetime:
    """Returns a due date in UTC. `now` is aware, in the merchant's time zone. Raises ApiError (400)."""
    bounds = f"must lie in the years {DUE_DATE_MIN.year} to {DUE_DATE_MAX.year - 1}"
    due_date = day_or_moment(text, "dueDate", now, LAST_MOMENT, bounds)
    if not DUE_DATE_MIN <= due_date < DUE_DATE_MAX:
        raise invalid("dueDate", bounds, "OUT_OF_RANGE")
    return due_date


def _external_id(sent: CreatePaymentOrder) -> str:
    found = external_id(sent.external_id, sent.external_merchant_reference)
    if found is None:
        raise required("externalId")
    return found


def _require_payable(
    method: PaymentMethod | None, sent: BillingAddress | None, billing: terms.BillingAddress | None, errors: FieldErrors
) -> None:
    """Adds what an order that is paid at once lacks."""
    if method is None:
        errors.add(
            invalid("paymentMethod", "is required, unless pending is true: such an order is paid later", "REQUIRED")
        )
    else:
        require_billing_address(method, sent, billing, errors)


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for one that existed, 422 for a decline."""
    body = await request.body(deps.body_limit)
    now = merchant_now(deps, request)
    sent, errors = _decode.gather(body)
    products = None if errors else NO_PRODUCTS
    if not errors and (named := product_ids(sent.line_items or sent.items)):
        products = await deps.queries.products_by_id(request.principal.merchant_id, named)
    parsed = _order_input(sent, body, now, products, errors)
    require_whole(request.principal.settings, ("amount", parsed.terms.amount), currency=parsed.terms.currency)
    require_card_entry(request.principal.settings, parsed.payment)
    if parsed.payment is not None:
        require_https(parsed.payment.return_url, deps.environment)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_order(deps.ledger, request.actor, parsed, key)
    warn_of_past_due_date(result.order)
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
