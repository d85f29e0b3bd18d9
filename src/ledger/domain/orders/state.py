"""What is true of a payment order: the state that its events fold into.

The rule a stranger would break: no total is ever stored or incremented. Every sum is recomputed from the payments, so
a missing or doubled step cannot hide in a counter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import ZERO, quantum_of, share
from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.payment import Inflow, Intent, Payment
from ledger.domain.orders.refund import Refund
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.surcharge import NOTHING, SurchargeSplit
from ledger.domain.py311_speedups import lazy


class Cancellation(Struct, frozen=True):
    """The merchant's last word that the order shall be cancelled."""

    cancellation_id: UUID | None
    reason: str | None
    refund_captured: bool = False


class Order(Struct, frozen=True, kw_only=True, dict=True):
    """A payment order: its unchanging terms, its payments and refunds oldest first, the words that end it,
    and whether its payer was forgotten.

    All sums are in minor units of the order's currency.
    """

    terms: OrderCreated
    updated_at: datetime
    payments: tuple[Payment, ...] = ()
    cancel_requested: bool = False
    closed: bool = False
    payer_forgotten: bool = False
    refunds: tuple[Refund, ...] = ()
    cancellation: Cancellation | None = None

    @lazy
    def status(self) -> OrderStatus:
        return derive_status(self)

    @lazy
    def quantum(self) -> Decimal:
        """The rounding step: every derived amount is a multiple of it (contract N4)."""
        return quantum_of(self.terms.amount)

    @property
    def subtotal_amount(self) -> Decimal:
        """What the merchant asked for: never changes."""
        return self.terms.amount

    @lazy
    def amount(self) -> Decimal:
        """What the payer pays in all: subtotal plus surcharge."""
        return self.terms.amount + (self.surcharge_amount or ZERO)

    @lazy
    def surcharge_amount(self) -> Decimal | None:
        """The surcharge part of `amount`, or None where none applies (section 4.3)."""
        if self.terms.surcharge is None:
            return None
        return self._landed_surcharge() if self.terms.allow_partials else self._quoted_surcharge()

    @lazy
    def amount_paid(self) -> Decimal:
        """Σ captured over all payments, ever: a historical sum that refunds do not lower."""
        return sum((payment.captured for payment in self.payments), ZERO)

    @lazy
    def amount_refunded(self) -> Decimal:
        """Σ refunded over all payments, ever."""
        return sum((payment.refunded for payment in self.payments), ZERO)

    @property
    def amount_pending(self) -> Decimal:
        """The live balance. On a split order it is exactly the unpaid subtotal, free of surcharge."""
        return max(ZERO, self.amount - (self.amount_paid - self.amount_refunded))

    @property
    def net(self) -> Decimal:
        """The money that is held: what was captured and not given back."""
        return self.amount_paid - self.amount_refunded

    @property
    def late_deposit(self) -> bool:
        """Whether money came on a reference after its payment had ended."""
        return any(payment.late for payment in self.payments)

    @property
    def refundable(self) -> Decimal:
        """What may still be given back by all payments together, gross."""
        return sum((payment.refundable for payment in self.payments), ZERO)

    @property
    def overpaid_amount(self) -> Decimal:
        """Money that is held beyond what the order asks for."""
        return max(ZERO, self.amount_paid - self.amount_refunded - self.amount)

    @lazy
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

    def payment_by_external_id(self, external_id: str) -> Payment | None:
        """The payment that the merchant gave this id, which is unique within the order (section 8.7).

        One that never left us holds no id: it was answered 503, and is meant to be asked for again.
        """
        named = (payment for payment in self.payments if payment.started.external_id == external_id)
        return next((payment for payment in named if not payment.was_not_sent), None)

    def refund(self, refund_id: UUID) -> Refund | None:
        """The refund with this id, where the order has it."""
        return next((refund for refund in self.refunds if refund.refund_id == refund_id), None)

    def refund_by_external_id(self, external_id: str) -> Refund | None:
        """The refund that the merchant gave this id, which is unique within the order; as for payments."""
        named = (refund for refund in self.refunds if refund.external_id == external_id)
        return next((refund for refund in named if not refund.was_not_sent), None)

    def _held_subtotal(self, payment: Payment) -> Decimal:
        held = payment.captured_split(self.quantum).subtotal
        return held - payment.refunded_parts(self.quantum).subtotal if payment.refunded else held

    def _landed_surcharge(self) -> Decimal:
        """Split tender: what came in with the parts, less what went back with their refunds."""
        captured = sum((payment.captured_split(self.quantum).surcharge for payment in self.payments), ZERO)
        refunded = sum((payment.refunded_parts(self.quantum).surcharge for payment in self.payments), ZERO)
        return captured - refunded

    def _quoted_surcharge(self) -> Decimal | None:
        """Single tender: what came with the money that covered the order, plus the latest quote while it is not covered.

        Money that arrives when the order is covered already (a late capture) is overpaid as a whole: it must not make
        an order dearer that is paid.
        """
        uncovered, total, applies = self.terms.amount, ZERO, False
        for payment, parts in self._contributions():
            if uncovered <= 0:
                break
            applies = applies or self._is_surcharged(payment)
            if parts.subtotal <= uncovered:
                total += parts.surcharge
            else:
                total += share(uncovered, parts.surcharge, parts.subtotal, self.quantum)
            uncovered -= parts.subtotal
        return total if applies else None

    def _contributions(self) -> Iterator[tuple[Payment, SurchargeSplit]]:
        """What came of what its payment asked for, in the order in which it came, then what the latest may add."""
        for payment, before, arrival in self._arrivals():
            yield payment, _between(payment.wanted_split(self.quantum, arrival.captured), before)
        if self.payments:
            latest = self.payments[-1]
            yield latest, _between(latest.requested_split, latest.wanted_split(self.quantum))

    def _arrivals(self) -> list[tuple[Payment, SurchargeSplit, Inflow]]:
        """All money that came, in the order in which it did, each with what its payment had brought before."""
        came: list[tuple[Payment, SurchargeSplit, Inflow]] = []
        for payment in self.payments:
            before = NOTHING
            for arrival in payment.arrivals:
                came.append((payment, before, arrival))
                before = payment.wanted_split(self.quantum, arrival.captured)
        return sorted(came, key=lambda one: one[2].nth)

    def _is_surcharged(self, payment: Payment) -> bool:
        policy = self.terms.surcharge
        return policy is not None and payment.started.method.type in policy.methods


def _between(after: SurchargeSplit, before: SurchargeSplit) -> SurchargeSplit:
    return SurchargeSplit(after.subtotal - before.subtotal, after.surcharge - before.surcharge)


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
