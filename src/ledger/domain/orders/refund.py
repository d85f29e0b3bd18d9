"""What is true of a refund: one wish of the merchant, and the part of it that each payment gives back.

The rule a stranger would break: a refund holds no total that counts. What an order has refunded is read off its payments;
this tells which wish took which part.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.py311_speedups import fast_members


@fast_members
class RefundStatus(StrEnum):
    """How a refund, or one payment's part of it, stands."""

    PENDING = "PENDING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class RefundPart(Struct, frozen=True, kw_only=True):
    """What one payment gives back, gross. `before` is what it had given back earlier: the parts of 4.4 follow from it.

    `ordinal` is the place of its entry among the payment's.
    """

    payment_id: UUID
    amount: Decimal
    before: Decimal
    ordinal: int
    status: RefundStatus = RefundStatus.PENDING
    processor_reference: str | None = None
    message: str | None = None
    was_not_sent: bool = False


class Refund(Struct, frozen=True, kw_only=True):
    """A refund of an order: of one payment, or across several."""

    refund_id: UUID
    reason: str
    at: datetime
    external_id: str | None = None
    parts: tuple[RefundPart, ...] = ()

    @property
    def amount(self) -> Decimal:
        """What was asked for, gross of the surcharge."""
        return sum((part.amount for part in self.parts), ZERO)

    @property
    def status(self) -> RefundStatus:
        """PENDING while a part is; then FAILED where a part failed, so that nobody takes half a refund for a whole one."""
        statuses = {part.status for part in self.parts}
        worst = (RefundStatus.PENDING, RefundStatus.FAILED, RefundStatus.SUCCEEDED)
        return next(status for status in worst if status in statuses)

    @property
    def was_not_sent(self) -> bool:
        """Whether it is certain that no processor ever heard of this refund."""
        return all(part.was_not_sent for part in self.parts)

    @property
    def has_no_answer(self) -> bool:
        """Whether a processor has yet to say that it has heard of a part of this refund."""
        return any(part.status is RefundStatus.PENDING and part.processor_reference is None for part in self.parts)

    def part(self, payment_id: UUID) -> RefundPart | None:
        """The part of this payment, where it has one."""
        return next((part for part in self.parts if part.payment_id == payment_id), None)
