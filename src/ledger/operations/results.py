"""What of an order a request is about.

The rule a stranger would break: it is settled with the acceptance, so that the same key is answered about the same thing.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order


class RequestTarget(Struct, frozen=True, kw_only=True):
    """A payment, a refund, or neither: the order as a whole."""

    payment_id: UUID | None = None
    refund_id: UUID | None = None


WHOLE_ORDER = RequestTarget()


class OrderResult(Struct, frozen=True, kw_only=True):
    """What an operation on an order ended in. `payment_id` or `refund_id` names what it is about, if that is not the order
    as a whole.

    `created` tells a new order or a new payment from what already stood; `replayed` that nothing happened because the
    same thing had been asked before; `repeated` that this is the answer which the same idempotency key got the first time.
    """

    order: Order
    customer: Customer
    payment_id: UUID | None
    created: bool
    replayed: bool = False
    repeated: bool = False
    refund_id: UUID | None = None


class RefundReceipt(Struct, frozen=True, kw_only=True):
    """What asking for a refund ended in: the order, and which of its refunds it is about. The flags as in `OrderResult`."""

    order: Order
    customer: Customer
    refund_id: UUID
    created: bool
    replayed: bool = False
    repeated: bool = False
