"""The terms of a payment order: what the merchant states at creation. Also the shapes inside events.

These shapes are stored inside events. Add a field only with a default, and never rename one: a changed meaning is a new
field.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.fiscal_data import FiscalAddress as FiscalAddress  # noqa: PLC0414 - exported from here too
from ledger.domain.fiscal_data import FiscalData as FiscalData  # noqa: PLC0414 - orders and customers have the same
from ledger.domain.orders.statuses import Advice as Advice  # noqa: PLC0414 - for the streams that know these terms
from ledger.py311_speedups import fast_members

DUE_DATE_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
DUE_DATE_MAX: Final = datetime(3000, 1, 1, tzinfo=UTC)
"""When an order can be due. The first and the last days of the calendar have no day before or after them."""
METADATA_BYTES_MAX: Final = 32_768
"""How long metadata can be, as compact JSON."""


@fast_members
class CaptureMethod(StrEnum):
    """Whether an authorised card payment is captured automatically, or when the merchant requests it."""

    AUTOMATIC = "AUTOMATIC"
    MANUAL = "MANUAL"


@fast_members
class MethodType(StrEnum):
    """How money reaches an order. The interface shows `PAYCASH` as `CIE_CASH_NET` with a channel (contract N16)."""

    CARD = "CARD"
    SPEI = "SPEI"
    PAYCASH = "PAYCASH"
    CIE_CASH_NET = "CIE_CASH_NET"


class SurchargePolicy(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant's surcharge at the order's creation: `rate` in percent, and the methods that it applies to."""

    rate: Decimal
    methods: tuple[MethodType, ...]


class ReminderPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant's reminders at the order's creation: so many days before the due date, in the merchant's time zone.

    Zero is the due date itself. Without days, the payer gets no message about the due date.
    """

    days: tuple[int, ...]
    time_zone: str


class BillingAddress(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The billing address of a card. `country` is a country code of two characters."""

    address: str | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | None = None
    country: str | None = None


class DeviceInformation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the payer's browser reports about itself, for fraud checks. Personal data."""

    ip_address: str | None = None
    user_agent: str | None = None
    http_browser_language: str | None = None
    http_browser_screen_width: str | None = None
    http_browser_screen_height: str | None = None


class Tax(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", cache_hash=True):
    """A tax on a line: `type` IVA, ISR or IEPS, `rate` as a fraction (0.16), `factor` Tasa, Cuota or Exento."""

    type: str
    rate: Decimal
    factor: str
    withholding: bool


class LineItem(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of the order. `unit_price` and `discount` in minor units of the order's currency; `quantity` can be a
    fraction.
    """

    description: str
    quantity: Decimal
    unit_price: Decimal
    tax_included: bool
    name: str | None = None
    sku: str | None = None
    product_id: str | None = None
    product_key: str | None = None
    unit_key: str | None = None
    unit_name: str | None = None
    discount: Decimal | None = None
    taxes: tuple[Tax, ...] = ()
    metadata: Raw | UnsetType = UNSET


class CardSummary(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The stored part of a card, without its number and CVC. `bin` is the first six digits, None if a processor's token
    of the card does not show them.
    """

    bin: str | None
    last4: str
    brand: str
    type: str | None
    country: str | None
    issuer_bank: str | None
    exp_month: int
    exp_year: int
    cardholder_name: str | None = None


class PaymentMethod(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The method of one payment. `method_id` names the saved or one-time method; a card's number is never stored."""

    method_id: UUID
    type: MethodType
    card: CardSummary | None = None


class Reference(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a payer pays to: a CLABE of 18 digits, or the reference (and `convenio`) of a cash network.

    `channel` is the network of a cash reference that is not the method's own, `voucher_url` the page of its voucher.
    """

    clabe: str | None = None
    reference: str | None = None
    convenio: str | None = None
    channel: str | None = None
    voucher_url: str | None = None


class AuthenticationSession(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the payer's browser needs for 3-D Secure. `transaction_id` is the bank's id of the session (contract
    N17).
    """

    transaction_id: str
    reference_id: str | None = None
    device_data_collection_url: str | None = None
    access_token: str | None = None
    step_up_url: str | None = None
    three_ds_version: str | None = None


class Destination(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The account that a payout is sent to. Personal data."""

    clabe: str
    account_holder: str | None = None


@fast_members
class DestinationType(StrEnum):
    """Where a payout goes: to a named account, to the account that paid, or wherever the merchant pays it out."""

    ACCOUNT = "ACCOUNT"
    PAYING_ACCOUNT = "PAYING_ACCOUNT"
    MANUAL = "MANUAL"


class OrderTerms(Struct, frozen=True, kw_only=True):
    """The terms that a merchant requests for an order, before ids and time. `OrderCreated` stores each of these fields.

    `amount` is the subtotal in minor units of `currency`. `subscription_id` is the subscription that the order charges.
    """

    external_id: str
    amount: Decimal
    currency: str
    allow_partials: bool = False
    capture_method: CaptureMethod = CaptureMethod.AUTOMATIC
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
