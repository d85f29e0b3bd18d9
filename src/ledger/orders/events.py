"""What can happen to a payment order: the storage format of its stream.

The rule a stranger would break: a topic and the meaning of its fields are permanent. Add a field only with a default;
when a meaning changes, write the next version of the topic and an upcaster that still reads the old one. A field about a
person is named in PERSONAL, has a default, and is stored sealed.

Amounts are in minor units of the order's currency. `at` is the merchant's clock when the event was recorded; only a
processor's deadline is real time, because a processor does not live by the merchant's sandbox clock.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.orders.terms import (
    BillingAddress,
    CaptureMethod,
    DeviceInformation,
    FiscalData,
    LineItem,
    PaymentMethod,
    SurchargePolicy,
)


class RefusedBy(StrEnum):
    """Who said no to a card payment: the bank that issued the card, or the processor's risk rules."""

    ISSUER = "ISSUER"
    RISK = "RISK"


class AbandonedBecause(StrEnum):
    """Why an authorisation has no outcome and never will have one."""

    NOT_SENT = "NOT_SENT"
    NOT_FOUND = "NOT_FOUND"


class OrderCreated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A merchant asked for money. `amount` is the subtotal: what the merchant wants, without any surcharge."""

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


class PaymentStarted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A payment was opened on the order: `subtotal` of the order's amount, `surcharge` on top of it."""

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


class AuthorizationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The intent: we are about to ask the processor for `amount`, under this idempotency key, until `deadline_at` (real time).

    `capture` asks the processor to capture in the same call what it grants.
    """

    payment_id: UUID
    processor: str
    idempotency_key: str
    amount: Decimal
    capture: bool
    deadline_at: datetime
    at: datetime


class PaymentAuthorized(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The issuer granted `amount`, which may be less than was asked for."""

    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime
    authorization_code: str | None = None


class CaptureScheduled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The capture of `amount` was accepted and is due at `due_at` by the merchant's clock."""

    payment_id: UUID
    amount: Decimal
    due_at: datetime
    at: datetime


class CaptureRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor was asked to capture `amount`, under this idempotency key, until `deadline_at` (real time)."""

    payment_id: UUID
    amount: Decimal
    idempotency_key: str
    deadline_at: datetime
    at: datetime


class PaymentCaptured(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor took `amount`, gross of the surcharge: a fact, whatever the order's state."""

    payment_id: UUID
    amount: Decimal
    processor_reference: str
    at: datetime


class PaymentDeclined(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment was refused, with a processor-neutral decline code (contract 5.1)."""

    payment_id: UUID
    code: str
    at: datetime
    message: str | None = None
    refused_by: RefusedBy = RefusedBy.ISSUER


class AuthorizationOutcomeUnknown(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor did not answer in time: unknown, which is not declined. The recovery asks again by the same key."""

    payment_id: UUID
    reason: str
    at: datetime


class AuthorizationAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment ended without the processor: the request never left, or the processor does not know it."""

    payment_id: UUID
    because: AbandonedBecause
    at: datetime


class LateCaptureReported(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor turned out to have taken `amount` for a payment that we had ended, or more than we had recorded.

    `authorized` is all that it says it granted. The money is real and counts; whether to give it back is the merchant's
    decision, so this is also what an alert is raised on. A payment that had failed keeps its final status.
    """

    payment_id: UUID
    amount: Decimal
    authorized: Decimal
    processor_reference: str
    at: datetime


class PayerForgotten(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The customer of the order was erased: who paid, from where and with whose card is no longer known to anybody."""

    at: datetime


OrderEvent = (
    OrderCreated
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
    | PayerForgotten
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "order-created.v1": OrderCreated,
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
    "payer-forgotten.v1": PayerForgotten,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    OrderCreated: ("metadata", "billing_address", "device_information", "fiscal"),
    PaymentStarted: ("method.card.cardholder_name", "billing_address", "device_information", "metadata"),
}
"""What is stored sealed under the data key of the order's customer.

Metadata is sealed because nobody can know what a merchant writes into it. Description and line items say what was sold,
the BIN and the last four digits prove what was paid with: they stay, like every amount.
"""
