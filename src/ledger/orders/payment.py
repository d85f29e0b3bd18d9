"""What is true of one payment of an order, and how its money divides into subtotal and surcharge.

The rule a stranger would break: `status` tells how far a payment came, the amounts tell what the processor did. A
capture that was reported late counts in the amounts even where the status is final.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.money import ZERO
from ledger.orders.events import AbandonedBecause, AuthorizationRequested, PaymentStarted, RefusedBy
from ledger.orders.status import NextAction, PaymentStatus
from ledger.orders.surcharge import Parts, parts_of_capture, parts_of_refund
from ledger.orders.terms import MethodType

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

    def wanted_parts(self, quantum: Decimal) -> Parts:
        """What was captured of what was asked for; anything beyond is overpaid."""
        return parts_of_capture(min(self.captured, self.amount), self.asked_parts, quantum)

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
