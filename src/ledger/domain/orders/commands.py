"""What may be asked of a payment order. Time, ids and numbers come in with the command; the core invents nothing.

The rule a stranger would break: a command carries no card number and no CVC. Those go from the request to the
processor's call and nowhere else.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.processor_outcomes import (
    AuthorizationOutcome,
    CaptureOutcome,
    ReferenceOutcome,
    RefundOutcome,
    VoidOutcome,
)
from ledger.domain.orders.terms import (
    BillingAddress,
    Destination,
    DeviceInformation,
    OrderTerms,
    PaymentMethod,
    SurchargePolicy,
)
from ledger.domain.py311_speedups import fast_members

REFUND_WINDOW_S: Final = 180 * 86_400
"""How long after its capture a card payment can be refunded where its processor says nothing else (section 8.11)."""
SESSION_S: Final = 15 * 60
"""How long a payer has for 3-D Secure or for a redirect where its processor says nothing else (contract 2.1)."""
AUTHORIZATION_S: Final = 7 * 86_400
"""How long an authorisation stands that nobody captures where its processor says nothing else (contract 2.1)."""
REFERENCE_S: Final = 72 * 3600
"""How long a reference lives, unless its order is due later, where its processor says nothing else (section 8.10)."""


class NewPayment(Struct, frozen=True, kw_only=True):
    """A payment to open, with everything its call to the processor will need except the card itself.

    A card is authorised, every other method gets a reference. `amount` is the part of the order's subtotal that it pays,
    in minor units; None stands for all that is unpaid. `deadline_at` is real time. `reference_s` is the processor's lifetime of a
    reference, `currencies` those in which it takes the method; None is any.
    """

    payment_id: UUID
    method: PaymentMethod
    processor: str
    idempotency_key: str
    deadline_at: datetime
    amount: Decimal | None = None
    external_id: str | None = None
    virtual_terminal: bool = False
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    metadata: Raw | UnsetType = UNSET
    description: str | None = None
    reference_s: int = REFERENCE_S
    currencies: frozenset[str] | None = None


class CreateOrder(Struct, frozen=True, kw_only=True):
    """Creates an order on these terms. `payment` is None for an order created with `pending: true`."""

    order_id: UUID
    order_number: str
    customer_id: UUID
    at: datetime
    terms: OrderTerms
    payment: NewPayment | None = None
    surcharge: SurchargePolicy | None = None


class ResubmitOrder(Struct, frozen=True, kw_only=True):
    """Asks for an order whose external id exists already."""

    terms: OrderTerms
    at: datetime
    payment: NewPayment | None = None


class ChargeOrder(Struct, frozen=True, kw_only=True):
    """Pay an order that waits for its payment."""

    payment: NewPayment
    at: datetime


class AddPayment(Struct, frozen=True, kw_only=True):
    """Pay a part of an order that allows partial payments; other parts may be on their way."""

    payment: NewPayment
    at: datetime


class SubmitDeviceData(Struct, frozen=True, kw_only=True):
    """The payer's browser was looked at: go on with the payment that waits for it.

    `reference_id`, where given, must be that of the session. `capture_delay_s` is the merchant's setting.
    """

    idempotency_key: str
    deadline_at: datetime
    at: datetime
    payment_id: UUID | None = None
    reference_id: str | None = None
    device_information: DeviceInformation | None = None
    capture_delay_s: int = 5


class ValidateAuthentication(Struct, frozen=True, kw_only=True):
    """The payer came back from the challenge, or from a redirect, with the id of that transaction.

    `is_simulated`: the sandbox judges the id, which need not be that of the session.
    """

    transaction_id: str
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    payment_id: UUID | None = None
    capture_delay_s: int = 5
    is_simulated: bool = False


class CapturePayment(Struct, frozen=True, kw_only=True):
    """Capture `amount` (gross) of an authorisation, or all that is left of it. Without a payment id: the newest that can be."""

    idempotency_key: str
    deadline_at: datetime
    at: datetime
    amount: Decimal | None = None
    payment_id: UUID | None = None


class StartScheduledCapture(Struct, frozen=True, kw_only=True):
    """A capture that was scheduled is due."""

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CancelPayment(Struct, frozen=True, kw_only=True):
    """Let one payment go: an authorisation is voided, a session or reference ends. Also what a void that is due becomes."""

    payment_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class CancelOrder(Struct, frozen=True, kw_only=True):
    """Close an order: void what is authorised and, with `refund_captured`, give back what is held.

    The keys of the processor's calls follow from `cancellation_id` and the payments' ids; a refund's id is `refund_id`.
    """

    cancellation_id: UUID
    refund_id: UUID
    deadline_at: datetime
    at: datetime
    refund_captured: bool = False
    reason: str | None = None


class ExpirePayment(Struct, frozen=True, kw_only=True):
    """The time of a reference, a session or an authorisation may be up; nothing happens where it is not."""

    payment_id: UUID
    at: datetime


class Allocation(Struct, frozen=True, kw_only=True):
    """How much of a refund (gross) one payment gives back."""

    payment_id: UUID
    amount: Decimal


class RefundOrder(Struct, frozen=True, kw_only=True):
    """Give `amount` (gross, with its surcharge) back: as allocated, of one payment, or of the newest ones first.

    `card_window_s` is the processor's refund window, `partial_payouts` whether it gives back a part of what came in by a reference.
    The keys of the calls follow from `refund_id` and the payments' ids.
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
    card_window_s: int = REFUND_WINDOW_S
    partial_payouts: bool = True


class RefundOverpayment(Struct, frozen=True, kw_only=True):
    """Give back what is held beyond the order's amount, because the merchant's setting says so.

    `card_window_s` and `partial_payouts` as in `RefundOrder`.
    """

    refund_id: UUID
    deadline_at: datetime
    at: datetime
    card_window_s: int = REFUND_WINDOW_S
    partial_payouts: bool = True


class RecordDeposit(Struct, frozen=True, kw_only=True):
    """Money arrived on a payment's reference; `deposit_id` is the network's own id of it, `sent_to` the number it was sent to."""

    payment_id: UUID
    deposit_id: str
    amount: Decimal
    processor_reference: str
    at: datetime
    sent_to: str | None = None


@fast_members
class DisputeStage(StrEnum):
    """How far a dispute is."""

    OPENED = "OPENED"
    WON = "WON"
    LOST = "LOST"


class RecordDispute(Struct, frozen=True, kw_only=True):
    """The bank's word about a contested payment. Without an `amount` (gross), all that can still be refunded is contested."""

    payment_id: UUID
    dispute_id: str
    stage: DisputeStage
    at: datetime
    amount: Decimal | None = None


@fast_members
class SettlementStage(StrEnum):
    """How far a settlement batch is."""

    LISTED = "LISTED"
    MATCHED = "MATCHED"
    REFUSED = "REFUSED"


class RecordSettlement(Struct, frozen=True, kw_only=True):
    """What a settlement batch says of a payment."""

    payment_id: UUID
    batch_id: str
    stage: SettlementStage
    at: datetime


class ErasePayer(Struct, frozen=True, kw_only=True):
    """The order's customer was erased: keep the money, forget the person."""

    at: datetime


class RecordAuthorizationOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of an authorisation that was asked for.

    The processor's own: `session_s` is how long a payer has to act, `authorization_s` how long what is granted can be captured.
    """

    payment_id: UUID
    outcome: AuthorizationOutcome
    at: datetime
    session_s: int = SESSION_S
    authorization_s: int = AUTHORIZATION_S


class RecordAuthenticationOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of the call that went on after the payer had acted. Its times are as in `SettleAuthorization`."""

    payment_id: UUID
    idempotency_key: str
    outcome: AuthorizationOutcome
    at: datetime
    session_s: int = SESSION_S
    authorization_s: int = AUTHORIZATION_S


class RecordCaptureOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of a capture's own call."""

    payment_id: UUID
    idempotency_key: str
    outcome: CaptureOutcome
    at: datetime


class RecordVoidOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of a void."""

    payment_id: UUID
    idempotency_key: str
    outcome: VoidOutcome
    at: datetime


class RecordRefundOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of the part of a refund that one payment gives back."""

    refund_id: UUID
    payment_id: UUID
    outcome: RefundOutcome
    at: datetime


class RecordReferenceOutcome(Struct, frozen=True, kw_only=True):
    """Record what became of a reference that was asked for."""

    payment_id: UUID
    outcome: ReferenceOutcome
    at: datetime


RecordOutcome = (
    RecordAuthorizationOutcome
    | RecordAuthenticationOutcome
    | RecordCaptureOutcome
    | RecordVoidOutcome
    | RecordRefundOutcome
    | RecordReferenceOutcome
)
"""Every outcome of a call to a processor, as `decide_outcome` takes it."""
