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

from ledger.domain.orders.terms import Advice, AuthenticationSession, CardSummary
from ledger.domain.payment_methods.terms import EndedBecause, PayerStep


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
    """A card was saved for the customer, with a payment or after its verification.

    The vault has its number under this id, or the processor of `account` keeps the card, which came as a token.
    """

    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    at: datetime
    is_default: bool = False
    billing: Billing | None = None
    account: str | None = None


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
    """A subscription is no longer charged to the method: it ended and owes nothing, never began, or has another one."""

    payment_method_id: UUID
    subscription_id: UUID
    at: datetime


class CardVerificationRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant asked to save a card without a payment, and the ledger decided to ask the processor whether the card
    is good, for an amount of zero: an intent. The vault has its number under `payment_method_id`, unless the card came
    `by_token`: then the processor is asked to keep it.

    The call ends at `deadline_at` (real time). `is_default`: the card becomes the default once it is verified.
    `account` is the merchant's account with the processor, absent where it is named as the processor.
    """

    verification_id: UUID
    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    processor: str
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    is_default: bool = False
    billing: Billing | None = None
    account: str | None = None
    by_token: bool = False


class CardVerificationChallenged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The processor required an action of the payer until `expires_at`: device data, a challenge or a redirect.

    `session` contains what the payer's browser needs for it. `processor_reference` is the processor's id of a
    verification that the payer's act completes without a further call: its session is ended there.
    """

    verification_id: UUID
    action: PayerStep
    expires_at: datetime
    at: datetime
    session: AuthenticationSession | None = None
    processor_reference: str | None = None


class CardVerificationResumed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payer acted (`step`), and the ledger decided to ask the processor to continue the verification: an intent.

    The call ends at `deadline_at` (real time).
    """

    verification_id: UUID
    step: PayerStep
    idempotency_key: str
    transaction_id: str
    deadline_at: datetime
    at: datetime


class CardVerificationUnanswered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A call of the verification came back without a readable answer: its outcome is unknown, and is looked up."""

    verification_id: UUID
    reason: str
    at: datetime


class CardVerified(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The issuer confirmed the card. `eci` is the network's indicator of the payer's authentication, if there was one.

    The same commit saves the card, or its new expiry.
    """

    verification_id: UUID
    at: datetime
    processor_reference: str | None = None
    eci: str | None = None


class CardVerificationDeclined(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The issuer declined the card, its payer could not be authenticated, or (`by_risk`) risk rules refused it.

    The card is not saved. The vault destroys its number after this commit, unless an earlier one has saved it.
    `network_advice` is what the card network advises, if it does.
    """

    verification_id: UUID
    code: str
    at: datetime
    message: str | None = None
    by_risk: bool = False
    eci: str | None = None
    network_advice: Advice | None = None


class CardVerificationAbandoned(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A call of the verification had no effect: it was not sent, or (`sent`) the processor does not have it.

    If its payer had acted, the verification waits for the payer again; otherwise the card is not saved.
    """

    verification_id: UUID
    at: datetime
    sent: bool = False


class CardVerificationEnded(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The verification ended without the processor: its payer's time was over, another one of the same card began, or
    the method or its customer was deleted. A later answer of the processor saves nothing.
    """

    verification_id: UUID
    because: EndedBecause
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
    | CardVerificationRequested
    | CardVerificationChallenged
    | CardVerificationResumed
    | CardVerificationUnanswered
    | CardVerified
    | CardVerificationDeclined
    | CardVerificationAbandoned
    | CardVerificationEnded
)

VERIFICATION_TOPICS: Final[dict[str, type[Struct]]] = {
    "card-verification-requested.v1": CardVerificationRequested,
    "card-verification-challenged.v1": CardVerificationChallenged,
    "card-verification-resumed.v1": CardVerificationResumed,
    "card-verification-unanswered.v1": CardVerificationUnanswered,
    "card-verified.v1": CardVerified,
    "card-verification-declined.v1": CardVerificationDeclined,
    "card-verification-abandoned.v1": CardVerificationAbandoned,
    "card-verification-ended.v1": CardVerificationEnded,
}
"""The events of a card that is saved without a payment, which set its timers."""

TOPICS: Final[dict[str, type[Struct]]] = {
    "payment-method-saved.v1": PaymentMethodSaved,
    "payment-method-expiry-changed.v1": PaymentMethodExpiryChanged,
    "payment-method-billing-changed.v1": PaymentMethodBillingChanged,
    "payment-method-renamed.v1": PaymentMethodRenamed,
    "payment-method-made-default.v1": PaymentMethodMadeDefault,
    "payment-method-deleted.v1": PaymentMethodDeleted,
    "payment-method-attached.v1": PaymentMethodAttached,
    "payment-method-detached.v1": PaymentMethodDetached,
    **VERIFICATION_TOPICS,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    PaymentMethodSaved: ("card.cardholder_name", "billing"),
    PaymentMethodBillingChanged: ("billing",),
    PaymentMethodRenamed: ("nickname",),
    CardVerificationRequested: ("card.cardholder_name", "billing"),
}
"""The fields that are stored sealed under the customer's data key. The first six and last four digits stay readable,
as in the orders that the card paid.
"""
