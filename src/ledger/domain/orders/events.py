"""The events of a payment order: the storage format of its stream.

A topic and the meaning of its fields are permanent. Add a field only with a default; when a meaning changes, write the
next version of the topic and an upcaster that still reads the old one. Name every field about a person in PERSONAL and
give it a default: it is stored sealed.

Amounts are in minor units of the order's currency. `at` is the time of recording by the merchant's clock. `deadline_at`
of a call is real time, because a processor does not follow the merchant's sandbox clock.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.invoices import events as invoice_events
from ledger.domain.orders.invoices.events import InvoiceEvent
from ledger.domain.orders.statuses import Advice, NextAction
from ledger.domain.orders.terms import (
    AuthenticationSession,
    BillingAddress,
    CaptureMethod,
    Destination,
    DestinationType,
    DeviceInformation,
    FiscalData,
    LineItem,
    PaymentMethod,
    Reference,
    ReminderPolicy,
    SurchargePolicy,
)
from ledger.py311_speedups import fast_members


@fast_members
class RefusedBy(StrEnum):
    """Who declined a card payment: the bank that issued the card, or the processor's risk rules."""

    ISSUER = "ISSUER"
    RISK = "RISK"


@fast_members
class AbandonedBecause(StrEnum):
    """Why a call to a processor never gets an outcome: it was never sent, or the processor does not know it."""

    NOT_SENT = "NOT_SENT"
    NOT_FOUND = "NOT_FOUND"


@fast_members
class ProcessorCall(StrEnum):
    """The calls to a processor other than an authorisation, which has events of its own."""

    AUTHENTICATION = "AUTHENTICATION"
    CAPTURE = "CAPTURE"
    VOID = "VOID"
    REFUND = "REFUND"
    REFERENCE = "REFERENCE"
    RELEASE = "RELEASE"


@fast_members
class CancelledBecause(StrEnum):
    """Why a payment was cancelled: with its order, alone, replaced by another payment, voided, never authorised, or for
    a rest that the merchant has released.
    """

    ORDER_CANCELLED = "ORDER_CANCELLED"
    PAYMENT_CANCELLED = "PAYMENT_CANCELLED"
    REPLACED = "REPLACED"
    VOIDED = "VOIDED"
    NEVER_AUTHORIZED = "NEVER_AUTHORIZED"
    RELEASED = "RELEASED"


@fast_members
class ReleasedBecause(StrEnum):
    """Why the rest of an authorisation is not held any more: by a release, by a final capture, or by the time."""

    REQUESTED = "REQUESTED"
    FINAL_CAPTURE = "FINAL_CAPTURE"
    LAPSED = "LAPSED"


@fast_members
class ExpiredBecause(StrEnum):
    """What expired: a reference, a 3-D Secure session (or redirect), or an authorisation."""

    REFERENCE = "REFERENCE"
    SESSION = "SESSION"
    AUTHORIZATION = "AUTHORIZATION"


@fast_members
class SessionEnd(StrEnum):
    """Why a session with a payer is ended at its processor: its time is over, its order or its payment is cancelled, or
    the order was paid otherwise.
    """

    EXPIRED = "EXPIRED"
    ORDER_CANCELLED = "ORDER_CANCELLED"
    PAYMENT_CANCELLED = "PAYMENT_CANCELLED"
    REPLACED = "REPLACED"


@fast_members
class ReminderKind(StrEnum):
    """What a reminder is about: a due date that comes, or one that has passed."""

    PAYMENT = "PAYMENT"
    OVERDUE = "OVERDUE"


@fast_members
class ReminderDroppedBecause(StrEnum):
    """Why a reminder was not sent.

    Nothing was owed any more; the due date was moved; the merchant sends none; the customer was erased, has no e-mail
    address or wants no such message; its time had long passed; the mail server refused it; no attempt of many reached
    the server; the outcome of two attempts is unknown.
    """

    NOTHING_OWED = "NOTHING_OWED"
    RESCHEDULED = "RESCHEDULED"
    TURNED_OFF = "TURNED_OFF"
    ERASED = "ERASED"
    NO_ADDRESS = "NO_ADDRESS"
    UNWANTED = "UNWANTED"
    MISSED = "MISSED"
    REFUSED = "REFUSED"
    UNDELIVERED = "UNDELIVERED"
    UNKNOWN = "UNKNOWN"


class OrderCreated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A merchant asked for money. `amount` is the subtotal: what the merchant wants, without any surcharge.

    A `pending` order was created without a payment. `surcharge` is the merchant's policy at this time.
    `subscription_id` is the subscription that the order charges; orders of release 0.1.0 have none, and are recognised
    by their ids.
    """

    order_id: UUID
    order_number: str
    external_id: str
    customer_id: UUID
    amount: Decimal
    currency: str
    pending: bool
    at: datetime
    allow_partials: bool = False
    capture_method: CaptureMethod = CaptureMethod.AUTOMATIC
    surcharge: SurchargePolicy | None = None
    virtual_terminal: bool = False
    description: str | None = None
    invoice_number: str | None = None
    due_date: datetime | None = None
    metadata: Raw | UnsetType = UNSET
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    fiscal: FiscalData | None = None
    line_items: tuple[LineItem, ...] = ()
    subscription_id: UUID | None = None


class OrderAmountChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant asked for another amount before the first payment. `amount` is the subtotal from now on."""

    amount: Decimal
    at: datetime


class OrderDescriptionChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant described the order anew, or took its description away."""

    at: datetime
    description: str | None = None


class OrderInvoiceNumberChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant gave the order another invoice number of its own, or took it away."""

    at: datetime
    invoice_number: str | None = None


class OrderMetadataChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed its own data about the order by a merge patch (RFC 7396), or removed all of them."""

    at: datetime
    patch: Raw | UnsetType = UNSET
    removed: bool = False


class OrderDueDateChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant moved the due date of the order, or took it away. Its reminders end with the earlier one."""

    at: datetime
    due_date: datetime | None = None


class OrderLineItemsChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant stated anew what is sold, before that was invoiced. These are all lines."""

    at: datetime
    line_items: tuple[LineItem, ...] = ()


class OrderReceiverChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant named the receiver of the order's invoice before that was stamped. Any other one counts no more."""

    at: datetime
    fiscal: FiscalData | None = None


class PaymentStarted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A payment was opened on the order. It pays `subtotal` of the order's amount, and `surcharge` on top of it.

    With `saves_card`, its card came as a token and is saved under the method's id once it is authorised. `installments`
    is the number of months in which the payer pays without interest, absent for one payment.
    """

    payment_id: UUID
    method: PaymentMethod
    subtotal: Decimal
    surcharge: Decimal
    at: datetime
    external_id: str | None = None
    virtual_terminal: bool = False
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    metadata: Raw | UnsetType = UNSET
    description: str | None = None
    saves_card: bool = False
    installments: int | None = None


class AuthorizationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor for `amount` (gross), under this idempotency key: an intent.

    The call follows the commit of this event and ends at `deadline_at` (real time). With `capture` the processor is
    asked to capture in the same call what it authorises. `account` is the merchant's account with the processor, absent
    where it is named as the processor.
    """

    payment_id: UUID
    processor: str
    idempotency_key: str
    amount: Decimal
    capture: bool
    deadline_at: datetime
    at: datetime
    account: str | None = None


class PaymentAuthorized(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The issuer authorised `amount` (gross), which can be less than requested.

    It can be captured for `validity_s` seconds from `at`. `network_transaction_id` is the card network's own id.
    """

    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime
    authorization_code: str | None = None
    validity_s: int = 604_800
    network_transaction_id: str | None = None


class CaptureScheduled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A capture of `amount` (gross) was accepted. It is due at `due_at` by the merchant's clock."""

    payment_id: UUID
    amount: Decimal
    due_at: datetime
    at: datetime


class CaptureRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor to capture `amount` (gross), under this idempotency key: an intent.

    The call ends at `deadline_at` (real time). With `final` the processor releases the rest in the same call.
    """

    payment_id: UUID
    amount: Decimal
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    final: bool = False


class PaymentCaptured(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor captured `amount` (gross of the surcharge). The money counts, whatever the order's status."""

    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime


class PaymentDeclined(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment was declined, with a processor-neutral decline code (contract 5.1).

    `idempotency_key` is that of a request that was refused before any call, so that its repetition is recognised.
    `network_advice` is what the card network advises, if it does. `available_installments` are the plans of the card's
    bank, in months, where the one that was asked for is not among them. `processor_reference` is the processor's name
    of the payment, if it gave it one.
    """

    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None
    refused_by: RefusedBy = RefusedBy.ISSUER
    idempotency_key: str | None = None
    network_advice: Advice | None = None
    available_installments: tuple[int, ...] | None = None
    processor_reference: str | None = None


class AuthorizationOutcomeUnknown(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor did not answer in time: the outcome is unknown, which is not declined.

    The recovery asks the processor again by the same key. The call came back at `came_back_at` (real time).
    """

    payment_id: UUID
    reason: str
    at: datetime
    came_back_at: datetime | None = None


class AuthorizationAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment ended without an outcome: its request was never sent, or the processor does not know it."""

    payment_id: UUID
    because: AbandonedBecause
    at: datetime


class LateCaptureReported(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor reported captured money for a payment that had ended, or more money than was recorded.

    `amount` is the newly reported money, `authorized` all that the processor reports as authorised; both are gross. The
    money is real and counts. Whether to refund it is the merchant's decision, so an alert is raised on this event. A
    payment that had failed keeps its final status. `idempotency_key` is that of the capture's own call, and absent
    where the capture happened in the authorisation's call.
    """

    payment_id: UUID
    amount: Decimal
    authorized: Decimal
    processor_reference: str
    at: datetime
    idempotency_key: str | None = None


class LateAuthorizationReported(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor reported an authorisation of `amount` (gross) for a payment that had ended, and captured nothing.

    The payment keeps its status. The payer's money is reserved until the authorisation expires, or until an operator
    voids it at the processor, so an alert is raised on this event.
    """

    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime


class PayerActionRequired(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor required an action of the payer until `expires_at`: device data, a challenge or a redirect.

    `session` contains what the payer's browser needs for it. `processor_reference` is the processor's id of a payment
    that the payer's action authorises without a further call; None where the ledger requests the authorisation
    afterwards.
    """

    payment_id: UUID
    action: NextAction
    expires_at: datetime
    at: datetime
    session: AuthenticationSession | None = None
    processor_reference: str | None = None


class AuthenticationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payer acted (`step`), and the ledger decided to ask the processor to authenticate and authorise: an intent.

    `amount` is gross; the call ends at `deadline_at` (real time). With `capture` the processor captures in the same
    call; otherwise an automatic capture is due `capture_delay_s` seconds after the approval. `account` is that of the
    payment.
    """

    payment_id: UUID
    step: NextAction
    processor: str
    idempotency_key: str
    amount: Decimal
    deadline_at: datetime
    at: datetime
    transaction_id: str | None = None
    capture: bool = False
    capture_delay_s: int = 0
    device_information: DeviceInformation | None = None
    account: str | None = None


class PayerAuthenticated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payer was authenticated: `frictionless` without a challenge, otherwise by passing it.

    `resumed` means that the authorisation continues where it had stopped: after a frictionless authentication, and
    where less is authorised than was requested. `eci` is the card network's electronic commerce indicator.
    """

    payment_id: UUID
    at: datetime
    frictionless: bool = False
    resumed: bool = False
    transaction_id: str | None = None
    three_ds_version: str | None = None
    eci: str | None = None


class PayerAuthenticationFailed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payer was not authenticated: the payment ended, and nothing was authorised.

    `code` is a decline code. `eci` is the card network's electronic commerce indicator.
    """

    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None
    eci: str | None = None


class SessionEndRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to end a session at its processor, so that its payer can no longer pay in it: an intent.

    If the payer was quicker, the money counts. The call ends at `deadline_at` (real time).
    """

    payment_id: UUID
    because: SessionEnd
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CaptureRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor refused a capture. After a `retryable` refusal the authorisation is still valid.

    Any other refusal ends the payment, or what is left of it. With `kept` the merchant captures by request, and the
    payment stays authorised after any refusal.
    """

    payment_id: UUID
    code: str
    retryable: bool
    at: datetime
    message: str | None = None
    kept: bool = False


class PaymentCancellationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The cancellation of a payment was requested before its authorisation had an outcome.

    What is authorised after that is voided.
    """

    payment_id: UUID
    at: datetime


class VoidRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor to void the authorisation: an intent.

    The call ends at `deadline_at` (real time).
    """

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class VoidRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor refused to void the authorisation: it can still be captured, or it lapses."""

    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None


class ReleaseRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor to release what a partial capture has left, `amount` (gross): an intent.

    The call ends at `deadline_at` (real time).
    """

    payment_id: UUID
    amount: Decimal
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class AuthorizationReleased(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a partial capture has left is not held any more: `amount` (gross), as the processor reports it.

    Nothing more can be captured of the authorisation. No money moved.
    """

    payment_id: UUID
    amount: Decimal
    because: ReleasedBecause
    at: datetime
    processor_reference: str | None = None


class ReleaseRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor refused to release the rest of the authorisation: it can still be captured, or it lapses."""

    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None


class PaymentCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment was cancelled on purpose, without money. A later deposit on its reference still counts.

    A payment that a refused capture had ended stays FAILED: its authorisation was voided.
    """

    payment_id: UUID
    because: CancelledBecause
    at: datetime


class PaymentExpired(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment expired. A later deposit on its reference still counts."""

    payment_id: UUID
    because: ExpiredBecause
    at: datetime


class ReferenceRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor for a reference for `amount` (gross): an intent.

    The reference is valid until `expires_at` by the merchant's clock; the call ends at `deadline_at` (real time).
    `account` is the merchant's account with the processor, absent where it is named as the processor.
    """

    payment_id: UUID
    processor: str
    idempotency_key: str
    amount: Decimal
    expires_at: datetime
    deadline_at: datetime
    at: datetime
    account: str | None = None


class ReferenceIssued(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor issued a reference, which the payer can pay by transfer or in cash.

    It is valid until `expires_at` by the merchant's clock.
    """

    payment_id: UUID
    reference: Reference
    expires_at: datetime
    processor_reference: str
    at: datetime


class DepositReceived(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Money arrived on the reference: `amount`, once for each `deposit_id`.

    `late`: after the payment had ended. `amount_differs`: a store took it, and another amount than the payment's.
    `sender_clabe` is the account that paid, if the network named it.
    """

    payment_id: UUID
    deposit_id: str
    amount: Decimal
    processor_reference: str
    at: datetime
    late: bool = False
    amount_differs: bool = False
    sender_clabe: str | None = None


class RefundRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor to give back `amount` (gross) of this payment: an intent.

    It is a part of the refund `refund_id`: a refund across payments has one such event for each of them. A `payout`
    goes to `destination`, or to where the money came from, because its rail has no reversal. The call ends at
    `deadline_at` (real time). `by_merchant`: no call is made, because the merchant pays it out itself. `account` is
    that of the payment.
    """

    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    reason: str
    processor: str
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    external_id: str | None = None
    payout: bool = False
    destination: Destination | None = None
    destination_type: DestinationType | None = None
    by_merchant: bool = False
    account: str | None = None


class RefundDestinationChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant named the account for this payment's part of a pending refund, which it was to pay out itself."""

    refund_id: UUID
    payment_id: UUID
    at: datetime
    destination: Destination | None = None


class PayoutRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to ask the processor to pay out this payment's part of a refund, `amount`: an intent.

    The merchant was to pay it out, and has named an account. The call ends at `deadline_at` (real time). `account` is
    that of the payment with the processor.
    """

    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    processor: str
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    account: str | None = None


class RefundAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor accepted the refund. A later message reports its outcome."""

    refund_id: UUID
    payment_id: UUID
    processor_reference: str
    at: datetime


class PaymentRefunded(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor gave `amount` (gross) back to the payer.

    With `paid_at` the merchant has paid it out itself, at that time, and `processor_reference` is its own, or empty.
    """

    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime
    paid_at: datetime | None = None


class RefundRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The refund failed; the money is still held.

    With `is_final` it never succeeds after that, whatever an older answer of the processor reports. It may follow on a
    failure that was not known to be final.
    """

    refund_id: UUID
    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None
    is_final: bool = False


class RefundReopened(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A refund that was recorded as failed turned out to be carried out after all."""

    refund_id: UUID
    payment_id: UUID
    at: datetime


class LateRefundReported(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor reported the refund of a part that had failed, while another refund or a dispute was open or final;
    or a refund that no request has asked for, of money that a lost dispute had taken.

    `amount` is gross. It counts as refunded: the merchant may have refunded the same money twice, so an alert is raised
    on this event. `reason` is that of a refund that begins with this event. The payment keeps its status, or becomes
    REFUNDED with `ends_payment`: it was PARTIALLY_REFUNDED, and all that was captured is refunded now.
    """

    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime
    reason: str | None = None
    ends_payment: bool = False


class RefundReversed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A refund that had succeeded failed later: the processor has `amount` (gross) back for the merchant.

    The money is held again. `code` is the processor's reason. An alert is raised on this event: the payer, who may know
    of the refund, has not got it.
    """

    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    code: str
    at: datetime
    message: str | None = None


class CallUnanswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A call to the processor got no answer in time: its outcome is unknown.

    The recovery asks the processor again by the same key. The call came back at `came_back_at` (real time).
    """

    payment_id: UUID
    call: ProcessorCall
    reason: str
    at: datetime
    came_back_at: datetime | None = None


class CallPostponed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A call never reached the processor. The recovery sends it again under the same key, after `until` (real time)."""

    payment_id: UUID
    call: ProcessorCall
    until: datetime
    at: datetime


class CallRepeated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to send a call again that never reached the processor, under the same key: an intent.

    The repeated call ends at `deadline_at` (real time).
    """

    payment_id: UUID
    call: ProcessorCall
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CallAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A call to the processor ended without an outcome: it was never sent, or the processor does not know it."""

    payment_id: UUID
    call: ProcessorCall
    because: AbandonedBecause
    at: datetime


class DisputeOpened(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payer disputed `amount` (gross) at the bank. The order's status stays until the dispute is lost.

    `amount` is of the money that the payment held. `reported_amount` is what the bank reported, absent unless it is
    more: a part had gone back by refunds. The same holds for `DisputeLost`. `reason` is the payer's, as the processor
    names it.
    """

    payment_id: UUID
    dispute_id: str
    amount: Decimal
    at: datetime
    reported_amount: Decimal | None = None
    reason: str | None = None


class DisputeWon(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant won the dispute: the money stays."""

    payment_id: UUID
    dispute_id: str
    at: datetime


class DisputeLost(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant lost the dispute, and the bank took `amount` (gross) back: a chargeback.

    It counts as refunded, but it is not a refund. A dispute that took less than the bank reported is opened and lost
    again if a refund comes back later, and takes of that money. An earlier release stored more than the payment held if
    a refund had been reported late.
    """

    payment_id: UUID
    dispute_id: str
    amount: Decimal
    at: datetime
    reported_amount: Decimal | None = None


class SettlementListed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor listed the captured payment in a batch that it will pay out.

    `fee` is what it keeps for the payment, with its tax, and `fee_tax` that tax: minor units of `fee_currency`, without
    it of the payment's currency. They are absent if the processor does not show them, here and in the events below.
    """

    payment_id: UUID
    batch_id: str
    at: datetime
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class SettlementMatched(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The batch was paid out, and its line agreed with the payment."""

    payment_id: UUID
    batch_id: str
    at: datetime
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class SettlementRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The batch was refused, or sent back after it was paid out: the payment waits for another one."""

    payment_id: UUID
    batch_id: str
    at: datetime
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class CancellationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant asked to cancel the order; processors have to release authorisations or money first.

    With `refund_captured` the held money is refunded.
    """

    cancellation_id: UUID
    refund_captured: bool
    at: datetime
    reason: str | None = None


class CancellationRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The cancellation failed and the order stays open.

    A processor kept an authorisation, a refund failed, or money arrived first.
    """

    at: datetime


class OrderCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The order was cancelled and closed: no money is held and none is expected."""

    at: datetime
    cancellation_id: UUID | None = None
    reason: str | None = None


class PayerForgotten(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The customer of the order was erased: the order no longer shows who paid, from where, and with whose card."""

    at: datetime


class RemindersScheduled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The order has a due date, of which its payer is to be reminded by the merchant's policy at this time.

    The same again replaces the due date and the policy.
    """

    due_date: datetime
    policy: ReminderPolicy
    at: datetime


class ReminderDue(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The order waited for its payer when a reminder's time came, which is `scheduled_at`.

    A message about it is to be sent from `send_at` on, if it is sent at all.
    """

    reminder_id: UUID
    kind: ReminderKind
    due_date: datetime
    scheduled_at: datetime
    send_at: datetime
    at: datetime


class ReminderRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to hand the reminder to a notifier: an intent.

    The message's id follows from the reminder's. The attempt ends at `deadline_at` (real time).
    """

    reminder_id: UUID
    notifier: str
    deadline_at: datetime
    at: datetime


class ReminderPostponed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier did not accept the reminder, and is to be asked again at `retry_at` by the merchant's clock.

    `unknown`: it may have accepted it, because its answer did not arrive.
    """

    reminder_id: UUID
    code: str
    retry_at: datetime
    at: datetime
    unknown: bool = False


class ReminderSent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier accepted the reminder. Whether the payer received it is not known."""

    reminder_id: UUID
    at: datetime


class ReminderDropped(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The reminder was not sent, or its sending is unknown, and it is not tried again.

    `code` is the notifier's own, without any text that could name the payer.
    """

    reminder_id: UUID
    because: ReminderDroppedBecause
    at: datetime
    code: str | None = None


class IncludedInGlobalInvoice(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A global invoice states the money of the order: it gets no invoice of its own while that is so.

    `amount` is the subtotal that the order held, in minor units.
    """

    global_invoice_id: UUID
    amount: Decimal
    at: datetime


class ReleasedFromGlobalInvoice(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The global invoice of the order was refused or cancelled: the order can be invoiced again.

    `cancelled_uuid` is the fiscal UUID of the one that SAT has cancelled, None of one that was never stamped.
    """

    global_invoice_id: UUID
    at: datetime
    cancelled_uuid: UUID | None = None


GlobalInvoiceEvent = IncludedInGlobalInvoice | ReleasedFromGlobalInvoice

ReminderEvent = (
    RemindersScheduled | ReminderDue | ReminderRequested | ReminderPostponed | ReminderSent | ReminderDropped
)

ChangeEvent = (
    OrderAmountChanged
    | OrderDescriptionChanged
    | OrderInvoiceNumberChanged
    | OrderMetadataChanged
    | OrderDueDateChanged
    | OrderLineItemsChanged
    | OrderReceiverChanged
)
"""What a merchant changes of an order's terms after its creation: an event for each term."""

OrderEvent = (
    OrderCreated
    | ChangeEvent
    | PaymentStarted
    | AuthorizationRequested
    | PaymentAuthorized
    | CaptureScheduled
    | CaptureRequested
    | PaymentCaptured
    | PaymentDeclined
    | AuthorizationOutcomeUnknown
    | AuthorizationAbandoned
    | LateCaptureReported
    | LateAuthorizationReported
    | PayerActionRequired
    | AuthenticationRequested
    | PayerAuthenticated
    | PayerAuthenticationFailed
    | SessionEndRequested
    | CaptureRefused
    | PaymentCancellationRequested
    | VoidRequested
    | VoidRefused
    | ReleaseRequested
    | AuthorizationReleased
    | ReleaseRefused
    | PaymentCancelled
    | PaymentExpired
    | ReferenceRequested
    | ReferenceIssued
    | DepositReceived
    | RefundRequested
    | RefundDestinationChanged
    | PayoutRequested
    | RefundAccepted
    | PaymentRefunded
    | RefundRefused
    | RefundReopened
    | LateRefundReported
    | RefundReversed
    | CallUnanswered
    | CallPostponed
    | CallRepeated
    | CallAbandoned
    | DisputeOpened
    | DisputeWon
    | DisputeLost
    | SettlementListed
    | SettlementMatched
    | SettlementRefused
    | CancellationRequested
    | CancellationRefused
    | OrderCancelled
    | PayerForgotten
    | ReminderEvent
    | GlobalInvoiceEvent
    | InvoiceEvent
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "order-created.v1": OrderCreated,
    "order-amount-changed.v1": OrderAmountChanged,
    "order-description-changed.v1": OrderDescriptionChanged,
    "order-invoice-number-changed.v1": OrderInvoiceNumberChanged,
    "order-metadata-changed.v1": OrderMetadataChanged,
    "order-due-date-changed.v1": OrderDueDateChanged,
    "order-line-items-changed.v1": OrderLineItemsChanged,
    "order-receiver-changed.v1": OrderReceiverChanged,
    "payment-started.v1": PaymentStarted,
    "authorization-requested.v1": AuthorizationRequested,
    "payment-authorized.v1": PaymentAuthorized,
    "capture-scheduled.v1": CaptureScheduled,
    "capture-requested.v1": CaptureRequested,
    "payment-captured.v1": PaymentCaptured,
    "payment-declined.v1": PaymentDeclined,
    "authorization-outcome-unknown.v1": AuthorizationOutcomeUnknown,
    "authorization-abandoned.v1": AuthorizationAbandoned,
    "late-capture-reported.v1": LateCaptureReported,
    "late-authorization-reported.v1": LateAuthorizationReported,
    "payer-action-required.v1": PayerActionRequired,
    "authentication-requested.v1": AuthenticationRequested,
    "payer-authenticated.v1": PayerAuthenticated,
    "payer-authentication-failed.v1": PayerAuthenticationFailed,
    "session-end-requested.v1": SessionEndRequested,
    "capture-refused.v1": CaptureRefused,
    "payment-cancellation-requested.v1": PaymentCancellationRequested,
    "void-requested.v1": VoidRequested,
    "void-refused.v1": VoidRefused,
    "release-requested.v1": ReleaseRequested,
    "authorization-released.v1": AuthorizationReleased,
    "release-refused.v1": ReleaseRefused,
    "payment-cancelled.v1": PaymentCancelled,
    "payment-expired.v1": PaymentExpired,
    "reference-requested.v1": ReferenceRequested,
    "reference-issued.v1": ReferenceIssued,
    "deposit-received.v1": DepositReceived,
    "refund-requested.v1": RefundRequested,
    "refund-destination-changed.v1": RefundDestinationChanged,
    "payout-requested.v1": PayoutRequested,
    "refund-accepted.v1": RefundAccepted,
    "payment-refunded.v1": PaymentRefunded,
    "refund-refused.v1": RefundRefused,
    "refund-reopened.v1": RefundReopened,
    "late-refund-reported.v1": LateRefundReported,
    "refund-reversed.v1": RefundReversed,
    "call-unanswered.v1": CallUnanswered,
    "call-postponed.v1": CallPostponed,
    "call-repeated.v1": CallRepeated,
    "call-abandoned.v1": CallAbandoned,
    "dispute-opened.v1": DisputeOpened,
    "dispute-won.v1": DisputeWon,
    "dispute-lost.v1": DisputeLost,
    "settlement-listed.v1": SettlementListed,
    "settlement-matched.v1": SettlementMatched,
    "settlement-refused.v1": SettlementRefused,
    "cancellation-requested.v1": CancellationRequested,
    "cancellation-refused.v1": CancellationRefused,
    "order-cancelled.v1": OrderCancelled,
    "payer-forgotten.v1": PayerForgotten,
    "included-in-global-invoice.v1": IncludedInGlobalInvoice,
    "released-from-global-invoice.v1": ReleasedFromGlobalInvoice,
    "reminders-scheduled.v1": RemindersScheduled,
    "reminder-due.v1": ReminderDue,
    "reminder-requested.v1": ReminderRequested,
    "reminder-postponed.v1": ReminderPostponed,
    "reminder-sent.v1": ReminderSent,
    "reminder-dropped.v1": ReminderDropped,
    **invoice_events.TOPICS,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    OrderCreated: ("metadata", "billing_address", "device_information", "fiscal"),
    OrderMetadataChanged: ("patch",),
    OrderReceiverChanged: ("fiscal",),
    PaymentStarted: ("method.card.cardholder_name", "billing_address", "device_information", "metadata"),
    AuthenticationRequested: ("device_information",),
    DepositReceived: ("sender_clabe",),
    RefundRequested: ("destination",),
    RefundDestinationChanged: ("destination",),
    **invoice_events.PERSONAL,
}
"""The fields that are stored sealed under the data key of the order's customer.

Metadata is sealed because a merchant can write anything into it. Description and line items record what was sold, the
BIN and the last four digits prove which card paid: they stay readable, like every amount.
"""
