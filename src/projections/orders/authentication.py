"""The result of a payer's authentication, as the validate operation returns it (contract N42).

The interface defines the first six fields and the six of the customer. Add further fields only behind them.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from ledger.domain.customers.state import Customer
from ledger.domain.money import shortest
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from projections.formats import Amount, Currency, encode
from projections.orders.payments import PaymentDocument, render_payment


class PayerDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The customer who pays, in short."""

    id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the customer.")]
    first_name: Annotated[str | None, Meta(description="Given name.")]
    last_name: Annotated[str | None, Meta(description="Family name.")]
    email: Annotated[str | None, Meta(description="E-mail address.")]
    phone_number: Annotated[str | None, Meta(description="Phone.")]


class ValidationHead(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The state of the order after the authentication."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    status: Annotated[OrderStatus, Meta(description="Usually AUTHORIZED; the capture follows automatically.")]
    amount: Annotated[Amount, Meta(description="The order's amount with its surcharge, in minor units (cents).")]
    currency: Currency
    customer: PayerDocument


class ValidationDocument(ValidationHead, frozen=True, kw_only=True, rename="camel", gc=False):
    """The answer to the validation of a payer: the order, and its payment."""

    # Describes the shape only: an answer is spliced from bytes.

    payment: Annotated[PaymentDocument | None, Meta(description="The payment whose payer was authenticated.")] = None


def render_validation(order: Order, customer: Customer, payment_id: UUID | None) -> bytes:
    """Returns the answer, with the payment if `payment_id` is given."""
    terms = order.terms
    head = encode(
        ValidationHead(
            id=terms.order_id,
            external_id=terms.external_id,
            status=order.status,
            amount=shortest(order.amount),
            currency=terms.currency,
            customer=PayerDocument(
                id=customer.customer_id,
                external_id=customer.external_id,
                first_name=customer.first_name,
                last_name=customer.last_name,
                email=customer.email,
                phone_number=customer.phone_number,
            ),
        )
    )
    if payment_id is None:
        return head
    return head[:-1] + b',"payment":' + render_payment(order, order.payment(payment_id)) + b"}"
