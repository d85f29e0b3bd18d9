"""Parsed requests of merchants, before the operation adds ids, the time and the ledger's state.

The parsers have checked every limit of the interface; an operation checks what needs the ledger's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum, auto
from typing import Any
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.customers.details import GivenDetails
from ledger.domain.invoices.commands import StampRequest
from ledger.domain.orders.commands import Allocation, OrderChanges
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.orders.terms import (
    BillingAddress,
    CardSummary,
    Destination,
    DeviceInformation,
    FiscalData,
    MethodType,
    OrderTerms,
)
from ledger.domain.rejections import CardTokenInvalid
from ledger.processors.contract import CardToken, PayingCard
from ledger.processors.saved_card import SecurityCode


class Actor(Struct, frozen=True, kw_only=True):
    """Who requested a change: the merchant, the API key and the request."""

    merchant_id: UUID
    key_id: UUID | None = None
    request_id: str | None = None


class CustomerInput(GivenDetails, frozen=True, kw_only=True):
    """The customer of a new order.

    `id` (service id or external id) names an existing one; without it the customer is found or created by
    `external_id`.
    """

    id: str | None = None
    external_id: str | None = None


class CustomerFields(GivenDetails, frozen=True, kw_only=True):
    """What a request to create or to change a customer gives; UNSET is absent, None clears.

    `source_id` is a service id or an external id. `preferences` are the fields of `NotificationPreferences` that are
    given.
    """

    external_id: str | None | UnsetType = UNSET
    source_id: str | None | UnsetType = UNSET
    metadata: Raw | None | UnsetType = UNSET
    preferences: Mapping[str, Any] | None | UnsetType = UNSET
    fiscal: FiscalData | None | UnsetType = UNSET


class CustomersFiscal(Enum):
    """Whether an order without fiscal data of its own takes those of its customer."""

    BY_SETTING = auto()
    """If the customer has some and the merchant's setting `invoiceByDefault` is on."""
    IF_THERE = auto()
    """For a charge that is made whether it can be invoiced or not: a renewal."""
    REQUIRED = auto()


class AccountToken(Struct, frozen=True, kw_only=True):
    """A card as a token of one of the merchant's accounts with a processor."""

    account: str
    token: CardToken


class PaymentInput(Struct, frozen=True, kw_only=True):
    """How one payment is to be made. `card` and `card_summary` come together, `persist` saves that card.

    `card_tokens` has the same card for one account or several. The operation reads the token of the account that it
    chooses, `card_account`, which becomes `card`; a token that no card can be charged by becomes `card_refusal`.
    `card_fingerprint` is the same for the same card at that account.

    `installments` is the number of months in which the payer pays without interest, None for one payment. `return_url`
    is where the payer returns after a redirect. `saved_method_id` names a saved card, and `saved_cvc` is
    what the payer entered for it.

    A caller that may repeat the request fixes `payment_id`: an order that has this payment already gets no other.
    """

    type: MethodType
    payment_id: UUID | None = None
    card: PayingCard | None = None
    card_tokens: tuple[AccountToken, ...] = ()
    card_account: str | None = None
    card_fingerprint: str | None = None
    card_refusal: CardTokenInvalid | None = None
    card_summary: CardSummary | None = None
    saved_method_id: str | None = None
    saved_cvc: SecurityCode | None = None
    persist: bool = False
    installments: int | None = None
    amount: Decimal | None = None
    external_id: str | None = None
    virtual_terminal: bool = False
    billing_address: BillingAddress | None = None
    device_information: DeviceInformation | None = None
    return_url: str | None = None
    metadata: Raw | UnsetType = UNSET
    description: str | None = None


class OrderInput(Struct, frozen=True, kw_only=True):
    """A payment order that a merchant requests. `payment` is None if the order is created pending.

    `exchange_rate` is for the order's invoices, in pesos per unit of its currency. A caller that may repeat the request
    fixes `order_id`. `surcharged` is False if the amount is the whole price whatever the merchant's surcharge.
    `customers_fiscal` applies if `terms` have no fiscal data.
    """

    terms: OrderTerms
    customer: CustomerInput
    payment: PaymentInput | None = None
    exchange_rate: Decimal | None = None
    order_id: UUID | None = None
    surcharged: bool = True
    customers_fiscal: CustomersFiscal = CustomersFiscal.BY_SETTING


class ChangeInput(Struct, frozen=True, kw_only=True):
    """Changes of an order's terms. `exchange_rate` is for its invoices, in pesos per unit of its currency. If it
    `takes_customers_fiscal`, the receiver is that of the order's customer.
    """

    changes: OrderChanges
    exchange_rate: Decimal | None = None
    takes_customers_fiscal: bool = False


class RefundInput(Struct, frozen=True, kw_only=True):
    """A refund: `amount` in minor units, gross of the surcharge (contract N35).

    Without `payment_id` and `allocations` the newest captured payments are refunded first. `destination` is the account
    of a payout.
    """

    amount: Decimal
    reason: str = "unspecified"
    payment_id: UUID | None = None
    external_id: str | None = None
    allocations: tuple[Allocation, ...] = ()
    destination: Destination | None = None


class ConfirmationInput(Struct, frozen=True, kw_only=True):
    """The confirmation of a payout that the merchant has made: when, None for now, and its own reference of it."""

    paid_at: datetime | None = None
    reference: str | None = None


class CancelInput(Struct, frozen=True, kw_only=True):
    """A cancellation; `refund_captured` refunds what is held (contract N40).

    With `payment_id` it is about that payment alone.
    """

    reason: str | None = None
    refund_captured: bool = False
    payment_id: UUID | None = None


class CaptureInput(Struct, frozen=True, kw_only=True):
    """A capture: `amount` in minor units, gross; None is all that is left of the authorisation (contract N41).

    A `final` one releases the rest.
    """

    amount: Decimal | None = None
    payment_id: UUID | None = None
    final: bool = False


class ReleaseInput(Struct, frozen=True, kw_only=True):
    """A release of what a partial capture has left: of this payment, else of the newest one with a rest."""

    payment_id: UUID | None = None


class DeviceDataInput(Struct, frozen=True, kw_only=True):
    """Data that the payer's browser sent about itself (contract N18). `reference_id`, if given, is the session's."""

    reference_id: str | None = None
    device_information: DeviceInformation | None = None


class StampInput(Struct, frozen=True, kw_only=True):
    """A request to stamp an order's documents (contract N43). `fiscal` replaces the receiver of what is not stamped
    yet, `exchange_rate` is in pesos per unit of the order's currency.
    """

    stamp: StampRequest = StampRequest()
    fiscal: FiscalData | None = None
    exchange_rate: Decimal | None = None


class CancelDocumentInput(Struct, frozen=True, kw_only=True):
    """A cancellation of a stamped document: the invoice without `document_id`. `substituted_by` is a fiscal UUID."""

    motive: CancellationMotive
    document_id: UUID | None = None
    substituted_by: UUID | None = None


class ValidateInput(Struct, frozen=True, kw_only=True):
    """The transaction with which the payer returned from a challenge or a redirect (contract N42)."""

    transaction_id: str
