"""The statuses of payments and orders, the moves between them, and how an order's status follows from its payments.

The rule a stranger would break: nobody sets an order's status. `derive_status` reads it off the payments (contract 2.2);
the edge tables say nothing to the program, they are what its tests hold every stream of events against.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from ledger.orders.members import at_hand

if TYPE_CHECKING:
    from ledger.orders.payment import Payment
    from ledger.orders.state import Order


@at_hand
class PaymentStatus(StrEnum):
    """The nineteen statuses of a payment."""

    CREATED = "CREATED"
    PENDING_AUTHORIZATION = "PENDING_AUTHORIZATION"
    AUTHORIZED = "AUTHORIZED"
    PARTIALLY_AUTHORIZED = "PARTIALLY_AUTHORIZED"
    REQUIRES_ACTION = "REQUIRES_ACTION"
    PENDING_CAPTURE = "PENDING_CAPTURE"
    CAPTURING = "CAPTURING"
    CAPTURED = "CAPTURED"
    PARTIALLY_CAPTURED = "PARTIALLY_CAPTURED"
    PENDING_SETTLEMENT = "PENDING_SETTLEMENT"
    SETTLED = "SETTLED"
    PENDING_CANCELLATION = "PENDING_CANCELLATION"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    PENDING_REFUND = "PENDING_REFUND"
    PARTIALLY_REFUNDED = "PARTIALLY_REFUNDED"
    REFUNDED = "REFUNDED"
    DISPUTED = "DISPUTED"
    EXPIRED = "EXPIRED"


@at_hand
class OrderStatus(StrEnum):
    """The sixteen statuses of a payment order."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    REFERENCE_GENERATED = "REFERENCE_GENERATED"
    AUTHORIZED = "AUTHORIZED"
    PARTIALLY_AUTHORIZED = "PARTIALLY_AUTHORIZED"
    ACTION_REQUIRED = "ACTION_REQUIRED"
    COMPLETED = "COMPLETED"
    PARTIALLY_PAID = "PARTIALLY_PAID"
    CANCELLATION_REQUESTED = "CANCELLATION_REQUESTED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    REFUND_PROCESSING = "REFUND_PROCESSING"
    PARTIALLY_REFUNDED = "PARTIALLY_REFUNDED"
    REFUNDED = "REFUNDED"
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED"
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED = "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"


@at_hand
class NextAction(StrEnum):
    """What a payment in REQUIRES_ACTION waits for."""

    DEVICE_DATA = "DEVICE_DATA"
    CHALLENGE = "CHALLENGE"
    REDIRECT = "REDIRECT"
    DISPLAY_REFERENCE = "DISPLAY_REFERENCE"


_S = TypeVar("_S", bound=StrEnum)


def _edges(statuses: type[_S], table: str) -> frozenset[tuple[_S | None, _S]]:
    """The moves that a table spells, one line per origin; `-` stands for a thing that does not exist yet."""
    rows = (line.split(":") for line in table.strip().splitlines())
    return frozenset(
        (None if origin.strip() == "-" else statuses(origin.strip()), statuses(target))
        for origin, targets in rows
        for target in targets.split()
    )


PAYMENT_EDGES: Final = _edges(
    PaymentStatus,
    """
    -:                     CREATED
    CREATED:               PENDING_AUTHORIZATION REQUIRES_ACTION FAILED CANCELLED
    PENDING_AUTHORIZATION: AUTHORIZED PARTIALLY_AUTHORIZED REQUIRES_ACTION FAILED PENDING_CANCELLATION
    REQUIRES_ACTION:       REQUIRES_ACTION PENDING_AUTHORIZATION AUTHORIZED FAILED EXPIRED CANCELLED
    REQUIRES_ACTION:       CAPTURED PARTIALLY_CAPTURED
    AUTHORIZED:            PENDING_CAPTURE PENDING_CANCELLATION EXPIRED
    PARTIALLY_AUTHORIZED:  PENDING_CAPTURE PENDING_CANCELLATION EXPIRED
    PENDING_CAPTURE:       CAPTURING PENDING_CANCELLATION
    CAPTURING:             CAPTURED PARTIALLY_CAPTURED AUTHORIZED FAILED
    CAPTURED:              PENDING_SETTLEMENT PENDING_REFUND DISPUTED
    PARTIALLY_CAPTURED:    CAPTURED CAPTURING PENDING_SETTLEMENT PENDING_REFUND DISPUTED
    PENDING_SETTLEMENT:    SETTLED CAPTURED PENDING_REFUND DISPUTED
    SETTLED:               PENDING_REFUND DISPUTED
    PENDING_CANCELLATION:  CANCELLED AUTHORIZED PARTIALLY_AUTHORIZED
    PENDING_REFUND:        REFUNDED CAPTURED PARTIALLY_CAPTURED PENDING_SETTLEMENT SETTLED PARTIALLY_REFUNDED
    PARTIALLY_REFUNDED:    PENDING_REFUND DISPUTED
    DISPUTED:              REFUNDED CAPTURED PARTIALLY_CAPTURED PENDING_SETTLEMENT SETTLED PARTIALLY_REFUNDED
    EXPIRED:               CAPTURED
    CANCELLED:             CAPTURED
    """,
)
"""The moves of a payment (contract 2.1). FAILED and REFUNDED are final."""

ORDER_EDGES: Final = _edges(
    OrderStatus,
    """
    -:                      PENDING PROCESSING
    PENDING:                PROCESSING PARTIALLY_PAID COMPLETED CANCELLED
    PROCESSING:             COMPLETED PARTIALLY_PAID AUTHORIZED PARTIALLY_AUTHORIZED ACTION_REQUIRED REFERENCE_GENERATED
    PROCESSING:             PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    PROCESSING:             FAILED PENDING CANCELLATION_REQUESTED
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED AUTHORIZED COMPLETED
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED:   AUTHORIZED FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING
    ACTION_REQUIRED:        AUTHORIZED COMPLETED FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING
    REFERENCE_GENERATED:    COMPLETED PARTIALLY_PAID FAILED PENDING CANCELLED PROCESSING
    AUTHORIZED:             COMPLETED PARTIALLY_PAID CANCELLATION_REQUESTED FAILED PENDING PROCESSING
    PARTIALLY_AUTHORIZED:   COMPLETED PARTIALLY_PAID CANCELLATION_REQUESTED FAILED PENDING PROCESSING
    PARTIALLY_PAID:         PARTIALLY_PAID COMPLETED REFUND_PROCESSING PARTIALLY_REFUNDED REFUNDED CANCELLATION_REQUESTED
    COMPLETED:              REFUND_PROCESSING PARTIALLY_REFUNDED REFUNDED PARTIALLY_PAID
    REFUND_PROCESSING:      COMPLETED PARTIALLY_REFUNDED REFUNDED PARTIALLY_PAID
    PARTIALLY_REFUNDED:     PARTIALLY_REFUNDED REFUND_PROCESSING REFUNDED
    CANCELLATION_REQUESTED: CANCELLED REFUNDED AUTHORIZED PARTIALLY_AUTHORIZED PENDING PARTIALLY_PAID COMPLETED
    FAILED:                 PROCESSING COMPLETED PARTIALLY_PAID
    CANCELLED:              COMPLETED PARTIALLY_PAID
    """,
)
"""The moves of an order (contract 2.2, and section 8.3 for a further part on a split order). REFUNDED is final.

PARTIALLY_PAID never leads to PROCESSING or CANCELLED, which 2.2 names for an order on which no money is or was held: such an
order is not PARTIALLY_PAID (ADR 0021).
"""

REPORTED_EDGES: Final = _edges(
    OrderStatus,
    """
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: COMPLETED
    REFUNDED:               PARTIALLY_REFUNDED PARTIALLY_PAID COMPLETED
    CANCELLATION_REQUESTED: PARTIALLY_REFUNDED
    """,
)
"""Where only a processor's or a bank's word leads that comes after all: money reported late, a refund that failed while the
order was being cancelled. Money is real, so it moves an order that was final."""

OLDER_PART_EDGES: Final = _edges(
    OrderStatus,
    """
    REFERENCE_GENERATED: AUTHORIZED PARTIALLY_AUTHORIZED ACTION_REQUIRED PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    REFERENCE_GENERATED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED CANCELLATION_REQUESTED
    AUTHORIZED: REFERENCE_GENERATED PARTIALLY_AUTHORIZED ACTION_REQUIRED PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    AUTHORIZED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    PARTIALLY_AUTHORIZED: REFERENCE_GENERATED AUTHORIZED ACTION_REQUIRED PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    PARTIALLY_AUTHORIZED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    ACTION_REQUIRED: REFERENCE_GENERATED PARTIALLY_AUTHORIZED PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    ACTION_REQUIRED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED CANCELLATION_REQUESTED
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: REFERENCE_GENERATED PARTIALLY_AUTHORIZED ACTION_REQUIRED
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: CANCELLATION_REQUESTED
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: REFERENCE_GENERATED PARTIALLY_AUTHORIZED ACTION_REQUIRED
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED CANCELLATION_REQUESTED
    CANCELLATION_REQUESTED: PROCESSING REFERENCE_GENERATED ACTION_REQUIRED PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED
    CANCELLATION_REQUESTED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    """,
)
"""On a split order alone: its newest part ended, and the status of the newest one that is left shows (moves that the table
has as well are not named again)."""


def is_legal_move(origin: OrderStatus | None, target: OrderStatus, *, split: bool) -> bool:
    """Whether an order may go from one status to the other: as the contract's table says, or by the two rules beside it."""
    move = (origin, target)
    return move in ORDER_EDGES or move in REPORTED_EDGES or (split and move in OLDER_PART_EDGES)


LIVE: Final = frozenset(
    {
        PaymentStatus.CREATED,
        PaymentStatus.PENDING_AUTHORIZATION,
        PaymentStatus.REQUIRES_ACTION,
        PaymentStatus.AUTHORIZED,
        PaymentStatus.PARTIALLY_AUTHORIZED,
        PaymentStatus.PENDING_CAPTURE,
        PaymentStatus.CAPTURING,
        PaymentStatus.PENDING_CANCELLATION,
    }
)
"""A payment that may still bring money, and that has brought none."""

_WAITING_FOR: Final = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.DISPLAY_REFERENCE: OrderStatus.REFERENCE_GENERATED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
    None: OrderStatus.ACTION_REQUIRED,
}


def derive_status(order: Order) -> OrderStatus:
    """The status of an order, from its payments and its two closing words alone (contract 2.2)."""
    paid, refunded = order.amount_paid, order.amount_refunded
    net = paid - refunded
    if order.closed and net <= 0:
        return OrderStatus.REFUNDED if refunded > 0 else OrderStatus.CANCELLED
    if order.cancel_requested:
        return OrderStatus.CANCELLATION_REQUESTED
    if any(payment.status is PaymentStatus.PENDING_REFUND for payment in order.payments):
        return OrderStatus.REFUND_PROCESSING
    if refunded > 0 and not order.terms.allow_partials:
        return OrderStatus.REFUNDED if net <= 0 else OrderStatus.PARTIALLY_REFUNDED
    if paid > 0:  # even where a split order was refunded in full: it waits for its next part
        return OrderStatus.COMPLETED if net >= order.amount else OrderStatus.PARTIALLY_PAID
    for payment in reversed(order.payments):
        if payment.status in LIVE:
            return _status_while(payment)
    return _status_without_live_payment(order)


def _status_while(payment: Payment) -> OrderStatus:
    """The order's status while this is its newest live payment and no money is held."""
    match payment.status:
        case PaymentStatus.REQUIRES_ACTION:
            return _WAITING_FOR[payment.next_action]
        case PaymentStatus.CREATED | PaymentStatus.PENDING_AUTHORIZATION:
            return OrderStatus.PROCESSING
        case PaymentStatus.PENDING_CANCELLATION:
            return OrderStatus.CANCELLATION_REQUESTED
        case _:
            granted_less = payment.authorized < payment.amount
            return OrderStatus.PARTIALLY_AUTHORIZED if granted_less else OrderStatus.AUTHORIZED


def _status_without_live_payment(order: Order) -> OrderStatus:
    """Section 8.2: an attempt that failed ends an order of one tender, one that expired gives a pending one back."""
    if not order.payments or order.terms.allow_partials:
        return OrderStatus.PENDING
    expired = order.payments[-1].status is PaymentStatus.EXPIRED
    return OrderStatus.PENDING if expired and order.terms.pending else OrderStatus.FAILED
