"""The outcomes of calls to a payment processor: the facts that come back into the core.

Every outcome except `Unanswered` is definite. Report a missing or unreadable answer as `Unanswered`, never as a
refusal. Amounts are in minor units of the order's currency.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.statuses import Advice, NextAction


class ActionRequired(Struct, frozen=True, kw_only=True, tag="action-required"):
    """The payer has to act first: nothing is granted yet. The names are the card industry's (contract N17).

    `authentication_transaction_id` identifies the session in every later call to the processor. A redirect sends the
    payer to `step_up_url`, without a challenge in a frame. The payer has `session_s` seconds to act, None for the
    processor's usual time. `processor_reference` names a payment that the payer's action authorises without a further
    call: then a session that ends is ended at the processor.
    """

    next_action: NextAction
    authentication_transaction_id: str
    reference_id: str
    device_data_collection_url: str | None = None
    access_token: str | None = None
    step_up_url: str | None = None
    three_ds_version: str | None = None
    session_s: int | None = None
    processor_reference: str | None = None


class Captured(Struct, frozen=True, kw_only=True, tag="captured"):
    """The processor captured `amount` of an authorisation. All captures together never exceed what it granted.

    `released` is what a final capture has left and released; None if the processor does not report how much it was.
    """

    amount: Decimal
    processor_reference: str
    released: Decimal | None = None


class CaptureRefused(Struct, frozen=True, kw_only=True, tag="capture-refused"):
    """Nothing was captured. If `retryable`, the authorisation is still valid and can be captured at another time."""

    code: str
    message: str | None = None
    retryable: bool = False


class Voided(Struct, frozen=True, kw_only=True, tag="voided"):
    """The authorisation is released: nothing more can be captured of it."""

    processor_reference: str


class VoidRefused(Struct, frozen=True, kw_only=True, tag="void-refused"):
    """The void was refused: the authorisation is still valid."""

    code: str
    message: str | None = None


class Released(Struct, frozen=True, kw_only=True, tag="released"):
    """The rest of a partly captured authorisation, `amount`, is released: nothing more can be captured of it."""

    amount: Decimal
    processor_reference: str | None = None


class ReleaseRefused(Struct, frozen=True, kw_only=True, tag="release-refused"):
    """The release was refused: the rest is still held."""

    code: str
    message: str | None = None


class Refunded(Struct, frozen=True, kw_only=True, tag="refunded"):
    """`amount` went back to the payer."""

    amount: Decimal
    processor_reference: str


class RefundPending(Struct, frozen=True, kw_only=True, tag="refund-pending"):
    """The processor accepted the refund; a later message reports whether it was carried out."""

    processor_reference: str


class RefundRefused(Struct, frozen=True, kw_only=True, tag="refund-refused"):
    """The refund was refused: no money went back, and none will.

    `returned` is what went back all the same: a processor may need several steps for one refund, of which one failed.
    `returned_reference` is its id of that step. With `is_final` the processor shows a refund that is over: it never
    succeeds later.
    """

    code: str
    message: str | None = None
    returned: Decimal = ZERO
    returned_reference: str | None = None
    is_final: bool = False


class ReferenceIssued(Struct, frozen=True, kw_only=True, tag="reference-issued"):
    """The number that the payer can send money to: a CLABE of 18 digits for transfers, a reference for cash at a store.

    A CIE reference has also the bank's `convenio` and a CLABE; a SPEI reference is its CLABE. `expires_at` is the
    expiry that the payer is shown, by the merchant's clock, or by real time with `expires_by_real_time`: a processor
    that sets the expiry itself knows no other clock. Money that arrives later is still reported. `channel` is the
    network of a cash reference, None for that of the method; `voucher_url` is the page of its voucher.
    """

    reference: str
    processor_reference: str
    expires_at: datetime
    clabe: str | None = None
    convenio: str | None = None
    channel: str | None = None
    voucher_url: str | None = None
    expires_by_real_time: bool = False


class ReferenceRefused(Struct, frozen=True, kw_only=True, tag="reference-refused"):
    """No reference was issued."""

    code: str
    message: str | None = None


class ReferenceCancelled(Struct, frozen=True, kw_only=True, tag="reference-cancelled"):
    """The payer is no longer shown the reference. Money that is sent to it anyway is still reported."""

    processor_reference: str


CaptureAnswer = Captured | CaptureRefused
VoidAnswer = Voided | VoidRefused
ReleaseAnswer = Released | ReleaseRefused
RefundAnswer = Refunded | RefundPending | RefundRefused
ReferenceAnswer = ReferenceIssued | ReferenceRefused


class CardReference(Struct, frozen=True, kw_only=True):
    """The name by which a processor keeps a card that it was asked to save. It is in no event, and prints as stars.

    `customer` is the processor's own customer to whom the card belongs. `fingerprint` is the same for the same card at
    the same account, None if the processor shows none.
    """

    token: str
    customer: str | None = None
    fingerprint: str | None = None

    def __repr__(self) -> str:
        return "CardReference(***)"

    __str__ = __repr__


class Approved(Struct, frozen=True, kw_only=True):
    """The processor approved the payment: the amount `authorized` and, if the call requested a capture, `captured`.

    `eci` is the card network's electronic commerce indicator of the payer's authentication, if there was one. It can be
    captured for `validity_s` seconds from the answer on, None for the processor's usual time. The card network's own id
    is `network_transaction_id`. `saved_card` is there if the call asked the processor to save the card.
    """

    authorized: Decimal
    captured: Decimal
    processor_reference: str
    authorization_code: str | None = None
    eci: str | None = None
    validity_s: int | None = None
    network_transaction_id: str | None = None
    saved_card: CardReference | None = None


class Declined(Struct, frozen=True, kw_only=True):
    """The processor declined the payment, finally. `eci` as in `Approved`.

    `network_advice` is what the card network advises, which counts more than what the code means otherwise. A decline
    for want of a plan of instalments has those that the bank offers, in months, as `available_installments`.
    `processor_reference` is the processor's name of the payment, if it gave it one.
    """

    code: str
    message: str | None = None
    refused_by: RefusedBy = RefusedBy.ISSUER
    eci: str | None = None
    network_advice: Advice | None = None
    available_installments: tuple[int, ...] | None = None
    processor_reference: str | None = None


class Unanswered(Struct, frozen=True, kw_only=True):
    """There was no readable answer before the deadline: the payment may have happened.

    The call came back at `came_back_at` (real time), if that is known.
    """

    reason: str
    came_back_at: datetime | None = None


class NotSent(Struct, frozen=True):
    """The request was never sent: nothing can have happened.

    The recovery sends it again after `until` (real time); without it, nothing sends it again.
    """

    until: datetime | None = None


class NotFound(Struct, frozen=True):
    """The processor has no such payment: the answer to a query by idempotency key after its late-arrival period."""


NoAnswer = Unanswered | NotSent | NotFound


AuthorizationOutcome = Approved | Declined | ActionRequired | NoAnswer
"""The outcome of an authorisation, and of the call that continues one after the payer has acted."""


CaptureOutcome = CaptureAnswer | NoAnswer


VoidOutcome = VoidAnswer | NoAnswer


SessionEndOutcome = Voided | Approved | Declined | NoAnswer
"""The outcome of a session's end: it is ended, or its payer was quicker, or had failed before."""


ReleaseOutcome = ReleaseAnswer | NoAnswer


RefundOutcome = RefundAnswer | NoAnswer


ReferenceOutcome = ReferenceAnswer | NoAnswer
