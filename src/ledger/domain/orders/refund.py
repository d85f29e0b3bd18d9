"""The state of what happens to captured money: refunds with the part of each payment, disputes, settlement batches.

Never read an order's refunded total here: it is the sum over its payments. A refund records one part per payment.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.terms import Destination, DestinationType
from ledger.py311_speedups import fast_members


@fast_members
class RefundStatus(StrEnum):
    """The progress of a refund, or of one payment's part of it."""

    PENDING = "PENDING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class Dispute(Struct, frozen=True):
    """An open dispute: the payer contests `reported_amount` at the bank, of which the payment held `amount`.

    Both are gross, in minor units. `reason` is the payer's, as the processor names it.
    """

    dispute_id: str
    amount: Decimal
    reported_amount: Decimal
    reason: str | None = None


class ClosedDispute(Struct, frozen=True):
    """A dispute that has ended: `lost` is the amount that the bank reported to take, zero if the merchant won.

    `taken` is what it took of the money that the payment held. It is there again if it takes money that comes back.
    """

    dispute_id: str
    lost: Decimal
    taken: Decimal = ZERO


class SettlementBatch(Struct, frozen=True):
    """The settlement batch that last listed the payment, and how far it is: PENDING_SETTLEMENT, SETTLED or CAPTURED.

    CAPTURED is a batch that was refused. `fee` is what the processor keeps for the payment, with its tax, None if it is
    not known: minor units of `fee_currency`, None for the payment's own.
    """

    batch_id: str
    status: PaymentStatus
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class RefundSuccess(Struct, frozen=True, kw_only=True):
    """When a part of a refund was carried out, and its place among what moved the order's money.

    It came after `receipts_before` receipts of money, and is the `ordinal`-th part that was carried out.
    """

    at: datetime
    receipts_before: int
    ordinal: int


class RefundPart(Struct, frozen=True, kw_only=True):
    """One payment's part of a refund: `amount`, gross, in minor units.

    `before` is the payment's refunded total before this part: the split of section 4.4 needs it. `ordinal` is the place
    of the part's entry in the payment's history.

    A payout has a `destination_type`, and a `destination` unless it is MANUAL, or PAYING_ACCOUNT at a processor that
    alone knows the account. `came_back` is True once its money is held again after a success. `is_final` is True once
    the processor has reported that it failed for good: it never succeeds later.
    `by_merchant`: the merchant pays it out, and no processor has it. `paid_at` and
    `payout_reference` are what the merchant has confirmed.
    """

    payment_id: UUID
    amount: Decimal
    before: Decimal
    ordinal: int
    status: RefundStatus = RefundStatus.PENDING
    processor_reference: str | None = None
    message: str | None = None
    was_not_sent: bool = False
    came_back: bool = False
    is_final: bool = False
    success: RefundSuccess | None = None
    destination_type: DestinationType | None = None
    destination: Destination | None = None
    by_merchant: bool = False
    paid_at: datetime | None = None
    payout_reference: str | None = None

    @property
    def is_paid_out_by_hand(self) -> bool:
        """Whether the part waits for the merchant, who pays it out or names an account."""
        return self.status is RefundStatus.PENDING and self.destination_type is DestinationType.MANUAL


class Refund(Struct, frozen=True, kw_only=True):
    """A refund of an order: of one payment, or across several."""

    refund_id: UUID
    reason: str
    at: datetime
    external_id: str | None = None
    parts: tuple[RefundPart, ...] = ()

    @property
    def amount(self) -> Decimal:
        """The requested amount, gross of the surcharge, in minor units."""
        return sum((part.amount for part in self.parts), ZERO)

    @property
    def status(self) -> RefundStatus:
        """PENDING while a part is, then FAILED if a part failed: half a refund must not look like a whole one."""
        statuses = {part.status for part in self.parts}
        precedence = (RefundStatus.PENDING, RefundStatus.FAILED, RefundStatus.SUCCEEDED)
        return next(status for status in precedence if status in statuses)

    @property
    def was_not_sent(self) -> bool:
        """Whether it is certain that no processor received any part of this refund."""
        return all(part.was_not_sent for part in self.parts)

    @property
    def has_no_answer(self) -> bool:
        """Whether a processor has yet to confirm that it received a part of this refund."""
        waiting = (part for part in self.parts if part.status is RefundStatus.PENDING and not part.by_merchant)
        return any(part.processor_reference is None for part in waiting)

    def part(self, payment_id: UUID) -> RefundPart | None:
        """Returns the part of this payment, or None if the payment has no part in the refund."""
        return next((part for part in self.parts if part.payment_id == payment_id), None)


def returned_refund_id(refund_id: UUID, payment_id: UUID) -> UUID:
    """Returns the id of the refund that has what a failed refund gave back of a payment all the same."""
    return uuid5(refund_id, f"returned:{payment_id}")


def refunded_status(captured: Decimal, refunded: Decimal) -> PaymentStatus:
    """Returns the status of a payment by its captured and its refunded total."""
    return PaymentStatus.REFUNDED if refunded >= captured else PaymentStatus.PARTIALLY_REFUNDED
