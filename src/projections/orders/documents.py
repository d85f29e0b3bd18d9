"""What a client sees of an order: the shapes of the JSON that the projections render and the API describes.

The rule a stranger would break: fields are added, never renamed or removed, and the order of the fields is the order of
the bytes. A read model that was written with other fields has to be rebuilt.

A `Decimal` is written as a JSON number here; msgspec's schemas call it a string with the format `decimal`, so whoever
publishes them says `number` instead.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.orders.payment import EntryAction, EntryStatus
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod, FiscalData, LineItem

Amount = Annotated[Decimal, Meta(description="In minor units of the order's currency (cents).")]
AmountText = Annotated[
    str, Meta(description="Decimal string in minor units of the order's currency.", examples=["10000"])
]
Moment = Annotated[
    str, Meta(description="ISO 8601, UTC, milliseconds.", examples=["2026-01-31T12:00:00.000Z"],
              extra_json_schema={"format": "date-time"})
]  # fmt: skip
Currency = Annotated[str, Meta(description="ISO 4217.", examples=["MXN", "USD"])]
MethodKind = Annotated[str, Meta(description="CARD, SPEI or CIE_CASH_NET.", examples=["CARD"])]


class CardDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What may be shown of a card."""

    id: Annotated[UUID, Meta(description="The saved or one-time method.")]
    type: Annotated[str | None, Meta(description="For example CREDIT.")]
    bin: Annotated[str, Meta(description="The first six digits.")]
    last4: Annotated[str, Meta(description="The last four digits.")]
    brand: Annotated[str, Meta(description="For example VISA.")]
    country: Annotated[str | None, Meta(description="ISO 3166 country of the issuer.")]
    issuer_bank: Annotated[str | None, Meta(description="The bank that issued it.")]
    exp_month: Annotated[int, Meta(description="1 to 12.")]
    exp_year: Annotated[int, Meta(description="Four digits.")]
    expiry_month: Annotated[str, Meta(description="expMonth as two digits.")]
    expiry_year: Annotated[str, Meta(description="expYear as four digits.")]
    cardholder_name: Annotated[str | None, Meta(description="As printed on the card.")]
    created_at: Moment
    updated_at: Moment


class SpeiDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Where to transfer to."""

    id: Annotated[UUID, Meta(description="The one-time method.")]
    clabe: Annotated[str | None, Meta(description="18 digits, the last of them a control digit.")]
    expires_at: Annotated[
        Moment | None, Meta(description="How long the payer is told to have. Later money still counts.")
    ]
    created_at: Moment
    updated_at: Moment


class CieDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What to pay in cash, or at the bank, with."""

    id: Annotated[UUID, Meta(description="The one-time method.")]
    reference: Annotated[str | None, Meta(description="What the payer says at the counter.")]
    convenio: Annotated[str | None, Meta(description="The bank's number for payments from the same bank.")]
    clabe: Annotated[str | None, Meta(description="The account for payments from another bank.")]
    channel: Annotated[str | None, Meta(description="PAYCASH where the reference is one of that network.")]
    expires_at: Annotated[
        Moment | None, Meta(description="How long the payer is told to have. Later money still counts.")
    ]
    created_at: Moment
    updated_at: Moment


class PayerAuthenticationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """3-D Secure: what the payer's browser needs, and how it ended."""

    status: Annotated[
        str,
        Meta(description="DEVICE_DATA_REQUIRED, CHALLENGE_REQUIRED, AUTHENTICATED, FAILED or EXPIRED."),
    ]
    payment_id: Annotated[UUID, Meta(description="The payment whose payer it is about.")]
    authentication_transaction_id: Annotated[str | None, Meta(description="To validate with.")]
    reference_id: Annotated[str | None, Meta(description="Of the session.")]
    device_data_collection_url: Annotated[str | None, Meta(description="The page that looks at the device.")]
    access_token: Annotated[str | None, Meta(description="For those pages.")]
    step_up_url: Annotated[str | None, Meta(description="The page of the challenge, or of the redirect.")]
    three_ds_version: Annotated[str | None, Meta(description="Of the protocol.")] = msgspec.field(name="threeDSVersion")
    eci: Annotated[
        str | None,
        Meta(
            description="The card network's electronic commerce indicator, once the authentication has ended: 05 authenticated, "
            "06 attempted, 07 failed or none; Mastercard says 02, 01, 00. It decides who is liable for fraud."
        ),
    ]
    expires_at: Annotated[Moment | None, Meta(description="When the session ends.")]


class PaymentMethodDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How the newest payment of the order is made."""

    id: Annotated[UUID, Meta(description="The saved or one-time method; never a card number.")]
    type: MethodKind
    channel: Annotated[str | None, Meta(description="PAYCASH where the reference is one of that network.")]
    card_details: CardDocument | None
    spei_details: Annotated[SpeiDocument | None, Meta(description="Where to transfer to.")] = None
    cie_details: Annotated[CieDocument | None, Meta(description="What to pay in cash with.")] = None


class PaymentEventDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One step in the history of a payment."""

    id: Annotated[
        str, Meta(description="The same for the same step, whenever it is read.", extra_json_schema={"format": "uuid"})
    ]
    action: EntryAction
    status: Annotated[EntryStatus, Meta(description="UNKNOWN: no answer in time, still to be found out.")]
    amount: Annotated[AmountText | None, Meta(description="What this step was about; null where it was about none.")]
    currency: Annotated[Currency | None, Meta(description="Of the amount.")]
    created_at: Moment
    reason: Annotated[str | None, Meta(description="For example why it failed.")]


class PaymentDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A payment of an order. Amounts contain the surcharge unless they say otherwise."""

    id: Annotated[UUID, Meta(description="The service's id of the payment.")]
    external_id: Annotated[str | None, Meta(description="The merchant's id of the payment.")]
    status: PaymentStatus
    next_action: Annotated[NextAction | None, Meta(description="What a payment in REQUIRES_ACTION waits for.")]
    amount: Annotated[AmountText, Meta(description="What was asked for.")]
    amount_formatted: Annotated[str, Meta(description="For people, in major units.", examples=["MXN 100.00"])]
    subtotal_amount: AmountText
    surcharge_amount: AmountText
    authorized_amount: AmountText
    captured_amount: AmountText
    refunded_amount: AmountText
    currency: Currency
    payment_method_type: MethodKind
    payment_method_id: Annotated[
        str, Meta(description="The CLABE or cash reference; for a card the saved or one-time method, never its number.")
    ]
    spei_details: Annotated[SpeiDocument | None, Meta(description="Where to transfer to.")]
    cie_details: Annotated[CieDocument | None, Meta(description="What to pay in cash with.")]
    late_deposit: Annotated[bool, Meta(description="Whether money came after the payment had ended.")]
    virtual_terminal: Annotated[bool, Meta(description="Whether 3-D Secure was skipped.")]
    last_failed_event_reason: Annotated[str | None, Meta(description="Why it failed, where it has.")]
    last_failed_event_at: Annotated[Moment | None, Meta(description="When it failed, where it has.")]
    decline_code: Annotated[str | None, Meta(description="Why it was declined, in words that no processor owns.")]
    billing_first_name: Annotated[str | None, Meta(description="Given name of whom the card belongs to.")]
    billing_last_name: Annotated[str | None, Meta(description="Family name of whom the card belongs to.")]
    billing_phone_number: Annotated[str | None, Meta(description="Phone of whom the card belongs to.")]
    billing_email: Annotated[str | None, Meta(description="E-mail of whom the card belongs to.")]
    billing_address_line1: Annotated[str | None, Meta(description="Street and number.")]
    billing_address_line2: Annotated[str | None, Meta(description="Further line of the address.")]
    billing_city: Annotated[str | None, Meta(description="City.")]
    billing_state: Annotated[str | None, Meta(description="State.")]
    billing_postal_code: Annotated[str | None, Meta(description="Postal code.")]
    billing_country: Annotated[str | None, Meta(description="ISO 3166 country.")]
    description: Annotated[str | None, Meta(description="Free text that came with the payment.")]
    metadata: Annotated[Raw | None, Meta(description="JSON, exactly as the merchant sent it with the payment.")]
    created_at: Moment
    updated_at: Moment
    payment_events: Annotated[list[PaymentEventDocument], Meta(description="Oldest first.")]


class OrderHead(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a payment order says of itself: all of it but the customer, the payments and what depends on the moment."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order, and the key of its idempotency.")]
    external_merchant_reference: Annotated[str, Meta(description="The same as externalId.")]
    order_number: Annotated[str, Meta(description="Unique over all merchants.", examples=["PO4T8Q2M7X1K"])]
    invoice_number: Annotated[str | None, Meta(description="Shown to customers instead of orderNumber.")]
    status: OrderStatus
    currency: Currency
    amount: Annotated[Amount, Meta(description="subtotalAmount + surchargeAmount, in minor units (cents).")]
    amount_formatted: Annotated[str, Meta(description="amount for people, in major units.", examples=["MXN 100.00"])]
    subtotal_amount: Annotated[Amount, Meta(description="What the merchant asked for. Never changes.")]
    surcharge_amount: Annotated[
        Amount | None, Meta(description="What the payer pays for the way of paying; null where none applies.")
    ]
    surcharge_rate: Annotated[Decimal | None, Meta(description="Percent, as it stood at creation.")]
    amount_paid: Annotated[Amount, Meta(description="Everything ever captured; refunds do not lower it.")]
    amount_pending: Annotated[Amount, Meta(description="max(0, amount - (amountPaid - amountRefunded)).")]
    overpaid_amount: Annotated[Amount, Meta(description="What is held beyond amount.")]
    late_deposit: Annotated[bool, Meta(description="Whether money came on a reference after its payment had ended.")]
    amount_refunded: Annotated[Amount, Meta(description="Everything ever refunded.")]
    refunded_amount: Annotated[Amount, Meta(description="The same as amountRefunded.")]
    allow_partials: Annotated[bool, Meta(description="Whether several payments may cover the order.")]
    capture_method: CaptureMethod
    virtual_terminal: Annotated[bool, Meta(description="Whether 3-D Secure is skipped.")]
    description: Annotated[str | None, Meta(description="Free text.")]
    metadata: Annotated[Raw | None, Meta(description="JSON, exactly as the merchant sent it.")]
    due_date: Annotated[Moment | None, Meta(description="When it should be paid.")]
    billing_address_line: Annotated[str | None, Meta(description="Street and number.")]
    billing_city: Annotated[str | None, Meta(description="City.")]
    billing_state: Annotated[str | None, Meta(description="State.")]
    billing_postal_code: Annotated[str | None, Meta(description="Postal code.")]
    billing_country: Annotated[str | None, Meta(description="ISO 3166 country.")]
    payment_method: Annotated[PaymentMethodDocument | None, Meta(description="How the newest payment is made.")]
    payer_authentication: Annotated[
        PayerAuthenticationDocument | None, Meta(description="3-D Secure details of the newest payment; null without.")
    ] = None
    line_items: Annotated[tuple[LineItem, ...], Meta(description="What is sold.")]
    customer_fiscal_data: Annotated[FiscalData | None, Meta(description="Who gets the invoice.")]
    invoice_type: Annotated[
        str | None, Meta(description="PPD for split orders, PUE for others, null without fiscal data.")
    ]
    invoice_status: Annotated[None, Meta(description="How far the invoice is.")] = None
    fiscal_uuid: Annotated[None, Meta(description="Folio of the stamped invoice.")] = None
    complements: Annotated[tuple[()], Meta(description="Payment receipts of a split order.")] = ()
    credit_notes: Annotated[tuple[()], Meta(description="Credit notes of refunds.")] = ()
    created_at: Moment
    updated_at: Moment


class CustomerDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The customer of an order, as it is now."""

    id: UUID
    external_id: Annotated[str, Meta(description="The merchant's id of the customer.")]
    first_name: str | None
    last_name: str | None
    email: str | None
    phone_number: str | None
    active: Annotated[bool, Meta(description="False once the customer was removed.")]
    source_id: Annotated[UUID | None, Meta(description="The customer that this one was derived from.")]
    created_at: Moment
    updated_at: Moment


class OrderDocument(OrderHead, frozen=True, kw_only=True, rename="camel", gc=False):
    """A payment order as it is answered. Served by splicing stored bytes; stands here for the API's description."""

    customer: CustomerDocument
    payments: Annotated[list[PaymentDocument], Meta(description="Oldest first; empty in lists.")]
    payment: Annotated[PaymentDocument | None, Meta(description="Only in answers to the request that made it.")] = None
    is_overdue: Annotated[bool, Meta(description="Whether the due date has passed and money is still owed.")]
