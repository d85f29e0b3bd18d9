"""What a request is about, and what an operation on an order returns, or raises if nothing left the service."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.processors.contract import ProcessorUnavailable


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


class NothingSent(ProcessorUnavailable):
    """No call of a request left this process. The order exists all the same: `order` is its state after the request."""

    def __init__(self, order: Order) -> None:
        super().__init__("The payment processor cannot be reached; nothing was charged. Try again later.")
        self.order = order
