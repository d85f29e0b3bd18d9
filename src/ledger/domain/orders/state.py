"""The state of a payment order, folded from its events, with its sums and its derived status.

Never store or increment a total: every sum is recomputed from the payments, so that no counter hides a missing or
doubled step.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.fiscal_data import FiscalData
from ledger.domain.money import ZERO, quantum_of, share
from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.reminders import Reminders
from ledger.domain.orders.invoices.state import Invoices
from ledger.domain.orders.payment import Inflow, Intent, Payment
from ledger.domain.orders.refund import Refund
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.surcharge import NOTHING, SurchargeSplit
from ledger.py311_speedups import lazy

_STATED: Final = ("tax_id", "legal_name", "tax_system", "cfdi_use", "zip_code")
"""What an invoice states of its receiver."""


class Cancellation(Struct, frozen=True):
    """The latest cancellation of the order: requested and refused, requested and pending, or carried out."""

    cancellation_id: UUID | None
    reason: str | None
    refund_captured: bool = False


class Order(Struct, frozen=True, kw_only=True, dict=True):
    """A payment order: its terms as they are now, and its payments and refunds, oldest first. Sums are in minor units.

    `cancel_requested` is True while a cancellation is pending, `closed` after it was carried out; `cancellation` is the
    latest one. `payer_forgotten` is True after the erasure of the order's customer. `invoices` is None if the order
    has no electronic invoices, `reminders` if it has no due date. `global_invoice_id` is the global invoice that states
    its money, None if there is none. `cancelled_global_uuid` is the fiscal UUID of the latest one that was cancelled.
    """

    terms: OrderCreated
    updated_at: datetime
    payments: tuple[Payment, ...] = ()
    cancel_requested: bool = False
    closed: bool = False
    payer_forgotten: bool = False
    refunds: tuple[Refund, ...] = ()
    cancellation: Cancellation | None = None
    invoices: Invoices | None = None
    reminders: Reminders | None = None
    global_invoice_id: UUID | None = None
    cancelled_global_uuid: UUID | None = None

    @lazy
    def status(self) -> OrderStatus:
        return derive_status(self)

    @lazy
    def quantum(self) -> Decimal:
        """The rounding step in minor units: every derived amount is a multiple of it (contract N4)."""
        return quantum_of(self.terms.amount)

    @property
    def subtotal_amount(self) -> Decimal:
        """The amount that the merchant requested, without surcharge. Once there is a payment, it never changes."""
        return self.terms.amount

    @lazy
    def amount(self) -> Decimal:
        """The amount that the payer pays in all: subtotal plus surcharge."""
        return self.terms.amount + (self.surcharge_amount or ZERO)

    @lazy
    def surcharge_amount(self) -> Decimal | None:
        """The surcharge part of `amount`, or None if none applies (section 4.3)."""
        if self.terms.surcharge is None:
            return None
        return self._held_surcharge() if self.terms.allow_partials else self._quoted_surcharge()

    @lazy
    def amount_paid(self) -> Decimal:
        """Σ captured over all payments: a historical sum that refunds do not lower."""
        total = ZERO
        for payment in self.payments:
            total += payment.captured
        return total

    @lazy
    def amount_refunded(self) -> Decimal:
        """Σ refunded over all payments, chargebacks included."""
        total = ZERO
        for payment in self.payments:
            total += payment.refunded
        return total

    @lazy
    def amount_released(self) -> Decimal:
        """Σ released over all payments: what partial captures have left and no authorisation holds any more."""
        total = ZERO
        for payment in self.payments:
            total += payment.released
        return total

    @property
    def pending_released(self) -> Decimal:
        """The part of `amount_pending` that the merchant has let go by releases: no payer is asked for it.

        As in `amount_pending`, a surcharge is in it only on an order of one tender.
        """
        if not self.amount_released:
            return ZERO
        if not self.terms.allow_partials:
            return self.amount_released
        return sum((payment.released_split(self.quantum).subtotal for payment in self.payments), ZERO)

    @property
    def amount_pending(self) -> Decimal:
        """The open balance. On a split order it is exactly the unpaid subtotal, without surcharge."""
        return max(ZERO, self.amount - (self.amount_paid - self.amount_refunded))

    @property
    def net(self) -> Decimal:
        """The money that is held: captured minus refunded."""
        return self.amount_paid - self.amount_refunded

    @property
    def late_deposit(self) -> bool:
        """Whether a deposit arrived on a reference after its payment had ended."""
        return any(payment.late for payment in self.payments)

    @property
    def refundable(self) -> Decimal:
        """The amount that can still be refunded over all payments, gross."""
        return sum((payment.refundable for payment in self.payments), ZERO)

    @property
    def overpaid_amount(self) -> Decimal:
        """The money that is held beyond `amount`."""
        return max(ZERO, self.amount_paid - self.amount_refunded - self.amount)

    @lazy
    def unpaid_subtotal(self) -> Decimal:
        """The part of the subtotal that no held money covers: what the next payment has to pay, before surcharge."""
        return max(ZERO, self.terms.amount - sum(map(self._held_subtotal, self.payments), ZERO))

    @property
    def reserved(self) -> Decimal:
        """The part of `unpaid_subtotal` that card authorisations can still take: not available to a further payment."""
        return sum((payment.reserved_subtotal(self.quantum) for payment in self.payments), ZERO)

    @property
    def open_intent(self) -> Intent | None:
        """The call to a processor without an outcome that is over first."""
        intents = [payment.intent for payment in self.payments if payment.intent is not None]
        return min(intents, key=lambda intent: intent.over_at) if intents else None

    @property
    def is_fiscal(self) -> bool:
        """Whether the order is invoiced: fiscal data was given, even if it has been erased since."""
        return self.invoices is not None or self.terms.fiscal is not None

    @property
    def fiscal(self) -> FiscalData | None:
        """The receiver's data for the next document: those of the latest request to stamp, else those of the order."""
        given = None if self.invoices is None else self.invoices.enabled.fiscal
        return given or self.terms.fiscal

    @property
    def invoiced_to(self) -> FiscalData | None:
        """The receiver as the invoice states it. Until the invoice is sent to be stamped, and once it is cancelled, the
        data for the next one. After the erasure of its payer an order shows no receiver, also of later documents.
        """
        if self.payer_forgotten:
            return None
        invoice = None if self.invoices is None else self.invoices.invoice
        if invoice is None or invoice.is_cancelled or not invoice.has_receiver:
            return self.fiscal
        if invoice.stamp is None and invoice.intent is None:
            return self.fiscal
        stated = {name: getattr(invoice.terms.receiver, name) for name in _STATED}
        return replace(self.fiscal or FiscalData(), **stated)

    @lazy
    def call_deadline_at(self) -> datetime | None:
        """The earliest real time from which a call to a processor or a stamping provider without an outcome is over."""
        call, stamping = self.open_intent, None if self.invoices is None else self.invoices.open_intent
        if call is None or stamping is None:
            return call.over_at if call is not None else None if stamping is None else stamping.deadline_at
        return min(call.over_at, stamping.deadline_at)

    def payment(self, payment_id: UUID) -> Payment:
        """Returns the payment with this id. The caller knows that it belongs to this order."""
        for payment in reversed(self.payments):
            own_id = payment.started.payment_id
            if own_id is payment_id or own_id == payment_id:  # ids are compared by a function written in Python
                return payment
        raise AssertionError("the payment is not this order's")

    def has_payment(self, payment_id: UUID) -> bool:
        return any(payment.started.payment_id == payment_id for payment in self.payments)

    def payment_by_external_id(self, external_id: str) -> Payment | None:
        """Returns the payment with the merchant's own id, which is unique within the order, or None (section 8.7).

        A payment that was never sent to its processor does not occupy its id: the client got 503 and tries again.
        """
        named = (payment for payment in self.payments if payment.started.external_id == external_id)
        return next((payment for payment in named if not payment.was_not_sent), None)

    def refund(self, refund_id: UUID) -> Refund | None:
        """Returns the refund with this id, or None."""
        return next((refund for refund in self.refunds if refund.refund_id == refund_id), None)

    def refund_by_external_id(self, external_id: str) -> Refund | None:
        """Returns the refund with the merchant's own id, or None, by the same rule as `payment_by_external_id`."""
        named = (refund for refund in self.refunds if refund.external_id == external_id)
        return next((refund for refund in named if not refund.was_not_sent), None)

    def _held_subtotal(self, payment: Payment) -> Decimal:
        held = payment.captured_split(self.quantum).subtotal
        return held - payment.refunded_split(self.quantum).subtotal if payment.refunded else held

    def surcharge_parts(self) -> list[tuple[Payment, Decimal]]:
        """Returns what payments add to `surcharge_amount`, in minor units. One with several receipts of money is there
        for each.
        """
        return self._held_surcharges() if self.terms.allow_partials else self._quoted_surcharges()

    def _held_surcharge(self) -> Decimal:
        """Returns the surcharge of a split order: captured with its parts, minus refunded with them."""
        return sum((surcharge for _, surcharge in self._held_surcharges()), ZERO)

    def _held_surcharges(self) -> list[tuple[Payment, Decimal]]:
        quantum = self.quantum
        return [
            (payment, payment.captured_split(quantum).surcharge - payment.refunded_split(quantum).surcharge)
            for payment in self.payments
        ]

    def _quoted_surcharge(self) -> Decimal | None:
        """Returns the surcharge of an order of one tender, or None if no payment bears one."""
        parts = self._quoted_surcharges()
        if not any(self._is_surcharged(payment) for payment, _ in parts):
            return None
        return sum((surcharge for _, surcharge in parts), ZERO)

    def _quoted_surcharges(self) -> list[tuple[Payment, Decimal]]:
        """Returns the surcharge of the money that covers the order, and the quote of the latest payment while the order
        is not covered.

        Money that arrives after that (a late capture) is overpaid as a whole: it must not raise the price of a paid
        order.
        """
        uncovered, found = self.terms.amount, list[tuple[Payment, Decimal]]()
        for payment, parts in self._contributions():
            if uncovered <= 0:
                break
            if parts.subtotal <= uncovered:
                found.append((payment, parts.surcharge))
            else:
                found.append((payment, share(uncovered, parts.surcharge, parts.subtotal, self.quantum)))
            uncovered -= parts.subtotal
        return found

    def _contributions(self) -> Iterator[tuple[Payment, SurchargeSplit]]:
        """Yields the split of each receipt of money up to its payment's amount, oldest first; then the latest payment's
        open rest.
        """
        for payment, before, inflow in self._inflows():
            yield payment, _difference(payment.split_up_to_amount(self.quantum, inflow.captured), before)
        if self.payments:
            latest = self.payments[-1]
            yield latest, _difference(latest.requested_split, latest.split_up_to_amount(self.quantum))

    def _inflows(self) -> list[tuple[Payment, SurchargeSplit, Inflow]]:
        """Returns all receipts of money, oldest first: the payment, its split before the receipt, and the receipt."""
        inflows: list[tuple[Payment, SurchargeSplit, Inflow]] = []
        for payment in self.payments:
            before = NOTHING
            for inflow in payment.inflows:
                inflows.append((payment, before, inflow))
                before = payment.split_up_to_amount(self.quantum, inflow.captured)
        return sorted(inflows, key=lambda entry: entry[2].ordinal)

    def _is_surcharged(self, payment: Payment) -> bool:
        policy = self.terms.surcharge
        return policy is not None and payment.started.method.type in policy.methods


def _difference(after: SurchargeSplit, before: SurchargeSplit) -> SurchargeSplit:
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
"""The statuses of a live payment: one that can still bring money and has brought none."""


_STATUS_BY_ACTION: Final = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.DISPLAY_REFERENCE: OrderStatus.REFERENCE_GENERATED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
    None: OrderStatus.ACTION_REQUIRED,
}


def derive_status(order: Order) -> OrderStatus:
    """Returns the status of an order, from its terms, its payments, `cancel_requested` and `closed` (contract 2.2)."""
    if not order.amount_paid:
        return _status_without_money(order)
    refunded, net = order.amount_refunded, order.net
    if order.closed and net <= 0:
        return OrderStatus.REFUNDED
    if order.cancel_requested:
        return OrderStatus.CANCELLATION_REQUESTED
    if PaymentStatus.PENDING_REFUND in [payment.status for payment in order.payments]:
        return OrderStatus.REFUND_PROCESSING
    if refunded > 0 and not order.terms.allow_partials:
        return OrderStatus.REFUNDED if net <= 0 else OrderStatus.PARTIALLY_REFUNDED
    # also on a split order that was refunded in full: it takes a further part
    return OrderStatus.COMPLETED if net >= order.amount else OrderStatus.PARTIALLY_PAID


def _status_without_money(order: Order) -> OrderStatus:
    """Returns the status of an order of which nothing was ever captured."""
    if order.closed:
        return OrderStatus.CANCELLED
    if order.cancel_requested:
        return OrderStatus.CANCELLATION_REQUESTED
    for payment in reversed(order.payments):
        if payment.status in LIVE:
            return _status_with_live_payment(payment)
    return _status_without_live_payment(order)


def _status_with_live_payment(payment: Payment) -> OrderStatus:
    """Returns the status of an order without money whose newest live payment this is."""
    status = payment.status
    if status is PaymentStatus.REQUIRES_ACTION:
        return _STATUS_BY_ACTION[payment.next_action]
    if status is PaymentStatus.PENDING_AUTHORIZATION or status is PaymentStatus.CREATED:
        return OrderStatus.PROCESSING
    if status is PaymentStatus.PENDING_CANCELLATION:
        return OrderStatus.CANCELLATION_REQUESTED
    granted_less = payment.authorized < payment.amount
    return OrderStatus.PARTIALLY_AUTHORIZED if granted_less else OrderStatus.AUTHORIZED


def _status_without_live_payment(order: Order) -> OrderStatus:
    """Returns the status of an order without money and without a live payment (section 8.2).

    An order without payments, or a split order, is PENDING. A failed payment makes an order of one tender FAILED, an
    expired one makes it PENDING again if it was created pending.
    """
    if not order.payments or order.terms.allow_partials:
        return OrderStatus.PENDING
    expired = order.payments[-1].status is PaymentStatus.EXPIRED
    return OrderStatus.PENDING if expired and order.terms.pending else OrderStatus.FAILED
