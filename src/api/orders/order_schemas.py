"""The bodies of the payment order operations: create and charge.

The rule a stranger would break: where the contract accepts two names of a field, both stand here; `drafting` takes the one
that came and refuses two that differ.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.fields.payment_method import PaymentMethod
from api.fields.people import BillingAddress, Customer, CustomerFiscalData, DeviceInformation
from api.fields.types import (
    INVOICE_NUMBER_MAX,
    LINE_ITEMS_MAX,
    NUMBER_MAX,
    TAXES_MAX,
    Id,
    LongText,
    Metadata,
    Number,
    PositiveNumber,
    Text,
)


class Tax(Struct, frozen=True, kw_only=True, rename="camel"):
    """A tax on a line item."""

    type: Annotated[Literal["IVA", "ISR", "IEPS"], Meta(description="Which tax.")]
    rate: Annotated[
        Number | UnsetType,
        Meta(description="As a fraction, up to six decimals. Required unless factor is Exento.", examples=[0.16]),
    ] = UNSET
    factor: Annotated[
        Literal["Tasa", "Cuota", "Exento"] | None, Meta(description="SAT c_TipoFactor; Tasa where absent.")
    ] = None
    withholding: Annotated[bool | None, Meta(description="True for a tax that the payer withholds.")] = None


class LineItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the order. The sum of quantity × unitPrice over all lines is the order's amount, within 0.001."""

    description: Annotated[LongText | None, Meta(description="What is sold. Required, here or as name.")] = None
    name: Annotated[Text | None, Meta(description="Name of the product; accepted for description.")] = None
    quantity: Annotated[
        PositiveNumber | UnsetType, Meta(description="Required. May be a fraction, up to six decimals.", examples=[2])
    ] = UNSET
    unit_price: Annotated[
        Number | UnsetType, Meta(description="Required. Price of one, in minor units (cents).", examples=[75000])
    ] = UNSET
    sku: Annotated[Text | None, Meta(description="The merchant's stock number.")] = None
    product_id: Annotated[Text | None, Meta(description="Id of the product.")] = None
    product_key: Annotated[Text | None, Meta(description="SAT c_ClaveProdServ.", examples=["50201706"])] = None
    unit_key: Annotated[Text | None, Meta(description="SAT c_ClaveUnidad.", examples=["H87"])] = None
    unit_name: Annotated[Text | None, Meta(description="Name of the unit.")] = None
    discount: Annotated[Number | UnsetType, Meta(description="Discount on the line, in minor units (cents).")] = UNSET
    tax_included: Annotated[bool | None, Meta(description="Whether unitPrice contains the taxes; default true.")] = None
    taxes: Annotated[
        Annotated[list[Tax], Meta(max_length=TAXES_MAX)] | None, Meta(description="Taxes on the line.")
    ] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object.")] = UNSET


LineItems = Annotated[list[LineItem], Meta(max_length=LINE_ITEMS_MAX)]


class CreatePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """Ask for money."""

    amount: Annotated[
        Raw,
        Meta(
            description="Subtotal in minor units (cents), above 0; up to four decimals.",
            examples=[150000],
            extra_json_schema={"type": "number", "exclusiveMinimum": 0, "maximum": NUMBER_MAX},
        ),
    ]
    currency: Annotated[Literal["MXN", "USD"], Meta(description="ISO 4217.")]
    external_id: Annotated[
        Id | None, Meta(description="Required. The merchant's id of the order and its idempotency key.")
    ] = None
    external_merchant_reference: Annotated[Id | None, Meta(description="Accepted for externalId.")] = None
    customer: Annotated[Customer | None, Meta(description="Required. Who pays.")] = None
    customer_id: Annotated[Id | None, Meta(description="Accepted for customer.id.")] = None
    payment_method: Annotated[PaymentMethod | None, Meta(description="Required unless pending is true.")] = None
    pending: Annotated[bool | None, Meta(description="Create the order only; it is paid later by charge.")] = None
    allow_partials: Annotated[
        bool | None, Meta(description="Several payments may cover the order. Honoured with pending only.")
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
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, kept as it is.")] = UNSET
    due_date: Annotated[
        Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})] | None,
        Meta(description="For reminders. Without an offset: in the merchant's time zone."),
    ] = None
    virtual_terminal: Annotated[bool | None, Meta(description="True skips 3-D Secure.")] = None
    is_virtual_terminal: Annotated[bool | None, Meta(description="Accepted for virtualTerminal.")] = None
    customer_fiscal_data: Annotated[CustomerFiscalData | None, Meta(description="Who gets the invoice.")] = None
    fiscal_data: Annotated[CustomerFiscalData | None, Meta(description="Accepted for customerFiscalData.")] = None
    fiscal_config: Annotated[CustomerFiscalData | None, Meta(description="Accepted for customerFiscalData.")] = None
    line_items: Annotated[LineItems | None, Meta(description="What is sold; the lines of the invoice.")] = None
    items: Annotated[LineItems | None, Meta(description="Accepted for lineItems.")] = None


class ChargePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """Pay an order that waits for its payment."""

    payment_method: Annotated[PaymentMethod, Meta(description="How to pay.")]
    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="Part of the subtotal to pay, in minor units; only on split orders. Absent: all of it."),
    ] = UNSET
    external_id: Annotated[
        Id | None, Meta(description="The merchant's id of the payment, unique within the order.")
    ] = None
    external_merchant_reference: Annotated[Id | None, Meta(description="Accepted for externalId.")] = None
    billing_address: Annotated[BillingAddress | None, Meta(description="Required with a card.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None
    virtual_terminal: Annotated[bool | None, Meta(description="True skips 3-D Secure.")] = None
    is_virtual_terminal: Annotated[bool | None, Meta(description="Accepted for virtualTerminal.")] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object, kept with the payment.")] = UNSET
