"""The commands about saved payment methods. A detail that is UNSET was absent from the request and keeps its value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.orders.terms import Advice, AuthenticationSession, CardSummary
from ledger.domain.payment_methods.events import Billing
from ledger.domain.payment_methods.terms import PayerStep


class SaveCard(Struct, frozen=True, kw_only=True):
    """Saves a card whose number the vault has under `payment_method_id`, or that the processor of `account` keeps
    (contract N11).
    """

    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    at: datetime
    billing: Billing | None = None
    account: str | None = None


class VerifyCard(Struct, frozen=True, kw_only=True):
    """Verifies a card, and saves it then as `payment_method_id`: the vault has its number, or it came `by_token`.

    `deadline_at` ends the processor's call, in real time. `account` is None for one that is named as the processor.
    """

    verification_id: UUID
    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    processor: str
    deadline_at: datetime
    at: datetime
    is_default: bool = False
    billing: Billing | None = None
    account: str | None = None
    by_token: bool = False


class ResumeVerification(Struct, frozen=True, kw_only=True):
    """Continues the verification of a card after its payer has done one of `steps`.

    `reference_id` and `transaction_id` must be those of the session if they are given; a simulated processor takes any
    transaction id.
    """

    payment_method_id: UUID
    steps: tuple[PayerStep, ...]
    idempotency_key: str
    deadline_at: datetime
    at: datetime
    reference_id: str | None = None
    transaction_id: str | None = None
    is_simulated: bool = False


class Verified(Struct, frozen=True, kw_only=True):
    """The issuer confirmed the card."""

    processor_reference: str | None = None
    eci: str | None = None


class Refused(Struct, frozen=True, kw_only=True):
    """The issuer declined the card, or risk rules did. `code` is a decline code, `network_advice` as in `Declined`."""

    code: str
    message: str | None = None
    by_risk: bool = False
    eci: str | None = None
    network_advice: Advice | None = None


class Challenged(Struct, frozen=True, kw_only=True):
    """The payer has to act first, within `session_s` seconds. `processor_reference` as in the event."""

    action: PayerStep
    session: AuthenticationSession
    session_s: int
    processor_reference: str | None = None


class Unknown(Struct, frozen=True, kw_only=True):
    """There was no readable answer in time: the processor may have verified the card."""

    reason: str


class NotCarriedOut(Struct, frozen=True, kw_only=True):
    """The call had no effect: it was not sent, or the processor does not have it and will not."""

    sent: bool


VerificationOutcome = Verified | Refused | Challenged | Unknown | NotCarriedOut


class RecordVerification(Struct, frozen=True, kw_only=True):
    """Records the outcome of the verification's call with this key."""

    verification_id: UUID
    idempotency_key: str
    outcome: VerificationOutcome
    at: datetime


class ExpireVerification(Struct, frozen=True, kw_only=True):
    """Ends the verification of a method whose payer has not acted in time."""

    payment_method_id: UUID
    at: datetime


class UpdatePaymentMethod(Struct, frozen=True, kw_only=True):
    """Changes billing details (contract N59): `billing` has the given ones by their names in `Billing`."""

    payment_method_id: UUID
    at: datetime
    billing: Mapping[str, str | None]
    nickname: str | None | UnsetType = UNSET
    is_default: bool | UnsetType = UNSET


class DeletePaymentMethod(Struct, frozen=True, kw_only=True):
    """Deletes a method (contract N58). `force` deletes it although a subscription is charged to it."""

    payment_method_id: UUID
    at: datetime
    force: bool = False


class MoveSubscription(Struct, frozen=True, kw_only=True):
    """Charges a subscription to the method `to` from now on, and no longer to `away_from`. Each may be None."""

    subscription_id: UUID
    at: datetime
    away_from: UUID | None = None
    to: UUID | None = None


class EraseMethods(Struct, frozen=True, kw_only=True):
    """Deletes all methods of a customer who is erased (contract N61)."""

    at: datetime
