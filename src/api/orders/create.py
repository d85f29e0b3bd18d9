"""POST /v2/payment-orders: creates an order, and pays it at once where a payment method is given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from api.dependencies import Dependencies
from api.fields.line_items import NO_PRODUCTS, LineItems, Products, line_items, product_ids
from api.fields.payment_method import PaymentMethod, payment_method, sent_pan
from api.fields.people import (
    BillingAddress,
    Customer,
    CustomerFiscalData,
    DeviceInformation,
    billing_address,
    billing_address_required,
    customer_input,
    fiscal_data,
)
from api.fields.stored_text import check_stored_text
from api.fields.types import INVOICE_NUMBER_MAX, NUMBER_MAX, Id, LongText, Metadata
from api.fields.values import metadata, moment, one_of_aliases, positive_amount, printable
from api.http.decoding import BodyDecoder, bad_input_as_400
from api.http.endpoint import WRITE, ScopedOperation
from api.http.errors import required
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.openapi import examples
from api.openapi.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.orders.invoices.fields import ExchangeRate, exchange_rate
from api.orders.responses import merchant_now, order_response
from ledger.domain.orders.terms import CaptureMethod, OrderTerms
from ledger.operations.inputs import OrderInput
from ledger.operations.orders.create import create_order
from projections.orders.documents import OrderDocument


class CreatePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
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
        Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})] | None,
        Meta(description="The due date, for reminders. A time without an offset is in the merchant's time zone."),
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
    zone. Raises ApiError (400).
    """
    return _parsed(_decode(body), body, now, NO_PRODUCTS)


def _parsed(sent: CreatePaymentOrder, body: bytes, now: datetime, products: Products) -> OrderInput:
    with bad_input_as_400():
        parsed = _order_input(sent, now, products)
        check_stored_text(parsed, "", body, sent_pan(sent.payment_method))
    return parsed


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
        raise required("paymentMethod")
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
        due_date=None if sent.due_date is None else moment(sent.due_date, "dueDate", now),
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


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for one that existed, 422 for a decline."""
    body = await request.body(deps.body_limit)
    sent = _decode(body)
    products = NO_PRODUCTS
    if named := product_ids(sent.line_items or sent.items):
        products = await deps.queries.products_by_id(request.principal.merchant_id, named)
    parsed = _parsed(sent, body, merchant_now(deps, request), products)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_order(deps.ledger, request.actor, parsed, key)
    return order_response(result, 201 if result.created else 200, deps, request)


_CUSTOMER: Final = {
    "externalId": "cliente-5521",
    "firstName": "María Fernanda",
    "lastName": "Hernández Ochoa",
    "email": "maria.hernandez@example.com",
    "phoneNumber": "+523312345678",
}
_LINES: Final = [
    {
        "description": "Café de altura Coatepec, grano entero, 1 kg",
        "sku": "CAF-COA-1000",
        "productKey": "50201706",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 3,
        "unitPrice": 38900,
        "taxes": [{"type": "IVA", "rate": 0, "factor": "Tasa"}],
    },
    {
        "description": "Cafetera de prensa francesa, acero, 800 ml",
        "sku": "PRE-FRA-0800",
        "productKey": "52151705",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 1,
        "unitPrice": 89900,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
    {
        "description": "Molino manual de muelas cónicas",
        "sku": "MOL-MAN-0001",
        "productKey": "52151706",
        "unitKey": "H87",
        "unitName": "Pieza",
        "quantity": 1,
        "unitPrice": 64900,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
    {
        "description": "Envío estándar a domicilio",
        "sku": "ENV-EST",
        "productKey": "78102203",
        "unitKey": "E48",
        "unitName": "Servicio",
        "quantity": 1,
        "unitPrice": 13370,
        "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
    },
]
EXAMPLES: Final[Mapping[str, dict[str, Any]]] = {
    "paidByCard": {
        "summary": "Paid by card at once",
        "value": {
            "externalId": "pedido-2026-000184",
            "amount": 284870,
            "currency": "MXN",
            "description": "Pedido 184: café de especialidad y accesorios, envío a Guadalajara",
            "invoiceNumber": "A-000184",
            "customer": _CUSTOMER,
            "billingAddress": examples.BILLING,
            "paymentMethod": examples.CARD,
            "lineItems": _LINES,
            "metadata": {
                "channel": "web",
                "cartId": "b7e0f3a2-52c4-4b36-9f0a-6d8a2f1f4c11",
                "warehouse": "GDL-02",
                "coupon": None,
                "gift": False,
                "campaign": {"source": "newsletter", "name": "buen-fin-2026", "variant": "B"},
            },
        },
    },
    "pending": {
        "summary": "To be paid later, in parts",
        "value": {
            "externalId": "pedido-2026-000185",
            "amount": 150000,
            "currency": "MXN",
            "pending": True,
            "allowPartials": True,
            "customer": {"externalId": "cliente-5521"},
        },
    },
}

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
