"""A payment order's state as JSON bytes.

The rule a stranger would break: rendering is a pure function of the state. What depends on the moment of reading (whether
the order is overdue, the customer as it is now) is added by whoever reads, never stored here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

import msgspec
import uuid_utils
from msgspec import Raw, UnsetType

from ledger.domain.money import plain, shortest
from ledger.domain.orders.events import PaymentStarted
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import BillingAddress, MethodType, PaymentMethod
from projections.orders.documents import (
    CardDocument,
    OrderHead,
    PaymentDocument,
    PaymentEventDocument,
    PaymentMethodDocument,
)
from projections.orders.formats import for_people, moment, moment_or_null, number_or_null
from projections.orders.payer_actions import cie_details, payer_authentication, spei_details

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode
_NOWHERE: Final = BillingAddress()


T = TypeVar("T")


def _once(render: Callable[[Order], T]) -> Callable[[Order], T]:
    """Render an order once: it never changes, and the same one is rendered for its row and for the request's answer."""
    key = f"rendered:{render.__name__}"

    @wraps(render)
    def rendered(order: Order) -> T:
        known = order.__dict__
        if key not in known:
            known[key] = render(order)
        return known[key]  # type: ignore[no-any-return]  # put there two lines above, or by an earlier call

    return rendered


@_once
def render_head(order: Order) -> bytes:
    """The order's JSON object without customer, payments, payment and isOverdue; `orders.document` completes it."""
    terms = order.terms
    billing = _billing(order)
    amount, refunded = shortest(order.amount), shortest(order.amount_refunded)
    return _encode(
        OrderHead(
            id=terms.order_id,
            external_id=terms.external_id,
            external_merchant_reference=terms.external_id,
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
            allow_partials=terms.allow_partials,
            capture_method=terms.capture_method,
            virtual_terminal=terms.virtual_terminal,
            description=terms.description,
            metadata=_given(terms.metadata),
            due_date=moment_or_null(terms.due_date),
            billing_address_line=billing.address,
            billing_city=billing.city,
            billing_state=billing.state,
            billing_postal_code=billing.postal_code,
            billing_country=billing.country,
            payment_method=_method(order.payments[-1]) if order.payments else None,
            payer_authentication=payer_authentication(order.payments[-1]) if order.payments else None,
            line_items=terms.line_items,
            customer_fiscal_data=terms.fiscal,
            invoice_type=_invoice_type(order),
            created_at=moment(terms.at),
            updated_at=moment(order.updated_at),
        )
    )


def render_payments(order: Order) -> bytes:
    """The JSON array of all payments of the order, oldest first, each with its billing details and its history."""
    return b"[" + b",".join(_each_payment(order)) + b"]"


def render_payment(order: Order, payment: Payment) -> bytes:
    """The JSON object of one payment of the order, the same bytes as in `render_payments`."""
    return _each_payment(order)[order.payments.index(payment)]


@_once
def _each_payment(order: Order) -> list[bytes]:
    return [_encode(_payment(order, payment)) for payment in order.payments]


def _payment(order: Order, payment: Payment) -> PaymentDocument:
    started, failure = payment.started, payment.failure
    currency, amount = order.terms.currency, plain(payment.amount)
    billing = started.billing_address or order.terms.billing_address or _NOWHERE
    return PaymentDocument(
        id=started.payment_id,
        external_id=started.external_id,
        status=payment.status,
        next_action=payment.next_action,
        amount=amount,
        amount_formatted=for_people(amount, currency),
        subtotal_amount=plain(started.subtotal),
        surcharge_amount=plain(started.surcharge),
        authorized_amount=plain(payment.authorized),
        captured_amount=plain(payment.captured),
        refunded_amount=plain(payment.refunded),
        currency=currency,
        payment_method_type=_kind(started.method),
        payment_method_id=_paid_by(payment),
        spei_details=spei_details(payment),
        cie_details=cie_details(payment),
        late_deposit=payment.late,
        virtual_terminal=started.virtual_terminal,
        last_failed_event_reason=None if failure is None else failure.message or failure.code,
        last_failed_event_at=None if failure is None else moment(failure.at),
        decline_code=None if failure is None else failure.code,
        billing_first_name=None,
        billing_last_name=None,
        billing_phone_number=None,
        billing_email=None,
        billing_address_line1=billing.address,
        billing_address_line2=None,
        billing_city=billing.city,
        billing_state=billing.state,
        billing_postal_code=billing.postal_code,
        billing_country=billing.country,
        description=started.description,
        metadata=_given(started.metadata),
        created_at=moment(started.at),
        updated_at=moment(payment.updated_at),
        payment_events=_events(payment, currency),
    )


def _events(payment: Payment, currency: str) -> list[PaymentEventDocument]:
    # The ids are those of `ledger.domain.ids.entry_id`, made four times as fast.
    namespace = uuid_utils.UUID(int=payment.started.payment_id.int)
    return [
        PaymentEventDocument(
            id=str(uuid_utils.uuid5(namespace, str(ordinal))),
            action=entry.action,
            status=entry.status,
            amount=None if entry.amount is None else plain(entry.amount),
            currency=None if entry.amount is None else currency,
            created_at=moment(entry.at),
            reason=entry.reason,
        )
        for ordinal, entry in enumerate(payment.entries, 1)
    ]


def _given(metadata: Raw | UnsetType) -> Raw | None:
    return None if isinstance(metadata, UnsetType) else metadata


def _billing(order: Order) -> BillingAddress:
    """The order's own billing address; where it was created without one, that of its newest payment with one."""
    if order.terms.billing_address is not None:
        return order.terms.billing_address
    given = (payment.started.billing_address for payment in reversed(order.payments))
    return next((address for address in given if address is not None), _NOWHERE)


def _paid_by(payment: Payment) -> str:
    """What the payer pays against, or with (section 8.10)."""
    reference = payment.reference
    if reference is None:
        return str(payment.started.method.method_id)
    spei = payment.started.method.type is MethodType.SPEI
    return (reference.clabe if spei else reference.reference) or str(payment.started.method.method_id)


def _kind(method: PaymentMethod) -> str:
    """The closed set of the interface: references of the PAYCASH network are CIE_CASH_NET with a channel (N16)."""
    return "CIE_CASH_NET" if method.type is MethodType.PAYCASH else method.type.value


def _method(payment: Payment) -> PaymentMethodDocument:
    started = payment.started
    method = started.method
    return PaymentMethodDocument(
        id=method.method_id,
        type=_kind(method),
        channel="PAYCASH" if method.type is MethodType.PAYCASH else None,
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


def _invoice_type(order: Order) -> str | None:
    """One parent invoice with receipts for split orders, one invoice for others, none without fiscal data (N46)."""
    if order.terms.fiscal is None:
        return None
    return "PPD" if order.terms.allow_partials else "PUE"
