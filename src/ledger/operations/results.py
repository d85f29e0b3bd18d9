"""What a request is about, and what an operation on an order returns."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order


class RequestTarget(Struct, frozen=True, kw_only=True):
    """The payment or the refund that a request is about; neither of them means the order as a whole.

    The first commit of a request fixes it, so that the same idempotency key is answered about the same thing.
    """

    payment_id: UUID | None = None
    refund_id: UUID | None = None


WHOLE_ORDER = RequestTarget()


class OrderResult(Struct, frozen=True, kw_only=True):
    """The order after an operation, its customer, and the payment or refund that the operation is about.

    `created` marks a new order, payment or refund. `replayed` marks a request that changed nothing because its effect
    already existed. `repeated` marks the answer that this idempotency key received the first time.
    """

    order: Order
    customer: Customer
    payment_id: UUID | None
    created: bool
    replayed: bool = False
    repeated: bool = False
    refund_id: UUID | None = None
