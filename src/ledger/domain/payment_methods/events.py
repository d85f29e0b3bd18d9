"""The events of a customer's saved payment methods: the storage format of their stream.

Topics and fields are permanent (see `ledger.domain.orders.events`). Name every field about the person in PERSONAL and
give it a default. Never add a card number, a security code or a fingerprint: the vault alone has the number.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.terms import CardSummary


class DeletedBecause(StrEnum):
    """Why a payment method was deleted."""

    REQUESTED = "REQUESTED"
    CUSTOMER_ERASED = "CUSTOMER_ERASED"


class Billing(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The person and the address to which a saved card is billed. `country` is a code of two letters. Personal data."""

    first_name: str | None = None
    last_name: str | None = None
    phone_number: str | None = None
    email: str | None = None
    address_line1: str | None = None
    address_line2: str | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | None = None
    country: str | None = None


class PaymentMethodSaved(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A card was saved for the customer, who asked for it with a payment. The vault has its number under this id."""

    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    at: datetime
    is_default: bool = False
    billing: Billing | None = None


class PaymentMethodExpiryChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The same card was saved again with another expiry: its issuer renewed it under the same number."""

    payment_method_id: UUID
    exp_month: int
    exp_year: int
    at: datetime


class PaymentMethodBillingChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed billing details. `billing` is all of them after the change."""

    payment_method_id: UUID
    at: datetime
    billing: Billing | None = None


class PaymentMethodRenamed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant gave the method a nickname, or removed it (None)."""

    payment_method_id: UUID
    at: datetime
    nickname: str | None = None


class PaymentMethodMadeDefault(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The method became the customer's default instead of the one before."""

    payment_method_id: UUID
    at: datetime


class PaymentMethodDeleted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The method was deleted. The vault destroys the number and its key after this commit."""

    payment_method_id: UUID
    because: DeletedBecause
    at: datetime


class PaymentMethodAttached(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A subscription is charged to the method from now on. The method can then be deleted by force only (N58)."""

    payment_method_id: UUID
    subscription_id: UUID
    at: datetime


class PaymentMethodDetached(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A subscription is no longer charged to the method: it ended, never began, or has another one."""

    payment_method_id: UUID
    subscription_id: UUID
    at: datetime


PaymentMethodEvent = (
    PaymentMethodSaved
    | PaymentMethodExpiryChanged
    | PaymentMethodBillingChanged
    | PaymentMethodRenamed
    | PaymentMethodMadeDefault
    | PaymentMethodDeleted
    | PaymentMethodAttached
    | PaymentMethodDetached
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "payment-method-saved.v1": PaymentMethodSaved,
    "payment-method-expiry-changed.v1": PaymentMethodExpiryChanged,
    "payment-method-billing-changed.v1": PaymentMethodBillingChanged,
    "payment-method-renamed.v1": PaymentMethodRenamed,
    "payment-method-made-default.v1": PaymentMethodMadeDefault,
    "payment-method-deleted.v1": PaymentMethodDeleted,
    "payment-method-attached.v1": PaymentMethodAttached,
    "payment-method-detached.v1": PaymentMethodDetached,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    PaymentMethodSaved: ("card.cardholder_name", "billing"),
    PaymentMethodBillingChanged: ("billing",),
    PaymentMethodRenamed: ("nickname",),
}
"""The fields that are stored sealed under the customer's data key. The first six and last four digits stay readable,
as in the orders that the card paid.
"""
