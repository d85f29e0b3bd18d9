"""The state of one payment of an order, and the division of its money into subtotal and surcharge.

Read the progress of a payment from `status` and its money from the amounts: a capture that was reported late counts in
the amounts even if the status is final.
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
    SessionEnd,
)
from ledger.domain.orders.refund import ClosedDispute, Dispute, SettlementBatch
from ledger.domain.orders.statuses import UNCAPTURED_STATUSES, Advice, NextAction, PaymentStatus
from ledger.domain.orders.surcharge import FrozenRefund, SurchargeSplit, split_capture, split_refunds
from ledger.domain.orders.terms import AuthenticationSession, MethodType, Reference
from ledger.py311_speedups import fast_members

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


@fast_members
class EntryAction(StrEnum):
    """The step of a payment that a history entry (`PaymentEvent` in the interface) records (contract N78)."""

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
    RELEASE = "RELEASE"


@fast_members
class EntryStatus(StrEnum):
    """The progress of the step that a history entry records."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class HistoryEntry(Struct, frozen=True):
    """One step of a payment, as `paymentEvents` shows it: begun at `at`, completed in place. Amounts in minor units.

    `reported_amount` is what a bank reported about a dispute, None unless it is more than the payment held.
    """

    action: EntryAction
    status: EntryStatus
    amount: Decimal | None
    at: datetime
    reason: str | None = None
    refund_id: UUID | None = None
    reported_amount: Decimal | None = None


class Intent(Struct, frozen=True, kw_only=True):
    """A call to the processor that was announced and has no outcome yet. `deadline_at` is real time.

    `action` is the requested step. `capture` requests the capture in the same call. `unknown` is True after a call that
    got no answer before its deadline, `unsent` after one that never reached the processor. `came_back_at` is the real
    time at which the call came back, or until which the next call is postponed. `tries` counts the calls; the deadline
    of the first one was `first_deadline_at`. `amount` is in minor units. A `final` capture releases the rest. `ends` is
    why a session is ended by a call whose action is CANCELLATION.
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
    came_back_at: datetime | None = None
    unsent: bool = False
    tries: int = 1
    first_deadline_at: datetime | None = None
    final: bool = False
    ends: SessionEnd | None = None

    @property
    def entry(self) -> EntryAction:
        """The step that history entries record of this call."""
        return EntryAction.EXPIRATION if self.ends is SessionEnd.EXPIRED else self.action

    @property
    def over_at(self) -> datetime:
        """The real time from which the call is over: it came back without an answer, or its deadline passed."""
        return self.deadline_at if self.came_back_at is None else self.came_back_at


class Inflow(Struct, frozen=True):
    """One receipt of money: its ordinal among all receipts of the order, the payment's captured total after it, and
    when it was recorded.
    """

    ordinal: int
    captured: Decimal
    at: datetime


class Failure(Struct, frozen=True, kw_only=True):
    """Why a payment failed: a refusal, or an abandoned call. `code` is a decline code of the contract (5.1).

    `network_advice` is what the card network advises, if it does. `available_installments` as in `PaymentDeclined`.
    """

    code: str
    message: str | None
    at: datetime
    refused_by: RefusedBy | None = None
    given_up: AbandonedBecause | None = None
    eci: str | None = None
    network_advice: Advice | None = None
    available_installments: tuple[int, ...] | None = None


class Payment(Struct, frozen=True, kw_only=True):
    """One payment of an order. Amounts are in minor units and gross of the surcharge, unless they are named subtotal.

    `captured` and `refunded` are all that the processor reported, ever; a late capture counts even if `status` is
    final. `inflows` places each receipt among those of the order. `processor_reference` is the processor's id of the
    authorisation or the reference, used in every later call; a capture does not replace it.

    `returns_to` is the status before a refund, a dispute or a void; the payment returns to it if the attempt fails.
    `refunding` is reserved by the refund in flight; `charged_back` is the part of `refunded` that a bank took. `keys`
    are the idempotency keys of all announced calls and of requests refused before their call; `capture_keys` are the
    keys of the calls that brought money. `decided_disputes` are won or lost: a later message about one of them repeats
    its outcome or contradicts it. `frozen_refunds` are the boundaries of the refunds that documents state.

    `released` is what a partial capture had left when the hold on it ended, at `hold_ended_at`. `senders` are the
    accounts of the deposits, None for one whose network named none.

    `session_reference` is the processor's id of a payment that the payer's action authorises without a further call.
    """

    started: PaymentStarted
    status: PaymentStatus
    updated_at: datetime
    requested: AuthorizationRequested | None = None
    next_action: NextAction | None = None
    authorized: Decimal = ZERO
    captured: Decimal = ZERO
    refunded: Decimal = ZERO
    inflows: tuple[Inflow, ...] = ()
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
    cancellation_requested: bool = False
    void_refused: bool = False
    action_expires_at: datetime | None = None
    session: AuthenticationSession | None = None
    session_reference: str | None = None
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
    frozen_refunds: tuple[FrozenRefund, ...] = ()
    released: Decimal = ZERO
    hold_ended_at: datetime | None = None
    senders: tuple[str | None, ...] = ()

    @property
    def payment_id(self) -> UUID:
        return self.started.payment_id

    @property
    def amount(self) -> Decimal:
        """The requested amount: the payment's part of the subtotal plus its surcharge."""
        return self.started.subtotal + self.started.surcharge

    @property
    def processor(self) -> str:
        """The name of the payment's processor; empty before its first call is announced."""
        request = self.requested or self.reference_asked
        return "" if request is None else request.processor

    @property
    def account_in_event(self) -> str | None:
        """The name of the payment's account as events have it: None for one that is named as its processor."""
        request = self.requested or self.reference_asked
        return None if request is None else request.account

    @property
    def account(self) -> str:
        """The name of the merchant's account at which the payment is made; empty before its first call is announced."""
        return self.account_in_event or self.processor

    @property
    def refundable(self) -> Decimal:
        """The amount that can still be refunded, gross: captured, not refunded, and not being refunded (I4)."""
        return max(ZERO, self.captured - self.refunded - self.refunding)

    @property
    def capturable(self) -> Decimal:
        """The part of the authorisation that is held and not captured, gross: zero once the hold has ended."""
        return ZERO if self.hold_ended_at is not None else max(ZERO, self.authorized - self.captured)

    @property
    def contestable(self) -> Decimal:
        """What a payer's bank can still take back, gross. Of a card it is what was captured, which a bank may contest
        twice. Of a reference it is the money that has arrived and that no bank has reported to take.
        """
        if self.started.method.type is MethodType.CARD:
            return self.captured
        taken = {each.dispute_id: each.lost for each in self.decided_disputes}
        return self.captured - sum(taken.values(), ZERO)

    @property
    def paying_account(self) -> str | None:
        """The CLABE of the account that paid; None if a deposit named none, or two of them named different ones."""
        return self.senders[0] if len(set(self.senders)) == 1 else None

    @property
    def is_being_released(self) -> bool:
        """Whether a release of the payment's rest has no outcome yet."""
        return self.intent is not None and self.intent.action is EntryAction.RELEASE

    @property
    def is_uncaptured(self) -> bool:
        """Whether the payment is authorised, and neither being captured nor being voided."""
        return self.status in UNCAPTURED_STATUSES

    @property
    def ends_by_call(self) -> bool:
        """Whether the payment waits for its payer in a session that ends by a call to the processor."""
        return self.status is PaymentStatus.REQUIRES_ACTION and self.session_reference is not None

    @property
    def was_not_sent(self) -> bool:
        """Whether it is certain that the processor never received this payment."""
        return self.failure is not None and self.failure.given_up is AbandonedBecause.NOT_SENT

    @property
    def requested_split(self) -> SurchargeSplit:
        return SurchargeSplit(self.started.subtotal, self.started.surcharge)

    def captured_split(self, quantum: Decimal) -> SurchargeSplit:
        return split_capture(self.captured, self.requested_split, quantum)

    def split_up_to_amount(self, quantum: Decimal, captured: Decimal | None = None) -> SurchargeSplit:
        """Returns the split of `captured` (default: all) up to the requested amount; anything beyond is overpaid."""
        captured = self.captured if captured is None else captured
        return split_capture(min(captured, self.amount), self.requested_split, quantum)

    @property
    def capture_ordinal(self) -> int:
        """The ordinal of the payment's first money among all receipts of the order; 0 before its first money."""
        return self.inflows[0].ordinal if self.inflows else 0

    def released_split(self, quantum: Decimal) -> SurchargeSplit:
        """Returns the split of what was released: the part of the requested amounts that no capture will take."""
        captured = self.captured_split(quantum)
        both = split_capture(self.captured + self.released, self.requested_split, quantum)
        return SurchargeSplit(both.subtotal - captured.subtotal, both.surcharge - captured.surcharge)

    def refunded_split(self, quantum: Decimal) -> SurchargeSplit:
        return self.parts_of_refund(self.refunded, quantum)

    def parts_of_refund(self, refunded: Decimal, quantum: Decimal) -> SurchargeSplit:
        """Returns the split of `refunded` (gross). An overpayment goes back first, without surcharge (section 4.6)."""
        return split_refunds(refunded, self.captured, self.requested_split, self.frozen_refunds, quantum)

    def decided(self, dispute_id: str) -> ClosedDispute | None:
        """Returns the dispute if it has ended, else None."""
        return next((dispute for dispute in self.decided_disputes if dispute.dispute_id == dispute_id), None)

    def deposited(self, deposit_id: str) -> Decimal | None:
        """Returns the amount of this deposit, or None if it is not recorded."""
        amounts = (entry.amount for entry in self.entries if entry.action is EntryAction.DEPOSIT)
        return dict(zip(self.deposits, amounts, strict=True)).get(deposit_id)

    def reserved_subtotal(self, quantum: Decimal) -> Decimal:
        """Returns the part of the order's subtotal that a card authorisation, granted or requested, can still take.

        By section 8.3 a 3-D Secure session reserves nothing until its authorisation is requested, a reference never.
        """
        if self.started.method.type is not MethodType.CARD:
            return ZERO
        if self.status is PaymentStatus.REQUIRES_ACTION:
            return ZERO if self.intent is None or self.intent.ends is not None else self.started.subtotal
        if self.status not in _RESERVING:
            return ZERO
        if not self.authorized:
            return self.started.subtotal
        # The first capture released the rest of the authorisation, so a further capture reserves only its own amount.
        further = self.captured and self.intent is not None
        total = self.captured + self.intent.amount if further and self.intent is not None else self.authorized
        granted = split_capture(total, self.requested_split, quantum)
        return max(ZERO, granted.subtotal - self.captured_split(quantum).subtotal)
