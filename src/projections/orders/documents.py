"""A payment order's whole document: the stored head, the customer as it is now, the payments, and `isOverdue`.

Add fields to documents; never rename or remove one. The order of the fields is the order of the bytes, and a read model
that was written with other fields has to be rebuilt.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NOTHING_OWED
from projections.customers import CustomerDocument, render_customer
from projections.orders.head import OrderHead, render_head
from projections.orders.payments import PaymentDocument, in_language, render_payment, render_payments


class OrderDocument(OrderHead, frozen=True, kw_only=True, rename="camel", gc=False):
    """A payment order."""

    # Describes the shape only: an answer is spliced from stored bytes.

    customer: CustomerDocument
    payments: Annotated[list[PaymentDocument], Meta(description="The payments, oldest first; empty in lists.")]
    payment: Annotated[
        PaymentDocument | None,
        Meta(description="The payment that the request made. Only in the answer to that request."),
    ] = None
    is_overdue: Annotated[bool, Meta(description="Whether the due date has passed and money is still owed.")]


def is_overdue(status: str, due_at: datetime | None, now: datetime) -> bool:
    """Returns whether the due date has passed while money is owed. `now` is by the merchant's clock.

    A due date changes no status.
    """
    return due_at is not None and due_at < now and status not in NOTHING_OWED


def document(
    head: bytes, customer: bytes, payments: bytes | None, overdue: bool, payment: bytes | None = None
) -> bytes:
    """Returns a payment order as JSON, from its parts as JSON.

    `payments` is None in lists. `payment` is given in the answer to the request that made it.
    """
    parts = [head[:-1], b',"customer":', customer, b',"payments":', payments or b"[]"]
    if payment is not None:
        parts += (b',"payment":', payment)
    parts.append(b',"isOverdue":true}' if overdue else b',"isOverdue":false}')
    return b"".join(parts)


def answer(order: Order, customer: Customer, payment_id: UUID | None, now: datetime, language: str = "es") -> bytes:
    """Returns the answer to a request that changed the order, with the payment that the request made, if any, and the
    texts for payers in a language.
    """
    payment = None if payment_id is None else order.payment(payment_id)
    rendered = None if payment is None else render_payment(order, payment)
    if rendered is not None and language != "es":
        rendered = in_language(b"[%s]" % rendered, language)[1:-1]
    return document(
        render_head(order),
        render_customer(customer),
        in_language(render_payments(order), language),
        is_overdue(order.status, order.terms.due_date, now),
        rendered,
    )
