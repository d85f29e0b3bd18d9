"""The state of a customer's saved payment methods, folded from their events."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.orders.terms import Advice, AuthenticationSession, CardSummary
from ledger.domain.payment_methods.events import Billing
from ledger.domain.payment_methods.terms import PayerStep, VerificationEnd


def stream_of(customer_id: UUID) -> UUID:
    """Returns the id of the stream that has a customer's saved payment methods."""
    return uuid5(customer_id, "payment-methods")


class SavedMethod(Struct, frozen=True, kw_only=True):
    """A saved card without its number. A deleted card keeps only its ids, its times and its subscriptions.

    `used_by` are the subscriptions that are charged to it. `account` is the account whose processor keeps the card,
    None if the vault has its number.
    """

    payment_method_id: UUID
    customer_id: UUID
    created_at: datetime
    updated_at: datetime
    card: CardSummary | None
    billing: Billing = Billing()
    nickname: str | None = None
    is_default: bool = False
    used_by: tuple[UUID, ...] = ()
    account: str | None = None

    @property
    def deleted(self) -> bool:
        return self.card is None


class VerificationCall(Struct, frozen=True, kw_only=True):
    """A call to the processor that was announced and has no outcome yet. `deadline_at` is real time.

    `step` is what the payer has done before it, None for the first call. `announced_at` is the time of the merchant's
    clock, `came_back_at` that at which it came back without an answer.
    """

    idempotency_key: str
    deadline_at: datetime
    announced_at: datetime
    step: PayerStep | None = None
    transaction_id: str | None = None
    came_back_at: datetime | None = None

    @property
    def unknown(self) -> bool:
        return self.came_back_at is not None


class Verification(Struct, frozen=True, kw_only=True):
    """A verification of a card that is to be saved as `payment_method_id`. One that has ended has no personal data.

    `next_action` is what it waits for its payer to do, until `action_expires_at` by the merchant's clock.
    `session_reference` is the processor's id of a verification that the payer's act completes without a further call.
    One that was not ended at the processor first keeps it.
    """

    verification_id: UUID
    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    processor: str
    created_at: datetime
    updated_at: datetime
    billing: Billing | None = None
    is_default: bool = False
    call: VerificationCall | None = None
    next_action: PayerStep | None = None
    session: AuthenticationSession | None = None
    action_expires_at: datetime | None = None
    session_reference: str | None = None
    ended: VerificationEnd | None = None
    decline_code: str | None = None
    refused_by_risk: bool = False
    network_advice: Advice | None = None
    eci: str | None = None
    account_in_event: str | None = None
    by_token: bool = False

    @property
    def account(self) -> str:
        """The name of the merchant's account that verifies the card."""
        return self.account_in_event or self.processor

    @property
    def counts_as_failure(self) -> bool:
        """Returns whether it was sent to the processor and has saved no card."""
        return self.ended not in {VerificationEnd.VERIFIED, VerificationEnd.NOT_SENT}


class SavedMethods(Struct, frozen=True, kw_only=True):
    """All payment methods that a customer ever had, oldest first, deleted ones included, and the verifications of cards
    that were to be saved without a payment: of those that have saved a card, the latest of each card.
    """

    customer_id: UUID
    methods: tuple[SavedMethod, ...] = ()
    verifications: tuple[Verification, ...] = ()

    @property
    def live(self) -> list[SavedMethod]:
        """Returns the methods that are not deleted, oldest first."""
        return [method for method in self.methods if not method.deleted]

    def method(self, payment_method_id: UUID) -> SavedMethod | None:
        """Returns the method with this id, None if there is none or it was deleted."""
        found = next((each for each in reversed(self.methods) if each.payment_method_id == payment_method_id), None)
        return None if found is None or found.deleted else found

    @property
    def subscriptions(self) -> list[UUID]:
        """Returns the customer's subscriptions that are charged, also those whose method was deleted."""
        return [subscription_id for method in self.methods for subscription_id in method.used_by]

    def had(self, payment_method_id: UUID) -> bool:
        """Returns whether this id is used up: a deleted method had it, or a card that was not saved."""
        for method in self.methods:
            if method.payment_method_id == payment_method_id:
                return method.deleted
        latest = self.latest_verification(payment_method_id)
        return latest is not None and latest.ended not in {None, VerificationEnd.VERIFIED}

    def verification(self, verification_id: UUID) -> Verification | None:
        """Returns the verification with this id."""
        return next((each for each in reversed(self.verifications) if each.verification_id == verification_id), None)

    def place_of(self, verification_id: UUID) -> int:
        """Returns the index of a verification. Most that are asked for are at the end."""
        places = reversed(range(len(self.verifications)))
        return next(n for n in places if self.verifications[n].verification_id == verification_id)

    def latest_verification(self, payment_method_id: UUID) -> Verification | None:
        """Returns the newest verification of the card that is, or was to be, saved under this id."""
        for each in reversed(self.verifications):
            if each.payment_method_id == payment_method_id:
                return each
        return None

    def open_verification(self, payment_method_id: UUID) -> Verification | None:
        """Returns the verification of this card that has not ended: the newest, as one is open at a time."""
        latest = self.latest_verification(payment_method_id)
        return latest if latest is not None and latest.ended is None else None

    def is_kept(self, payment_method_id: UUID) -> bool:
        """Returns whether a method has this id, or a card that may still be saved."""
        return self.method(payment_method_id) is not None or self.open_verification(payment_method_id) is not None

    @property
    def places_taken(self) -> int:
        """Returns how many methods there are, and cards that may still be saved."""
        methods = {method.payment_method_id for method in self.live}
        return len(methods | {each.payment_method_id for each in self.verifications if each.ended is None})
