"""What is true of a payment order: the state that its events fold into.

The rule a stranger would break: no total is ever stored or incremented. Every sum is recomputed from the payments, so
a missing or doubled step cannot hide in a counter.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from uuid import UUID

from msgspec import Struct

from ledger.orders.events import OrderCreated, PaymentStarted, RefusedBy


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


class NextAction(StrEnum):
    """What a payment in REQUIRES_ACTION waits for."""

    DEVICE_DATA = "DEVICE_DATA"
    CHALLENGE = "CHALLENGE"
    REDIRECT = "REDIRECT"
    DISPLAY_REFERENCE = "DISPLAY_REFERENCE"


class EntryAction(StrEnum):
    """What an entry (`PaymentEvent` outside) tells of (contract N78); grows with the operations."""

    CREATION = "CREATION"
    AUTHORIZATION = "AUTHORIZATION"
    CAPTURE = "CAPTURE"


class EntryStatus(StrEnum):
    """How the step that an entry tells of went."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class Entry(Struct, frozen=True):
    """One line of a payment's history, as `paymentEvents` shows it. `amount` in minor units."""

    action: EntryAction
    status: EntryStatus
    amount: Decimal | None
    at: datetime
    reason: str | None = None


class Intent(Struct, frozen=True, kw_only=True):
    """A call to the processor that was announced and has no outcome yet. `deadline_at` is real time."""

    processor: str
    idempotency_key: str
    amount: Decimal
    capture: bool
    deadline_at: datetime


class Failure(Struct, frozen=True, kw_only=True):
    """Why a payment failed. `code` is a decline code of the contract (5.1)."""

    code: str
    message: str | None
    refused_by: RefusedBy
    at: datetime


class Payment(Struct, frozen=True, kw_only=True):
    """One payment of an order. Amounts are gross of the surcharge unless they say subtotal."""

    started: PaymentStarted
    status: PaymentStatus
    updated_at: datetime
    next_action: NextAction | None = None
    authorized: Decimal = Decimal(0)
    captured: Decimal = Decimal(0)
    refunded: Decimal = Decimal(0)
    intent: Intent | None = None
    failure: Failure | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def payment_id(self) -> UUID:
        return self.started.payment_id

    @property
    def amount(self) -> Decimal:
        """What was asked for: subtotal part plus its surcharge."""
        return self.started.subtotal + self.started.surcharge


class Order(Struct, frozen=True, kw_only=True, dict=True):
    """A payment order: its unchanging terms, its payments oldest first, and the two words that end it."""

    terms: OrderCreated
    updated_at: datetime
    payments: tuple[Payment, ...] = ()
    cancel_requested: bool = False
    closed: bool = False

    @cached_property
    def amount_paid(self) -> Decimal:
        """Σ captured over all payments, ever: a historical sum that refunds do not lower."""
        return sum((payment.captured for payment in self.payments), Decimal(0))

    # amount, surcharge_amount, amount_refunded, amount_pending, quantum, status … to be completed by the core's author
