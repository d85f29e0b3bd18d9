"""The commands of a payment order: what clients, timers and processors ask for. The caller brings time and ids.

Never put a card number or a CVC into a command: they go from the request to the processor's call only.

`at` is the time by the merchant's clock. `deadline_at` is real time: the processor's call that follows ends then.
Amounts are in minor units of the order's currency.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.customers.terms import AttemptOutcome
from ledger.domain.money import ZERO
from ledger.domain.orders.capabilities import NO_RULES, Candidate, Rules
from ledger.domain.orders.events import ReminderDroppedBecause
from ledger.domain.orders.invoices.terms import InvoicingPolicy
from ledger.domain.orders.processor_outcomes import (
    AuthorizationOutcome,
    CaptureOutcome,
    ReferenceOutcome,
    RefundOutcome,
    ReleaseOutcome,
    SessionEndOutcome,
    VoidOutcome,
)
from ledger.domain.orders.terms import (
    BillingAddress,
    Destination,
    DeviceInformation,
    FiscalData,
    LineItem,
    OrderTerms,
    PaymentMethod,
    ReminderPolicy,
    SurchargePolicy,
)
from ledger.domain.orders.validity import AUTHORIZATION_S, CHALLENGE_S
from ledger.py311_speedups import fast_members


class NewPayment(Struct, frozen=True, kw_only=True):
    """A payment to open, with everything that its call to the processor needs except the card itself.

    A card is authorised, every other method gets a reference. `amount` is the part of the order's subtotal that it
    pays, in minor units; None means all that is unpaid. It is made at the first of `candidates` that takes it. A
    payment by token `saves_card` under its method's id. `installments` is a number of months, None for one payment.
    `payer_lacks` are the fields of its customer that an account needs and the customer has not.
    """

    payment_id: UUID
    method: PaymentMethod
    candidates: tuple[Candidate, ...]
    idempotency_key: str
    deadline_at: datetime
    amount: Decimal | None = None
    external_id: str | None = None
    virtual_terminal: bool = False
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    metadata: Raw | UnsetType = UNSET
    description: str | None = None
    saves_card: bool = False
    installments: int | None = None
    payer_lacks: tuple[str, ...] = ()


class CreateOrder(Struct, frozen=True, kw_only=True):
    """Creates an order on these terms. `payment` is None for an order created with `pending: true`.

    `invoicing` has the merchant's settings for an order with fiscal data, `reminders` those for an order with a due
    date; each is None for any other.
    """

    order_id: UUID
    order_number: str
    customer_id: UUID
    at: datetime
    terms: OrderTerms
    payment: NewPayment | None = None
    surcharge: SurchargePolicy | None = None
    invoicing: InvoicingPolicy | None = None
    reminders: ReminderPolicy | None = None


class ResubmitOrder(Struct, frozen=True, kw_only=True):
    """Requests an order again, under an external id that an order has already."""

    terms: OrderTerms
    at: datetime
    payment: NewPayment | None = None


class ChargeOrder(Struct, frozen=True, kw_only=True):
    """Pays an order that waits for its payment."""

    payment: NewPayment
    at: datetime


class AddPayment(Struct, frozen=True, kw_only=True):
    """Pays a part of an order that allows partial payments, also while other parts are in progress."""

    payment: NewPayment
    at: datetime


class SubmitDeviceData(Struct, frozen=True, kw_only=True):
    """Continues the payment that waits for its payer's device data, now that the browser's data was collected.

    Without a `payment_id` it is the newest such payment. A `reference_id` must be the session's. `capture_delay_s` is
    the merchant's setting, in seconds.
    """

    idempotency_key: str
    deadline_at: datetime
    at: datetime
    payment_id: UUID | None = None
    reference_id: str | None = None
    device_information: DeviceInformation | None = None
    capture_delay_s: int = 5


class ValidateAuthentication(Struct, frozen=True, kw_only=True):
    """Continues the payment whose payer came back from the challenge or from a redirect, with that transaction's id.

    Without a `payment_id` it is the newest such payment. The check of the transaction's id is left to the accounts in
    `simulated`, which accept another id than the session's. `capture_delay_s` is the merchant's setting, in seconds.
    """

    transaction_id: str
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    payment_id: UUID | None = None
    capture_delay_s: int = 5
    simulated: frozenset[str] = frozenset()


class CapturePayment(Struct, frozen=True, kw_only=True):
    """Captures `amount` (gross) of an authorisation, or all of its uncaptured rest if it is None.

    Without a `payment_id` it is the newest payment that can be captured. A `final` capture releases the rest. `rules`
    are those of the payments' accounts.
    """

    idempotency_key: str
    deadline_at: datetime
    at: datetime
    amount: Decimal | None = None
    payment_id: UUID | None = None
    final: bool = False
    rules: Rules = NO_RULES


class OrderChanges(Struct, frozen=True, kw_only=True):
    """What a merchant changes of an order's terms: UNSET leaves a term as it is, None takes it away.

    `metadata` is a merge patch (RFC 7396).
    """

    amount: Decimal | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    invoice_number: str | None | UnsetType = UNSET
    metadata: Raw | None | UnsetType = UNSET
    due_date: datetime | None | UnsetType = UNSET
    line_items: tuple[LineItem, ...] | UnsetType = UNSET
    fiscal: FiscalData | None | UnsetType = UNSET


class ChangeOrder(Struct, frozen=True, kw_only=True):
    """Changes terms of an order. `reminders` is the merchant's policy for a due date that is set now."""

    changes: OrderChanges
    reminders: ReminderPolicy
    at: datetime


class ReleaseRest(Struct, frozen=True, kw_only=True):
    """Releases what a partial capture has left of an authorisation.

    Without a `payment_id` it is the newest captured payment of which something is held.
    """

    idempotency_key: str
    deadline_at: datetime
    at: datetime
    payment_id: UUID | None = None


class StartScheduledCapture(Struct, frozen=True, kw_only=True):
    """Starts a scheduled capture that is due."""

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CancelPayment(Struct, frozen=True, kw_only=True):
    """Cancels one payment: voids its authorisation, or ends its session or reference. A due void is this command."""

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CancelOrder(Struct, frozen=True, kw_only=True):
    """Cancels an order: voids its authorisations and, with `refund_captured`, refunds the money that it holds.

    The idempotency keys of the voids follow from `cancellation_id` and the payments' ids. `refund_id` is the refund's,
    `rules` as in `RefundOrder`.
    """

    cancellation_id: UUID
    refund_id: UUID
    deadline_at: datetime
    at: datetime
    refund_captured: bool = False
    reason: str | None = None
    rules: Rules = NO_RULES


class ExpirePayment(Struct, frozen=True, kw_only=True):
    """Ends a payment whose reference, session or authorisation has expired. Changes nothing before the expiry."""

    payment_id: UUID
    at: datetime


class EndSession(Struct, frozen=True, kw_only=True):
    """Ends a session at its processor if there is a reason to: its time is over, or its money is no longer wanted."""

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class Allocation(Struct, frozen=True, kw_only=True):
    """The part of a refund that one payment gives back: `amount`, gross."""

    payment_id: UUID
    amount: Decimal


class RefundOrder(Struct, frozen=True, kw_only=True):
    """Refunds `amount` (gross, surcharge included): by `allocations`, of one payment, or of the newest payments first.

    `rules` are those of the payments' accounts. The keys of the calls follow from `refund_id` and the payments' ids.
    """

    refund_id: UUID
    amount: Decimal
    deadline_at: datetime
    at: datetime
    reason: str = "unspecified"
    payment_id: UUID | None = None
    external_id: str | None = None
    allocations: tuple[Allocation, ...] = ()
    destination: Destination | None = None
    rules: Rules = NO_RULES


class RefundOverpayment(Struct, frozen=True, kw_only=True):
    """Refunds the money that is held beyond the order's amount, by the merchant's setting `refundOverpayment`.

    `rules` as in `RefundOrder`.
    """

    refund_id: UUID
    deadline_at: datetime
    at: datetime
    rules: Rules = NO_RULES


class ChangeRefundDestination(Struct, frozen=True, kw_only=True):
    """Names the account for a pending refund that the merchant was to pay out, by its service id or the merchant's."""

    reference: str
    destination: Destination
    deadline_at: datetime
    at: datetime


class ConfirmPayout(Struct, frozen=True, kw_only=True):
    """Confirms that the merchant has paid out a refund: at `paid_at`, None for now.

    `reference` is the refund's service id or the merchant's id of it, `payout_reference` the merchant's own name of its
    payment.
    """

    reference: str
    at: datetime
    paid_at: datetime | None = None
    payout_reference: str | None = None


class RecordDeposit(Struct, frozen=True, kw_only=True):
    """Records money that arrived on a payment's reference.

    `deposit_id` is the network's own id of the deposit. `sent_to` is the number that the payer sent it to, and
    `sender_clabe` the account that it came from, if known.
    """

    payment_id: UUID
    deposit_id: str
    amount: Decimal
    processor_reference: str
    at: datetime
    sent_to: str | None = None
    sender_clabe: str | None = None


@fast_members
class DisputeStage(StrEnum):
    """The stage of a dispute that the bank reports."""

    OPENED = "OPENED"
    WON = "WON"
    LOST = "LOST"


class RecordDispute(Struct, frozen=True, kw_only=True):
    """Records what the bank reports about a disputed payment.

    `amount` is gross. If it is None, the dispute is about all that can still be refunded. `reason` is the payer's.
    """

    payment_id: UUID
    dispute_id: str
    stage: DisputeStage
    at: datetime
    amount: Decimal | None = None
    reason: str | None = None


@fast_members
class SettlementStage(StrEnum):
    """The stage of a settlement batch that the processor reports."""

    LISTED = "LISTED"
    MATCHED = "MATCHED"
    REFUSED = "REFUSED"


class RecordSettlement(Struct, frozen=True, kw_only=True):
    """Records the stage of a settlement batch for a payment that it lists, with the processor's fee for the payment."""

    payment_id: UUID
    batch_id: str
    stage: SettlementStage
    at: datetime
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class ErasePayer(Struct, frozen=True, kw_only=True):
    """Erases the payer's personal data from the order, because its customer was erased. The amounts stay."""

    at: datetime


class RemindPayer(Struct, frozen=True, kw_only=True):
    """Reminds the payer of the order's due date, if a reminder's time has come.

    `withheld` is why the customer gets no message, None if one can be sent. `real_at` is real time, and so is
    `deadline_at`, which ends the attempt to hand the message to `notifier`.
    """

    notifier: str
    deadline_at: datetime
    real_at: datetime
    at: datetime
    withheld: ReminderDroppedBecause | None = None


class RecordReminder(Struct, frozen=True, kw_only=True):
    """Records the outcome of an attempt to hand a reminder to a notifier."""

    reminder_id: UUID
    outcome: AttemptOutcome
    at: datetime


class RecordAuthorizationOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of an authorisation that was requested.

    The processor sets both times: `session_s` is how long the payer has to act, `authorization_s` how long the
    authorisation can be captured.
    """

    payment_id: UUID
    outcome: AuthorizationOutcome
    at: datetime
    session_s: int = CHALLENGE_S
    authorization_s: int = AUTHORIZATION_S


class RecordAuthenticationOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of the call that followed the payer's action. The times as in
    `RecordAuthorizationOutcome`.
    """

    payment_id: UUID
    idempotency_key: str
    outcome: AuthorizationOutcome
    at: datetime
    session_s: int = CHALLENGE_S
    authorization_s: int = AUTHORIZATION_S


class RecordCaptureOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of a capture's own call."""

    payment_id: UUID
    idempotency_key: str
    outcome: CaptureOutcome
    at: datetime


class RecordVoidOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of a void."""

    payment_id: UUID
    idempotency_key: str
    outcome: VoidOutcome
    at: datetime


class RecordSessionEnd(Struct, frozen=True, kw_only=True):
    """Records the outcome of a session's end. An authorisation can be captured for `authorization_s` seconds."""

    payment_id: UUID
    idempotency_key: str
    outcome: SessionEndOutcome
    at: datetime
    authorization_s: int = AUTHORIZATION_S


class RecordReleaseOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of a release's call."""

    payment_id: UUID
    idempotency_key: str
    outcome: ReleaseOutcome
    at: datetime


class RecordRefundOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of one payment's part of a refund."""

    refund_id: UUID
    payment_id: UUID
    outcome: RefundOutcome
    at: datetime


class ReverseRefund(Struct, frozen=True, kw_only=True):
    """Records that one payment's part of a refund, which had succeeded, failed later.

    `returned` is the part of it that stays with the payer, and `returned_reference` the processor's id of that part.
    """

    refund_id: UUID
    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None
    returned: Decimal = ZERO
    returned_reference: str | None = None


class RepeatCall(Struct, frozen=True, kw_only=True):
    """Sends an open call again under its key. `after` is the deadline of the latest one, as the caller has read it."""

    payment_id: UUID
    idempotency_key: str
    after: datetime
    deadline_at: datetime
    at: datetime


class RecordReferenceOutcome(Struct, frozen=True, kw_only=True):
    """Records the outcome of a reference that was requested."""

    payment_id: UUID
    outcome: ReferenceOutcome
    at: datetime


RecordOutcome = (
    RecordAuthorizationOutcome
    | RecordAuthenticationOutcome
    | RecordCaptureOutcome
    | RecordVoidOutcome
    | RecordSessionEnd
    | RecordReleaseOutcome
    | RecordRefundOutcome
    | RecordReferenceOutcome
)
"""Every command that records an outcome of a call to a processor: the input of `decide_outcome`."""
