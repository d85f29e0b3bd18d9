"""What is true of a payment order: the state that its events fold into.

The rule a stranger would break: no total is ever stored or incremented. Every sum is recomputed from the payments, so
a missing or doubled step cannot hide in a counter.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.money import ZERO, quantum_of
from ledger.orders.events import AbandonedBecause, AuthorizationRequested, OrderCreated, PaymentStarted, RefusedBy
from ledger.orders.status import NextAction, OrderStatus, PaymentStatus, derive_status
from ledger.orders.surcharge import Parts, parts_of_capture, parts_of_refund
from ledger.orders.terms import MethodType

__all__ = [
    "Entry",
    "EntryAction",
    "EntryStatus",
    "Failure",
    "Intent",
    "NextAction",
    "Order",
    "OrderStatus",
    "Payment",
    "PaymentStatus",
]

_RESERVING: Final = frozenset(
    {
        PaymentStatus.CREATED,
        PaymentStatus.PENDING_AUTHORIZATION,
        PaymentStatus.AUTHORIZED,
        PaymentStatus.PARTIALLY_AUTHORIZED,
        PaymentStatus.PENDING_CAPTURE,
        PaymentStatus.CAPTURING,
        PaymentStatus.PENDING_CANCELLATION,
    }
)


class EntryAction(StrEnum):
    """The step of a payment that an entry (`PaymentEvent` outside) tells of (contract N78); grows with the operations."""

    CREATION = "CREATION"
    AUTHORIZATION = "AUTHORIZATION"
    CAPTURE = "CAPTURE"


class EntryStatus(StrEnum):
    """How the step that an entry tells of stands."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class Entry(Struct, frozen=True):
    """One step of a payment, as `paymentEvents` shows it: begun at `at`, settled in place. `amount` in minor units."""

    action: EntryAction
    status: EntryStatus
    amount: Decimal | None
    at: datetime
    reason: str | None = None


class Intent(Struct, frozen=True, kw_only=True):
    """A call to the processor that was announced and has no outcome yet. `deadline_at` is real time.

    `action` is what was asked for; `capture` says that an authorisation was to be captured in the same call; `unknown`
    that the call has been made and nobody answered in time.
    """

    action: EntryAction = EntryAction.AUTHORIZATION
    processor: str
    idempotency_key: str
    amount: Decimal
    capture: bool
    deadline_at: datetime
    unknown: bool = False


class Failure(Struct, frozen=True, kw_only=True):
    """Why a payment failed: somebody refused it, or it was given up. `code` is a decline code of the contract (5.1)."""

    code: str
    message: str | None
    at: datetime
    refused_by: RefusedBy | None = None
    given_up: AbandonedBecause | None = None


class Payment(Struct, frozen=True, kw_only=True):
    """One payment of an order. Amounts are gross of the surcharge unless they say subtotal.

    `captured` and `refunded` are what the processor said it took and gave back, ever; a late capture counts even where
    the payment's status is final. `capture_ordinal` says the how-manieth payment of its order this was to bring money,
    0 while it has brought none.
    """

    started: PaymentStarted
    status: PaymentStatus
    updated_at: datetime
    requested: AuthorizationRequested | None = None
    next_action: NextAction | None = None
    authorized: Decimal = ZERO
    captured: Decimal = ZERO
    refunded: Decimal = ZERO
    capture_ordinal: int = 0
    processor_reference: str | None = None
    authorization_code: str | None = None
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

    @property
    def was_not_sent(self) -> bool:
        """Whether it is certain that the processor never heard of this payment."""
        return self.failure is not None and self.failure.given_up is AbandonedBecause.NOT_SENT

    @property
    def asked_parts(self) -> Parts:
        return Parts(self.started.subtotal, self.started.surcharge)

    def captured_parts(self, quantum: Decimal) -> Parts:
        return parts_of_capture(self.captured, self.asked_parts, quantum)

    def refunded_parts(self, quantum: Decimal) -> Parts:
        return parts_of_refund(self.refunded, self.captured_parts(quantum), quantum)

    def reserved_subtotal(self, quantum: Decimal) -> Decimal:
        """The part of the order's subtotal that a card authorisation, granted or being asked, may still take.

        Payer authentications and references reserve nothing (section 8.3).
        """
        if self.status not in _RESERVING or self.started.method.type is not MethodType.CARD:
            return ZERO
        if not self.authorized:
            return self.started.subtotal
        granted = parts_of_capture(self.authorized, self.asked_parts, quantum)
        return max(ZERO, granted.subtotal - self.captured_parts(quantum).subtotal)


class Order(Struct, frozen=True, kw_only=True, dict=True):
    """A payment order: its unchanging terms, its payments oldest first, and the two words that end it.

    All sums are in minor units of the order's currency.
    """

    terms: OrderCreated
    updated_at: datetime
    payments: tuple[Payment, ...] = ()
    cancel_requested: bool = False
    closed: bool = False

    @cached_property
    def status(self) -> OrderStatus:
        return derive_status(self)

    @cached_property
    def quantum(self) -> Decimal:
        """The rounding step: every derived amount is a multiple of it (contract N4)."""
        return quantum_of(self.terms.amount)

    @property
    def subtotal_amount(self) -> Decimal:
        """What the merchant asked for: never changes."""
        return self.terms.amount

    @cached_property
    def amount(self) -> Decimal:
        """What the payer pays in all: subtotal plus surcharge."""
        return self.terms.amount + (self.surcharge_amount or ZERO)

    @cached_property
    def surcharge_amount(self) -> Decimal | None:
        """The surcharge part of `amount`, or None where none applies (section 4.3)."""
        if self.terms.surcharge is None:
            return None
        return self._landed_surcharge() if self.terms.allow_partials else self._quoted_surcharge()

    @cached_property
    def amount_paid(self) -> Decimal:
        """Σ captured over all payments, ever: a historical sum that refunds do not lower."""
        return sum((payment.captured for payment in self.payments), ZERO)

    @cached_property
    def amount_refunded(self) -> Decimal:
        """Σ refunded over all payments, ever."""
        return sum((payment.refunded for payment in self.payments), ZERO)

    @property
    def amount_pending(self) -> Decimal:
        """The live balance. On a split order it is exactly the unpaid subtotal, free of surcharge."""
        return max(ZERO, self.amount - (self.amount_paid - self.amount_refunded))

    @property
    def overpaid_amount(self) -> Decimal:
        """Money that is held beyond what the order asks for."""
        return max(ZERO, self.amount_paid - self.amount_refunded - self.amount)

    @cached_property
    def unpaid_subtotal(self) -> Decimal:
        """The part of the requested amount that no held money covers: what a next payment has to pay, before surcharge."""
        return max(ZERO, self.terms.amount - sum(map(self._held_subtotal, self.payments), ZERO))

    @property
    def reserved(self) -> Decimal:
        """The part of `unpaid_subtotal` that card authorisations may still take: not to be promised twice."""
        return sum((payment.reserved_subtotal(self.quantum) for payment in self.payments), ZERO)

    @property
    def open_intent(self) -> Intent | None:
        """The call to a processor that has waited longest for its outcome, by its deadline."""
        intents = (payment.intent for payment in self.payments if payment.intent is not None)
        return min(intents, key=lambda intent: intent.deadline_at, default=None)

    def payment(self, payment_id: UUID) -> Payment:
        """The payment with this id, which is one of this order's."""
        for payment in reversed(self.payments):
            if payment.started.payment_id == payment_id:
                return payment
        raise AssertionError("the payment is not this order's")

    def has_payment(self, payment_id: UUID) -> bool:
        return any(payment.started.payment_id == payment_id for payment in self.payments)

    def payment_called(self, external_id: str) -> Payment | None:
        """The payment that the merchant gave this id, which is unique within the order (section 8.7)."""
        return next((payment for payment in self.payments if payment.started.external_id == external_id), None)

    def _held_subtotal(self, payment: Payment) -> Decimal:
        held = payment.captured_parts(self.quantum).subtotal
        return held - payment.refunded_parts(self.quantum).subtotal if payment.refunded else held

    def _landed_surcharge(self) -> Decimal:
        """Split tender: what came in with the parts, less what went back with their refunds."""
        captured = sum((payment.captured_parts(self.quantum).surcharge for payment in self.payments), ZERO)
        refunded = sum((payment.refunded_parts(self.quantum).surcharge for payment in self.payments), ZERO)
        return captured - refunded

    def _quoted_surcharge(self) -> Decimal | None:
        """Single tender: what came with the money that covered the order, plus the latest quote while it is not covered.

        Money that arrives after the order was covered (a late capture) is overpaid as a whole: it must not raise the
        amount of an order that is already paid.
        """
        uncovered, total, counted = self.terms.amount, ZERO, list[Payment]()
        for payment in sorted(self.payments, key=lambda payment: payment.capture_ordinal):
            if payment.captured and uncovered > 0:
                parts = payment.captured_parts(self.quantum)
                uncovered, total = uncovered - parts.subtotal, total + parts.surcharge
                counted.append(payment)
        if uncovered > 0 and self.payments:
            latest = self.payments[-1]
            total += latest.started.surcharge - latest.captured_parts(self.quantum).surcharge
            counted.append(latest)
        return total if any(map(self._is_surcharged, counted)) else None

    def _is_surcharged(self, payment: Payment) -> bool:
        policy = self.terms.surcharge
        return policy is not None and payment.started.method.type in policy.methods
