"""The head of a payment order's document: every field except the customer, the payments and `isOverdue`.

Rendering is a pure function of the state. Fields that depend on the time of reading are added when the order is read,
and never stored.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Raw, Struct
from msgspec.structs import replace

from ledger.domain.money import plain, shortest
from ledger.domain.orders.events import PaymentStarted
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import BillingAddress, CaptureMethod, FiscalData, LineItem
from ledger.domain.subscriptions.charge_ids import subscription_in
from projections.formats import (
    Amount,
    Currency,
    MethodKind,
    Moment,
    encode,
    for_people,
    metadata_or_null,
    method_kind,
    moment,
    moment_or_null,
    number_or_null,
    render_once,
)
from projections.orders.invoices import (
    AdditionalInvoices,
    Cancellation,
    Complements,
    CreditNotes,
    FailureCode,
    FailureReason,
    FiscalUuid,
    InvoiceStatus,
    InvoiceType,
    Summary,
    invoice_fields,
)
from projections.orders.payer_actions import (
    CieDocument,
    PayerAuthenticationDocument,
    SpeiDocument,
    channel_of,
    cie_details,
    payer_authentication,
    spei_details,
)


class CardDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The details of a card that may be shown."""

    id: Annotated[UUID, Meta(description="The id of the saved or one-time payment method.")]
    type: Annotated[str | None, Meta(description="For example CREDIT.")]
    bin: Annotated[
        str | None, Meta(description="The first six digits. Null if the card came as a token that does not show them.")
    ]
    last4: Annotated[str, Meta(description="The last four digits.")]
    brand: Annotated[str, Meta(description="For example VISA.")]
    country: Annotated[str | None, Meta(description="ISO 3166 country of the issuer.")]
    issuer_bank: Annotated[str | None, Meta(description="The bank that issued the card.")]
    exp_month: Annotated[int, Meta(description="The month of expiry, 1 to 12.")]
    exp_year: Annotated[int, Meta(description="The year of expiry, four digits.")]
    expiry_month: Annotated[str, Meta(description="expMonth as two digits.")]
    expiry_year: Annotated[str, Meta(description="expYear as four digits.")]
    cardholder_name: Annotated[str | None, Meta(description="As printed on the card.")]
    created_at: Moment
    updated_at: Moment


class PaymentMethodDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The payment method of the order's newest payment."""

    id: Annotated[UUID, Meta(description="The id of the saved or one-time payment method; never a card number.")]
    type: MethodKind
    channel: Annotated[str | None, Meta(description="The network of cash: PAYCASH or OXXO, else null.")]
    card_details: CardDocument | None
    spei_details: Annotated[SpeiDocument | None, Meta(description="The account for a bank transfer.")] = None
    cie_details: Annotated[CieDocument | None, Meta(description="The reference for a payment in cash.")] = None


class OrderHead(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The fields of a payment order except its customer, its payments and those that depend on the time of reading."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order, which is also its idempotency key.")]
    external_merchant_reference: Annotated[str, Meta(description="The same as externalId.")]
    subscription_id: Annotated[UUID | None, Meta(description="The subscription that the order charges, else null.")]
    order_number: Annotated[
        str, Meta(description="The order's number, unique over all merchants.", examples=["PO4T8Q2M7X1K"])
    ]
    invoice_number: Annotated[str | None, Meta(description="Shown to customers instead of orderNumber.")]
    status: OrderStatus
    currency: Currency
    amount: Annotated[Amount, Meta(description="subtotalAmount + surchargeAmount, in minor units (cents).")]
    amount_formatted: Annotated[
        str, Meta(description="The amount for people, in major units.", examples=["$1,500.00 MXN"])
    ]
    subtotal_amount: Annotated[
        Amount,
        Meta(
            description="The amount that the merchant requested, in minor units (cents). It changes before the first payment only."
        ),
    ]
    surcharge_amount: Annotated[
        Amount | None,
        Meta(description="The surcharge for the payment method, in minor units (cents); null if none applies."),
    ]
    surcharge_rate: Annotated[
        Decimal | None, Meta(description="The surcharge in percent, as set when the order was created.")
    ]
    amount_paid: Annotated[
        Amount, Meta(description="The sum of all captured amounts, in minor units (cents). Refunds do not lower it.")
    ]
    amount_pending: Annotated[
        Amount,
        Meta(description="The unpaid amount, in minor units (cents): max(0, amount - (amountPaid - amountRefunded))."),
    ]
    overpaid_amount: Annotated[
        Amount,
        Meta(
            description="The money held in excess of amount, in minor units (cents): max(0, amountPaid - "
            "amountRefunded - "
            "amount)."
        ),
    ]
    late_deposit: Annotated[bool, Meta(description="Whether money arrived on a reference after its payment had ended.")]
    amount_refunded: Annotated[
        Amount, Meta(description="The sum of all refunded amounts, in minor units (cents), chargebacks included.")
    ]
    refunded_amount: Annotated[Amount, Meta(description="The same as amountRefunded.")]
    amount_released: Annotated[
        Amount,
        Meta(
            description="What partial captures have left and no authorisation holds any more, in minor units (cents): "
            "released, or lapsed. It changes no other amount."
        ),
    ]
    allow_partials: Annotated[bool, Meta(description="Whether several payments may cover the order.")]
    capture_method: CaptureMethod
    virtual_terminal: Annotated[bool, Meta(description="Whether 3-D Secure is skipped.")]
    description: Annotated[str | None, Meta(description="Free text.")]
    metadata: Annotated[Raw | None, Meta(description="JSON, exactly as the merchant sent it.")]
    due_date: Annotated[Moment | None, Meta(description="When the order should be paid.")]
    billing_address_line: Annotated[str | None, Meta(description="Street and number.")]
    billing_city: Annotated[str | None, Meta(description="City.")]
    billing_state: Annotated[str | None, Meta(description="State.")]
    billing_postal_code: Annotated[str | None, Meta(description="Postal code.")]
    billing_country: Annotated[str | None, Meta(description="ISO 3166 country.")]
    payment_method: Annotated[PaymentMethodDocument | None, Meta(description="The method of the newest payment.")]
    payer_authentication: Annotated[
        PayerAuthenticationDocument | None,
        Meta(description="3-D Secure details of the newest payment; null if it has none."),
    ] = None
    line_items: Annotated[tuple[LineItem, ...], Meta(description="The goods or services that are sold.")]
    customer_fiscal_data: Annotated[
        FiscalData | None,
        Meta(
            description="The receiver of the invoice: as the invoice states it, also if the payer or a request to stamp "
            "named it. Before the stamping, the data for it; null if no request has named one."
        ),
    ]
    invoice_type: InvoiceType
    invoice_status: InvoiceStatus = None
    fiscal_uuid: FiscalUuid = None
    complements: Complements
    credit_notes: CreditNotes
    created_at: Moment
    updated_at: Moment
    invoice_summary: Summary = UNSET
    invoice_failure_code: FailureCode = UNSET
    invoice_failure_reason: FailureReason = UNSET
    invoice_cancellation: Cancellation = UNSET
    additional_invoices: AdditionalInvoices = UNSET


@render_once
def render_head(order: Order) -> bytes:
    """Returns the order's JSON object without customer, payments, payment and isOverdue, which `document` adds."""
    terms = order.terms
    billing = _billing(order)
    amount, refunded = shortest(order.amount), shortest(order.amount_refunded)
    created_at = moment(terms.at)
    head = OrderHead(
        id=terms.order_id,
        external_id=terms.external_id,
        external_merchant_reference=terms.external_id,
        subscription_id=terms.subscription_id or subscription_in(terms.order_id, terms.external_id),
        order_number=terms.order_number,
        invoice_number=terms.invoice_number,
        status=order.status,
        currency=terms.currency,
        amount=amount,
        amount_formatted=for_people(plain(amount), terms.currency),
        subtotal_amount=shortest(terms.amount),
        surcharge_amount=number_or_null(order.surcharge_amount),
        surcharge_rate=None if terms.surcharge is None else shortest(terms.surcharge.rate),
        amount_paid=shortest(order.amount_paid),
        amount_pending=shortest(order.amount_pending),
        overpaid_amount=shortest(order.overpaid_amount),
        late_deposit=order.late_deposit,
        amount_refunded=refunded,
        refunded_amount=refunded,
        amount_released=shortest(order.amount_released),
        allow_partials=terms.allow_partials,
        capture_method=terms.capture_method,
        virtual_terminal=terms.virtual_terminal,
        description=terms.description,
        metadata=metadata_or_null(terms.metadata),
        due_date=moment_or_null(terms.due_date),
        billing_address_line=billing.address,
        billing_city=billing.city,
        billing_state=billing.state,
        billing_postal_code=billing.postal_code,
        billing_country=billing.country,
        payment_method=_method(order.payments[-1]) if order.payments else None,
        payer_authentication=payer_authentication(order.payments[-1]) if order.payments else None,
        line_items=terms.line_items,
        customer_fiscal_data=order.invoiced_to,
        invoice_type=None,
        complements=[],
        credit_notes=[],
        created_at=created_at,
        updated_at=created_at if order.updated_at == terms.at else moment(order.updated_at),
    )
    return encode(replace(head, **invoice_fields(order)) if order.is_fiscal else head)


def _billing(order: Order) -> BillingAddress:
    """Returns the order's own billing address, else that of its newest payment with one."""
    if order.terms.billing_address is not None:
        return order.terms.billing_address
    for payment in reversed(order.payments):
        if payment.started.billing_address is not None:
            return payment.started.billing_address
    return BillingAddress()


def _method(payment: Payment) -> PaymentMethodDocument:
    started = payment.started
    method = started.method
    return PaymentMethodDocument(
        id=method.method_id,
        type=method_kind(method),
        channel=channel_of(payment),
        card_details=_card(started),
        spei_details=spei_details(payment),
        cie_details=cie_details(payment),
    )


def _card(started: PaymentStarted) -> CardDocument | None:
    card = started.method.card
    if card is None:
        return None
    at = moment(started.at)
    return CardDocument(
        id=started.method.method_id,
        type=card.type,
        bin=card.bin,
        last4=card.last4,
        brand=card.brand,
        country=card.country,
        issuer_bank=card.issuer_bank,
        exp_month=card.exp_month,
        exp_year=card.exp_year,
        expiry_month=f"{card.exp_month:02d}",
        expiry_year=str(card.exp_year),
        cardholder_name=card.cardholder_name,
        created_at=at,
        updated_at=at,
    )
