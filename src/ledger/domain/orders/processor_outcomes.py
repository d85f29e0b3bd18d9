"""What a payment processor may say beside yes and no to an authorisation: the facts that come back into the core.

The rule a stranger would break: an outcome here is definite. No answer, or one that cannot be read, is `Unanswered`,
and never becomes a refusal. Amounts are minor units of the order's currency.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.statuses import NextAction


class ActionRequired(Struct, frozen=True, kw_only=True, tag="action-required"):
    """The payer has to do something first: nothing is granted yet. The names are the card industry's (contract N17).

    `authentication_transaction_id` names the session at the processor in every later call about it. A redirect sends
    the payer to `step_up_url` without a challenge in a frame.
    """

    next_action: NextAction
    authentication_transaction_id: str
    reference_id: str
    device_data_collection_url: str | None = None
    access_token: str | None = None
    step_up_url: str | None = None
    three_ds_version: str | None = None


class Captured(Struct, frozen=True, kw_only=True, tag="captured"):
    """The processor took `amount` of an authorisation: with what it took before, never more than was granted."""

    amount: Decimal
    processor_reference: str


class CaptureRefused(Struct, frozen=True, kw_only=True, tag="capture-refused"):
    """Nothing was taken. `retryable` tells whether the authorisation still stands and may be captured another time."""

    code: str
    message: str | None = None
    retryable: bool = False


class Voided(Struct, frozen=True, kw_only=True, tag="voided"):
    """The authorisation is released: nothing can be captured of it any more."""

    processor_reference: str


class VoidRefused(Struct, frozen=True, kw_only=True, tag="void-refused"):
    """The authorisation stands as it did."""

    code: str
    message: str | None = None


class Refunded(Struct, frozen=True, kw_only=True, tag="refunded"):
    """`amount` went back to the payer."""

    amount: Decimal
    processor_reference: str


class RefundPending(Struct, frozen=True, kw_only=True, tag="refund-pending"):
    """The refund was taken in; a message will tell whether it was carried out."""

    processor_reference: str


class RefundRefused(Struct, frozen=True, kw_only=True, tag="refund-refused"):
    """Nothing went back and nothing will."""

    code: str
    message: str | None = None


class ReferenceIssued(Struct, frozen=True, kw_only=True, tag="reference-issued"):
    """Where the payer can send money: a CLABE of 18 digits for a transfer, a reference for cash at a store.

    A CIE reference has the bank's `convenio` and a CLABE beside it; a SPEI reference is its CLABE. `expires_at` is the
    merchant's clock: when the payer is told that it ends. Money that comes later is still reported.
    """

    reference: str
    processor_reference: str
    expires_at: datetime
    clabe: str | None = None
    convenio: str | None = None


class ReferenceRefused(Struct, frozen=True, kw_only=True, tag="reference-refused"):
    """No reference was issued."""

    code: str
    message: str | None = None


class ReferenceCancelled(Struct, frozen=True, kw_only=True, tag="reference-cancelled"):
    """The payer is no longer shown the reference. Money that is sent to it all the same is still reported."""

    processor_reference: str


CaptureAnswer = Captured | CaptureRefused
VoidAnswer = Voided | VoidRefused
RefundAnswer = Refunded | RefundPending | RefundRefused
ReferenceAnswer = ReferenceIssued | ReferenceRefused


class Approved(Struct, frozen=True, kw_only=True):
    """The processor's yes: what it granted and, where it was asked to capture as well, what it took.

    `eci` is the card network's word on the payer's authentication, where there was one.
    """

    authorized: Decimal
    captured: Decimal
    processor_reference: str
    authorization_code: str | None = None
    eci: str | None = None


class Declined(Struct, frozen=True, kw_only=True):
    """The processor's no, final for this payment. `eci` as in `Approved`."""

    code: str
    message: str | None = None
    refused_by: RefusedBy = RefusedBy.ISSUER
    eci: str | None = None


class Unanswered(Struct, frozen=True, kw_only=True):
    """No answer before the deadline: the payment may have happened."""

    reason: str


class NotSent(Struct, frozen=True):
    """The request never left: nothing can have happened."""


class NotFound(Struct, frozen=True):
    """The processor, asked by the idempotency key after its late-arrival window, knows no such payment."""


NoAnswer = Unanswered | NotSent | NotFound


AuthorizationOutcome = Approved | Declined | ActionRequired | NoAnswer
"""What an authorisation may come to, and the call that goes on with one after the payer has acted."""


CaptureOutcome = CaptureAnswer | NoAnswer


VoidOutcome = VoidAnswer | NoAnswer


RefundOutcome = RefundAnswer | NoAnswer


ReferenceOutcome = ReferenceAnswer | NoAnswer
