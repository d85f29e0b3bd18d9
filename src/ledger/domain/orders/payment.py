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

from ledger.domain.money import ZERO
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthorizationRequested,
    PayerAuthenticated,
    PaymentStarted,
    ReferenceRequested,
    RefusedBy,
)
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.orders.surcharge import SurchargeSplit, split_capture, split_refund
from ledger.domain.orders.terms import AuthenticationSession, MethodType, Reference
from ledger.domain.py311_speedups import fast_members

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


UNCAPTURED: Final = frozenset(
    {PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED, PaymentStatus.PENDING_CAPTURE}
)
"""Granted, and neither being captured nor voided."""

HELD: Final = frozenset(
    {
        PaymentStatus.CAPTURED,
        PaymentStatus.PARTIALLY_CAPTURED,
        PaymentStatus.PENDING_SETTLEMENT,
        PaymentStatus.SETTLED,
        PaymentStatus.PARTIALLY_REFUNDED,
    }
)
"""Money that is here and that nobody is asking back (contract 2.1)."""


@fast_members
class EntryAction(StrEnum):
    """The step of a payment that an entry (`PaymentEvent` outside) tells of (contract N78)."""

    CREATION = "CREATION"
    REFERENCE = "REFERENCE"
    DEVICE_DATA = "DEVICE_DATA"
    AUTHENTICATION = "AUTHENTICATION"
    AUTHORIZATION = "AUTHORIZATION"
    CAPTURE = "CAPTURE"
    DEPOSIT = "DEPOSIT"
    CANCELLATION = "CANCELLATION"
    REFUND = "REFUND"
    SETTLEMENT = "SETTLEMENT"
    DISPUTE = "DISPUTE"
    CHARGEBACK = "CHARGEBACK"
    EXPIRATION = "EXPIRATION"


@fast_members
class EntryStatus(StrEnum):
    """How the step that an entry tells of stands."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class HistoryEntry(Struct, frozen=True):
    """One step of a payment, as `paymentEvents` shows it: begun at `at`, settled in place. `amount` in minor units."""

    action: EntryAction
    status: EntryStatus
    amount: Decimal | None
    at: datetime
    reason: str | None = None
    refund_id: UUID | None = None


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
    payment_id: UUID | None = None
    refund_id: UUID | None = None
    transaction_id: str | None = None


class Dispute(Struct, frozen=True):
    """What the payer contests at the bank, and nobody has decided yet: `amount`, gross."""

    dispute_id: str
    amount: Decimal


class Inflow(Struct, frozen=True):
    """Money that a payment brought: the how-manieth that came to its order, and what the payment had brought by then."""

    nth: int
    captured: Decimal


class ClosedDispute(Struct, frozen=True):
    """A dispute that has ended: `lost` is what the bank took, zero where it was won."""

    dispute_id: str
    lost: Decimal


class SettlementBatch(Struct, frozen=True):
    """The settlement batch that a payment was last named in. `status` as the payment's became by it."""

    batch_id: str
    status: PaymentStatus


class Failure(Struct, frozen=True, kw_only=True):
    """Why a payment failed: somebody refused it, or it was given up. `code` is a decline code of the contract (5.1)."""

    code: str
    message: str | None
    at: datetime
    refused_by: RefusedBy | None = None
    given_up: AbandonedBecause | None = None
    eci: str | None = None


class Payment(Struct, frozen=True, kw_only=True):
    """One payment of an order. Amounts are gross of the surcharge unless they say subtotal.

    `captured` and `refunded` are what the processor said it took and gave back, ever; a late capture counts even where
    the payment's status is final. `arrivals` says when it came, among all that came to the order.

    `processor_reference` is what the processor calls the payment, in every call about it: the name of its authorisation or its
    reference, whatever a capture of it was called.

    `returns_to` is the status before a refund, a dispute or a void, where it goes on when that comes to nothing. `refunding`
    is what a refund in flight has reserved; `charged_back` the part of `refunded` that a bank took. `keys` are the
    idempotency keys of all calls that were ever announced, `capture_keys` those that brought money. `decided_disputes` are
    those that were won or lost: whatever comes about one of them later is no news, or contradicts it.
    """

    started: PaymentStarted
    status: PaymentStatus
    updated_at: datetime
    requested: AuthorizationRequested | None = None
    next_action: NextAction | None = None
    authorized: Decimal = ZERO
    captured: Decimal = ZERO
    refunded: Decimal = ZERO
    arrivals: tuple[Inflow, ...] = ()
    processor_reference: str | None = None
    authorization_code: str | None = None
    intent: Intent | None = None
    failure: Failure | None = None
    entries: tuple[HistoryEntry, ...] = ()
    returns_to: PaymentStatus | None = None
    keys: tuple[str, ...] = ()
    capture_keys: tuple[str, ...] = ()
    lapses_at: datetime | None = None
    captured_at: datetime | None = None
    capture_due_at: datetime | None = None
    capture_amount: Decimal = ZERO
    capture_delay_s: int = 0
    cancel_asked: bool = False
    void_refused: bool = False
    action_expires_at: datetime | None = None
    session: AuthenticationSession | None = None
    authenticated: PayerAuthenticated | None = None
    authentication_failed: bool = False
    reference_asked: ReferenceRequested | None = None
    reference: Reference | None = None
    reference_issued_at: datetime | None = None
    reference_expires_at: datetime | None = None
    deposits: tuple[str, ...] = ()
    late: bool = False
    refunding: Decimal = ZERO
    charged_back: Decimal = ZERO
    dispute: Dispute | None = None
    decided_disputes: tuple[ClosedDispute, ...] = ()
    batch: SettlementBatch | None = None

    @property
    def payment_id(self) -> UUID:
        return self.started.payment_id

    @property
    def amount(self) -> Decimal:
        """What was asked for: subtotal part plus its surcharge."""
        return self.started.subtotal + self.started.surcharge

    @property
    def processor(self) -> str:
        """The company that this payment is made through."""
        asked = self.requested or self.reference_asked
        return "" if asked is None else asked.processor

    @property
    def refundable(self) -> Decimal:
        """What may still be given back, gross: captured, not refunded, and not being refunded (I4)."""
        return max(ZERO, self.captured - self.refunded - self.refunding)

    @property
    def is_uncaptured(self) -> bool:
        """Whether an authorisation stands that nobody is capturing or voiding at this moment."""
        return self.status in UNCAPTURED

    @property
    def was_not_sent(self) -> bool:
        """Whether it is certain that the processor never heard of this payment."""
        return self.failure is not None and self.failure.given_up is AbandonedBecause.NOT_SENT

    @property
    def requested_split(self) -> SurchargeSplit:
        return SurchargeSplit(self.started.subtotal, self.started.surcharge)

    def captured_split(self, quantum: Decimal) -> SurchargeSplit:
        return split_capture(self.captured, self.requested_split, quantum)

    def wanted_split(self, quantum: Decimal, captured: Decimal | None = None) -> SurchargeSplit:
        """What was captured, now or earlier, of what was asked for; anything beyond is overpaid."""
        captured = self.captured if captured is None else captured
        return split_capture(min(captured, self.amount), self.requested_split, quantum)

    @property
    def capture_ordinal(self) -> int:
        """When this payment first brought money, among all that came to the order; 0 while it has brought none."""
        return self.arrivals[0].nth if self.arrivals else 0

    def refunded_parts(self, quantum: Decimal) -> SurchargeSplit:
        return self.parts_of_refund(self.refunded, quantum)

    def parts_of_refund(self, refunded: Decimal, quantum: Decimal) -> SurchargeSplit:
        """What `refunded` of what came in consists of. What was paid beyond what was asked for goes back first, and bears
        no surcharge (section 4.6).
        """
        beyond = min(refunded, max(ZERO, self.captured - self.amount))
        parts = split_refund(refunded - beyond, self.wanted_split(quantum), quantum)
        return SurchargeSplit(parts.subtotal + beyond, parts.surcharge)

    def decided(self, dispute_id: str) -> ClosedDispute | None:
        """How this dispute ended, where it has."""
        return next((one for one in self.decided_disputes if one.dispute_id == dispute_id), None)

    def deposited(self, deposit_id: str) -> Decimal | None:
        """What came in by this deposit, where it is known."""
        amounts = (entry.amount for entry in self.entries if entry.action is EntryAction.DEPOSIT)
        return dict(zip(self.deposits, amounts, strict=True)).get(deposit_id)

    def reserved_subtotal(self, quantum: Decimal) -> Decimal:
        """The part of the order's subtotal that a card authorisation, granted or being asked, may still take.

        Payer authentications and references reserve nothing (section 8.3), until the processor is asked to go on.
        """
        if self.started.method.type is not MethodType.CARD:
            return ZERO
        if self.status is PaymentStatus.REQUIRES_ACTION:
            return ZERO if self.intent is None else self.started.subtotal
        if self.status not in _RESERVING:
            return ZERO
        if not self.authorized:
            return self.started.subtotal
        # A further capture takes what it was asked for; the rest of a grant was let go by the first capture.
        again = self.captured and self.intent is not None
        whole = self.captured + self.intent.amount if again and self.intent is not None else self.authorized
        granted = split_capture(whole, self.requested_split, quantum)
        return max(ZERO, granted.subtotal - self.captured_split(quantum).subtotal)
