"""What a merchant's request says, checked and in our words, before ids, time and state come to it.

The rule a stranger would break: every limit of the interface has been checked when a draft exists; an operation only
adds what needs the ledger's state.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.commands import Allocation
from ledger.domain.orders.terms import (
    BillingAddress,
    CardSummary,
    Destination,
    DeviceInformation,
    MethodType,
    OrderTerms,
)
from ledger.processors.contract import Card


class Actor(Struct, frozen=True, kw_only=True):
    """On whose word something happens: the merchant, the API key, and the request that asked."""

    merchant_id: UUID
    key_id: UUID | None = None
    request_id: str | None = None


class CustomerInput(Struct, frozen=True, kw_only=True):
    """The customer of a new order: `id` (service id or external id) names a known one; otherwise found or made by `external_id`."""

    id: str | None = None
    external_id: str | None = None
    first_name: str | None | UnsetType = UNSET
    last_name: str | None | UnsetType = UNSET
    email: str | None | UnsetType = UNSET
    phone_number: str | None | UnsetType = UNSET


class PaymentInput(Struct, frozen=True, kw_only=True):
    """How one payment is to be made. `card` and `card_summary` stand together; `saved_method_id` names a saved card.

    Whoever must be able to ask twice fixes `payment_id`: the order that has this payment already gets no other.
    """

    type: MethodType
    payment_id: UUID | None = None
    card: Card | None = None
    card_summary: CardSummary | None = None
    saved_method_id: str | None = None
    persist: bool = False
    amount: Decimal | None = None
    external_id: str | None = None
    virtual_terminal: bool = False
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    metadata: Raw | UnsetType = UNSET
    description: str | None = None


class OrderInput(Struct, frozen=True, kw_only=True):
    """A payment order as a merchant asks for it. `payment` is None where the order is created pending."""

    terms: OrderTerms
    customer: CustomerInput
    payment: PaymentInput | None = None


class RefundInput(Struct, frozen=True, kw_only=True):
    """Money to give back: `amount` in minor units, gross of the surcharge (contract N35).

    Without `payment_id` and `allocations` the newest captured payments give first. `destination` is where a payout goes.
    """

    amount: Decimal
    reason: str = "unspecified"
    payment_id: UUID | None = None
    external_id: str | None = None
    allocations: tuple[Allocation, ...] = ()
    destination: Destination | None = None


class CancelInput(Struct, frozen=True, kw_only=True):
    """An order to close; `refund_captured` gives back what is held (contract N40). With `payment_id` one part of it alone."""

    reason: str | None = None
    refund_captured: bool = False
    payment_id: UUID | None = None


class CaptureInput(Struct, frozen=True, kw_only=True):
    """An authorisation to capture: `amount` in minor units, gross; None is all that is left of it (contract N41)."""

    amount: Decimal | None = None
    payment_id: UUID | None = None


class DeviceDataInput(Struct, frozen=True, kw_only=True):
    """What the payer's browser told of itself (contract N18). `reference_id`, where given, is the session's."""

    reference_id: str | None = None
    device_information: DeviceInformation | None = None


class ValidateInput(Struct, frozen=True, kw_only=True):
    """The payer came back from the challenge, or a redirect, with this transaction (contract N42)."""

    transaction_id: str
