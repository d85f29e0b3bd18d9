"""Stripe's objects, as far as the adapter uses them. Every other field is skipped by the decoder.

The names and types are those of Stripe's OpenAPI description (github.com/stripe/openapi) at the pinned version. A field
that Stripe may leave out, or that is only there when expanded, has a default.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Raw, Struct, field

T = TypeVar("T")


class List(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list. `has_more` is whether another one follows after its last object."""

    data: list[T]
    has_more: bool = False


class Customer(Struct, frozen=True, kw_only=True):
    id: str
    created: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


class ThreeDSecure(Struct, frozen=True, kw_only=True):
    """How the payer was authenticated. The indicator has two digits, as the card networks write it."""

    electronic_commerce_indicator: str | None = None
    version: str | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """A plan of instalments; `fixed_count` plans have the number of months."""

    type: str
    count: int | None = None
    interval: str | None = None


class Installments(Struct, frozen=True, kw_only=True):
    enabled: bool = False
    available_plans: list[Plan] | None = None
    plan: Plan | None = None


class CardOptions(Struct, frozen=True, kw_only=True):
    installments: Installments | None = None


class MethodOptions(Struct, frozen=True, kw_only=True):
    card: CardOptions | None = None


class CardDetails(Struct, frozen=True, kw_only=True):
    """The card of a charge. `capture_before` (Unix seconds) is there while the authorisation can be captured."""

    authorization_code: str | None = None
    capture_before: int | None = None
    fingerprint: str | None = None
    network_transaction_id: str | None = None
    three_d_secure: ThreeDSecure | None = None


class OxxoDetails(Struct, frozen=True, kw_only=True):
    number: str | None = None


class MethodDetails(Struct, frozen=True, kw_only=True):
    card: CardDetails | None = None
    oxxo: OxxoDetails | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """Who judged a charge: `blocked` are Stripe's own risk rules, `issuer_declined` is the card's bank."""

    type: str | None = None


class Charge(Struct, frozen=True, kw_only=True):
    """A try to take money from a card: `failed`, `pending` or `succeeded`, as one is that only holds the money."""

    id: str
    status: str = ""
    amount: int = 0
    amount_captured: int = 0
    amount_refunded: int = 0
    created: int = 0
    payment_intent: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    outcome: Outcome | None = None
    payment_method_details: MethodDetails | None = None


class Redirect(Struct, frozen=True, kw_only=True):
    url: str | None = None


class Voucher(Struct, frozen=True, kw_only=True):
    """An OXXO voucher: its number, when it expires (Unix seconds), and its page."""

    number: str | None = None
    expires_after: int | None = None
    hosted_voucher_url: str | None = None


class Spei(Struct, frozen=True, kw_only=True):
    clabe: str


class FinancialAddress(Struct, frozen=True, kw_only=True):
    type: str
    spei: Spei | None = None


class BankTransfer(Struct, frozen=True, kw_only=True):
    financial_addresses: list[FinancialAddress] = field(default_factory=list)
    hosted_instructions_url: str | None = None


class NextAction(Struct, frozen=True, kw_only=True):
    type: str
    redirect_to_url: Redirect | None = None
    oxxo_display_details: Voucher | None = None
    display_bank_transfer_instructions: BankTransfer | None = None


class Card(Struct, frozen=True, kw_only=True):
    """A card as Stripe shows it, without its number. `funding` is credit, debit, prepaid or unknown."""

    brand: str
    last4: str
    exp_month: int
    exp_year: int
    funding: str = "unknown"
    country: str | None = None
    fingerprint: str | None = None


class BillingDetails(Struct, frozen=True, kw_only=True):
    name: str | None = None


class PaymentMethod(Struct, frozen=True, kw_only=True):
    """What can be charged: a card, or the preview of one in a confirmation token, which has no id."""

    type: str
    id: str = ""
    card: Card | None = None
    customer: str | None = None
    billing_details: BillingDetails | None = None


class Error(Struct, frozen=True, kw_only=True):
    """An error of a request, or of an intent's last attempt. Its intent is as it is now."""

    type: str = ""
    code: str | None = None
    decline_code: str | None = None
    advice_code: str | None = None
    message: str | None = None
    param: str | None = None
    payment_intent: Intent | None = None
    setup_intent: Intent | None = None


class Intent(Struct, frozen=True, kw_only=True):
    """A payment intent, or a setup intent, which has no amounts.

    A payment intent that saves its card has `setup_future_usage`, a setup intent has `usage`. `payment_method` is an
    object if the request asked for it to be expanded.
    """

    id: str
    status: str
    created: int = 0
    amount: int = 0
    amount_capturable: int = 0
    amount_received: int = 0
    capture_method: str = ""
    currency: str = ""
    customer: str | None = None
    canceled_at: int | None = None
    cancellation_reason: str | None = None
    payment_method_types: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    latest_charge: str | Charge | None = None
    last_payment_error: Error | None = None
    last_setup_error: Error | None = None
    next_action: NextAction | None = None
    payment_method: str | PaymentMethod | None = None
    payment_method_options: MethodOptions | None = None
    setup_future_usage: str | None = None
    usage: str | None = None

    @property
    def charge(self) -> Charge | None:
        """The latest charge, if the request asked for it to be expanded."""
        return self.latest_charge if isinstance(self.latest_charge, Charge) else None

    @property
    def last_error(self) -> Error | None:
        return self.last_payment_error or self.last_setup_error


class OwnedSetup(Struct, frozen=True, kw_only=True):
    """A setup intent as the account's secret key sees it: a browser reads it by its client secret."""

    id: str
    client_secret: str

    def __repr__(self) -> str:
        return "OwnedSetup(***)"


class SeenSetup(Struct, frozen=True, kw_only=True):
    """A setup intent as a publishable key sees it."""

    id: str


class Failure(Struct, frozen=True, kw_only=True):
    """The body of an answer other than 200."""

    error: Error = Error()


class Refund(Struct, frozen=True, kw_only=True):
    id: str
    amount: int
    created: int = 0
    status: str | None = None
    failure_reason: str | None = None
    charge: str | None = None
    payment_intent: str | None = None
    customer: str | None = None
    metadata: dict[str, str] | None = None


class FeeDetail(Struct, frozen=True, kw_only=True):
    """A part of a fee. `tax` is the tax on Stripe's own (`stripe_fee`)."""

    type: str
    amount: int = 0


class BalanceTransaction(Struct, frozen=True, kw_only=True):
    """A change of the account's balance, with what it cost. Its type decides what its expanded source is.

    Its currency is the one in which the account is paid out, which may be another than the charge's.
    """

    id: str
    type: str
    created: int
    fee: int = 0
    fee_details: list[FeeDetail] = field(default_factory=list)
    currency: str = ""
    source: Raw = Raw(b"null")


class EventData(Struct, frozen=True, kw_only=True):
    object: Raw


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened, with its object as it was then. The type decides what the object is."""

    id: str
    type: str
    created: int
    data: EventData


class CashTransaction(Struct, frozen=True, kw_only=True):
    """A change of a customer's balance. Money that arrived has the type `funded`."""

    id: str
    type: str
    customer: str
    net_amount: int
    currency: str
    created: int = 0


class FundingTransfer(Struct, frozen=True, kw_only=True):
    financial_addresses: list[FinancialAddress] = field(default_factory=list)


class FundingInstructions(Struct, frozen=True, kw_only=True):
    """Where a customer sends transfers to."""

    bank_transfer: FundingTransfer


class Dispute(Struct, frozen=True, kw_only=True):
    """A payment that the payer contests. `warning_…` are inquiries, which take no money."""

    id: str
    status: str
    amount: int
    created: int = 0
    reason: str = ""
    payment_intent: str | None = None


class Payout(Struct, frozen=True, kw_only=True):
    """What Stripe pays to the merchant's bank. Only an automatic payout has lines, once they are `completed`.

    `paid` is not final: a bank may send a payout back within five working days, which is then `failed`.
    """

    id: str
    status: str
    created: int = 0
    automatic: bool = True
    reconciliation_status: str = "completed"


class ConfirmationToken(Struct, frozen=True, kw_only=True):
    """What the payer chose on the page. It names the intent that it was used for."""

    id: str
    expires_at: int | None = None
    payment_intent: str | None = None
    setup_intent: str | None = None
    payment_method_preview: PaymentMethod | None = None


class Account(Struct, frozen=True, kw_only=True):
    id: str
    country: str | None = None
    charges_enabled: bool = False
    capabilities: dict[str, str] = field(default_factory=dict)
