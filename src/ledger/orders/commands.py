"""What may be asked of a payment order. Time, ids and numbers come in with the command; the core invents nothing.

The rule a stranger would break: a command carries no card number and no CVC. Those go from the request to the
processor's call and nowhere else.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.orders.events import RefusedBy
from ledger.orders.terms import (
    BillingAddress,
    CaptureMethod,
    DeviceInformation,
    FiscalData,
    LineItem,
    PaymentMethod,
    SurchargePolicy,
)


class NewPayment(Struct, frozen=True, kw_only=True):
    """A card payment to open, with everything its call to the processor will need except the card itself.

    `amount` is the part of the order's subtotal that it pays, in minor units; None stands for all that is unpaid.
    `deadline_at` is real time.
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


class CreateOrder(Struct, frozen=True, kw_only=True):
    """Ask for money. `payment` is None for an order created with `pending: true`."""

    order_id: UUID
    order_number: str
    external_id: str
    customer_id: UUID
    amount: Decimal
    currency: str
    at: datetime
    payment: NewPayment | None = None
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


class ChargeOrder(Struct, frozen=True, kw_only=True):
    """Pay an order that waits for its payment."""

    payment: NewPayment
    at: datetime


class ForgetPayer(Struct, frozen=True, kw_only=True):
    """The order's customer was erased: keep the money, forget the person."""

    at: datetime


class Approved(Struct, frozen=True, kw_only=True):
    """The processor's yes: what it granted and, where it was asked to capture as well, what it took."""

    authorized: Decimal
    captured: Decimal
    processor_reference: str
    authorization_code: str | None = None


class Declined(Struct, frozen=True, kw_only=True):
    """The processor's no, final for this payment."""

    code: str
    message: str | None = None
    refused_by: RefusedBy = RefusedBy.ISSUER


class Unanswered(Struct, frozen=True, kw_only=True):
    """No answer before the deadline: the payment may have happened."""

    reason: str


class NotSent(Struct, frozen=True):
    """The request never left: nothing can have happened."""


class NotFound(Struct, frozen=True):
    """The processor, asked by the idempotency key after its late-arrival window, knows no such payment."""


AuthorizationOutcome = Approved | Declined | Unanswered | NotSent | NotFound


class SettleAuthorization(Struct, frozen=True, kw_only=True):
    """Record what became of an authorisation that was asked for."""

    payment_id: UUID
    outcome: AuthorizationOutcome
    at: datetime
