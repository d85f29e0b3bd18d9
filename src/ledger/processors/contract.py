"""The contract of a payment processor: the requests of an operation, and the processor's possible answers.

Raise `ProcessorUnavailable` only if it is certain that nothing left this process. Every other failure is
`ProcessorTimedOut`: the outcome is unknown.

Every request has an `idempotency_key` that is unique within its merchant. A request with the same key is the same
request and gets the same answer. `deadline_at` is real time. `at` is the time of the merchant's clock, from which a
processor dates its later messages; None is real time. The processor repeats `order_id` and `payment_id` in its
messages, so that these find their order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.money import ZERO
from ledger.domain.orders.capabilities import METHODS, MethodCapability
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import (
    ActionRequired,
    Approved,
    CaptureAnswer,
    Declined,
    ReferenceAnswer,
    ReferenceCancelled,
    RefundAnswer,
    ReleaseAnswer,
    VoidAnswer,
)
from ledger.domain.orders.terms import BillingAddress, CardSummary, DeviceInformation, MethodType
from ledger.domain.orders.validity import AUTHORIZATION_S, CHALLENGE_S, REFERENCE_S, REFUND_WINDOW_S
from ledger.processors.findings import Finding
from ledger.processors.messages import MessageNotice, NoticeReceived, SettlementLine

AuthorizationAnswer = Approved | Declined | ActionRequired


class Card(Struct, frozen=True, kw_only=True):
    """A card as the payer entered it. It exists from the request until the processor's call, and prints as stars."""

    number: str
    exp_month: int
    exp_year: int
    cvc: str | None = None
    cardholder_name: str | None = None

    def __repr__(self) -> str:
        return "Card(***)"

    __str__ = __repr__


class CardToken(Struct, frozen=True, kw_only=True):
    """A card as one account of a processor knows it: the number went from the payer's browser to the processor alone.

    `customer` is the processor's own customer to whom a saved token belongs. It exists as long as a `Card`, and prints
    as stars.
    """

    token: str
    customer: str | None = None

    def __repr__(self) -> str:
        return "CardToken(***)"

    __str__ = __repr__


PayingCard = Card | CardToken


class TokenCard(Struct, frozen=True, kw_only=True):
    """What a processor shows of a token's card.

    `fingerprint` is the same for the same card at the same account, None if the processor shows none.
    """

    summary: CardSummary
    fingerprint: str | None = None

    def __repr__(self) -> str:
        return "TokenCard(***)"

    __str__ = __repr__


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A request for what may be shown of a token's card. It moves nothing, and may be repeated."""

    merchant_id: UUID
    token: CardToken
    deadline_at: datetime


class Payer(Struct, frozen=True, kw_only=True):
    """The person who pays, as far as the ledger knows him. Personal data of a call, in no event. Prints as stars."""

    name: str | None = None
    email: str | None = None
    phone: str | None = None
    address: BillingAddress | None = None

    def __repr__(self) -> str:
        return "Payer(***)"

    __str__ = __repr__


class Request(Struct, frozen=True, kw_only=True):
    """The fields of every request to a processor. `customer_id` is whose card is verified; a payment has an order."""

    merchant_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime | None = None
    order_id: UUID | None = None
    payment_id: UUID | None = None
    customer_id: UUID | None = None


class ForgetCardRequest(Request, frozen=True, kw_only=True):
    """A request to keep a saved card no longer. It moves nothing, and may be repeated."""

    token: CardToken


class AuthorizationRequest(Request, frozen=True, kw_only=True):
    """A request to authorise `amount` minor units. With `capture`, the same call captures them.

    An amount of zero, never with `capture`, verifies a card that is saved as `payment_method_id`: the issuer is asked
    whether the card is good, and holds nothing (the card networks' account verification). It may require the payer's
    authentication, and is approved with an amount of zero.

    `authenticate` allows the processor to ask for the payer's authentication first; without it, as at a virtual
    terminal, the processor must not. `saved_card` means that the card number is stored from an earlier payment.
    `return_url` is where the processor's page sends the payer afterwards. If the payer has to act first, this call
    captures nothing, and the request that ends the authentication repeats `capture`. `device` is what the payer's
    browser reports about itself. `installments` is the number of months in which the payer pays without interest, None
    for one payment. With `save_as`, the id of a saved method, the processor keeps the card of the token, and its
    approval has the reference by which that card is charged later.
    """

    amount: Decimal
    currency: str
    card: PayingCard
    capture: bool
    virtual_terminal: bool = False
    authenticate: bool = False
    saved_card: bool = False
    return_url: str | None = None
    payment_method_id: UUID | None = None
    payer: Payer | None = None
    description: str | None = None
    device: DeviceInformation | None = None
    installments: int | None = None
    save_as: UUID | None = None


class AuthenticationRequest(Request, frozen=True, kw_only=True):
    """A request to continue a payer's authentication. The processor has the card in its session.

    The amount is the one for which the session was opened. With `capture`, the same call captures it. `save_as` is that
    of the authorisation.
    """

    authentication_transaction_id: str
    capture: bool
    save_as: UUID | None = None


class CaptureRequest(Request, frozen=True, kw_only=True):
    """A request to capture `amount` of an authorisation, all or a part.

    The rest can be captured later, until the authorisation is voided, released or lapses. A `final` capture releases it
    in the same call.
    """

    processor_reference: str
    amount: Decimal
    currency: str
    final: bool = False


class VoidRequest(Request, frozen=True, kw_only=True):
    """A request to release an authorisation of which nothing is captured."""

    processor_reference: str


class ReleaseRequest(Request, frozen=True, kw_only=True):
    """A request to release what the captures of an authorisation have left. The captured money stays."""

    processor_reference: str


class RefundRequest(Request, frozen=True, kw_only=True):
    """A request to give `amount` of the captured money back to the card."""

    processor_reference: str
    amount: Decimal
    currency: str


class ReferenceRequest(Request, frozen=True, kw_only=True):
    """A request for a reference to which `amount` can be sent until `expires_at` (the merchant's clock)."""

    method: MethodType
    amount: Decimal
    currency: str
    expires_at: datetime
    payer: Payer | None = None
    description: str | None = None


class ReferenceCancellation(Request, frozen=True, kw_only=True):
    """A request to stop showing a reference to the payer."""

    processor_reference: str


class Destination(Struct, frozen=True, kw_only=True):
    """The account to which a payout goes. Prints as stars.

    `account_holder` is None if the merchant named none; a processor that needs one refuses the payout.
    """

    clabe: str
    account_holder: str | None = None

    def __repr__(self) -> str:
        return "Destination(***)"

    __str__ = __repr__


class PayoutRequest(Request, frozen=True, kw_only=True):
    """A request to give back `amount` of the money received under a reference.

    It has a `destination`, except at a simulated processor: other payouts without an account are the merchant's own.
    With `is_last`, the order is being cancelled: no more money is expected under the reference, so the processor may
    end it to take apart what has arrived.
    """

    processor_reference: str
    amount: Decimal
    currency: str
    destination: Destination | None = None
    is_last: bool = False


class LookUpRequest(Request, frozen=True, kw_only=True):
    """A question for the answer of an earlier call, with what the log knows of that call.

    `idempotency_key` and `step` are the call's; `deadline_at` is the question's own. With `fence`, the processor
    refuses a call that it does not know from then on. `announced_at` is the real time at which the call was first
    announced, None if the log does not know it: then it may be long ago. `processor_reference` is the one of the call's
    payment, `authentication_transaction_id` the session that the call continued, `save_as` the authorisation's.
    """

    step: EntryAction
    fence: bool = False
    announced_at: datetime | None = None
    amount: Decimal | None = None
    currency: str | None = None
    capture: bool = False
    final: bool = False
    processor_reference: str | None = None
    authentication_transaction_id: str | None = None
    method: MethodType = MethodType.CARD
    save_as: UUID | None = None


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a processor can do for one account, and how long its windows are, in seconds."""

    name: str
    late_arrival_s: float
    """How long after a call the processor may still apply it. Until then, "not found" may change."""
    authorization_validity_s: float = AUTHORIZATION_S
    """How long an authorisation can be captured."""
    authentication_session_s: float = CHALLENGE_S
    """How long a payer has to authenticate."""
    refund_window_s: float = REFUND_WINDOW_S
    """How long after its capture a card payment can be refunded."""
    reference_validity_s: float = REFERENCE_S
    """How long a reference is valid, unless the order is due later."""
    methods: tuple[MethodCapability, ...] = METHODS
    """What it takes: methods, each with its currencies, amounts and instalments."""
    takes_card_numbers: bool = True
    """Whether a request may bring a card's number."""
    takes_card_tokens: bool = False
    """Whether a request may bring a token of a card."""
    reads_payers: bool = True
    """Whether it makes use of the payer's name, e-mail and address. A request without them costs one read less."""
    needs_payer: frozenset[MethodType] = frozenset()
    """The methods that it takes only from payers whose name and e-mail are known."""
    smallest_amount: Decimal = Decimal(1)
    """The unit of its amounts, in minor units: the ledger sends it multiples only. Card networks take whole ones."""
    capture_releases_rest: bool = False
    """Whether a capture releases what it leaves of an authorisation: every capture is final then."""
    sends_payers_back: bool = False
    """Whether it sends a payer back to a page of the ledger's own, which asks it what has become of the payment."""
    partial_payouts: bool = True
    """Whether a part of what was received under a reference can be given back."""
    returns_to_payer: bool = False
    """Whether it gives that back to the account that paid, which it knows, and to no other one."""
    can_fence: bool = False
    """Whether it can refuse the key of a call that it does not know, so that the call has no effect when it arrives."""
    lists_payouts: bool = False
    """Whether it lists the lines of its payouts to the merchant. Without it, messages alone report them."""
    is_simulated: bool = False
    """Whether it is simulated: no money moves, and a transaction's id may choose how its authentication ends."""


class ProcessorTimedOut(TimedOut):
    """The outcome is unknown: the answer did not arrive before the deadline, or is unreadable.

    It does not mean declined.
    """


class ProcessorUnavailable(Unavailable):
    """The request has no effect: it was never sent, or its key was fenced before it arrived."""


class ProcessorRecord(Struct, frozen=True, kw_only=True):
    """What a processor carried out under one key: captured or refunded money (gross, minor units), or a void.

    `processor_reference` is the processor's id of the charge or reference. `is_pending` is whether a refund is still
    being carried out, None if the processor does not show it. `returned` is what a refund that has failed gave back all
    the same, None for any other one. `is_unrequested` is whether no call has captured it: it was captured on the
    processor's own pages, and is all that was captured of the charge.
    """

    merchant_id: UUID
    idempotency_key: str
    processor_reference: str
    recorded_at: datetime
    captured: Decimal = ZERO
    refunded: Decimal = ZERO
    voided: bool = False
    is_pending: bool | None = None
    returned: Decimal | None = None
    is_unrequested: bool = False


class LineRequest(Struct, frozen=True, kw_only=True):
    """A question for the line of a payout about one payment. `processor_reference` is the payment's."""

    merchant_id: UUID
    batch_id: str
    processor_reference: str
    deadline_at: datetime


class CardProcessor(Protocol):
    """A processor of card payments.

    Every call raises `ProcessorTimedOut` or `ProcessorUnavailable`; any other exception counts as a time-out. Every
    `look_up…` returns the answer of the call with a key, or None if the processor has no such call. With `fence`, the
    processor refuses such a call from then on, so that None is final; only a processor that `can_fence` is asked for
    it.
    """

    capabilities: Capabilities

    async def read_token(self, request: TokenRequest) -> TokenCard | None:
        """Returns the card of a token; None if no card can be charged by it: it is unknown, expired or used up."""
        ...

    async def forget_card(self, request: ForgetCardRequest) -> None:
        """Ends the keeping of a saved card; does nothing for one that is not kept."""
        ...

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        """Authorises a payment. Returns `ActionRequired` only if the request allows the payer's authentication."""
        ...

    async def submit_device_data(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        """Continues after the device's data was collected: with a challenge, or with the issuer's answer."""
        ...

    async def validate_authentication(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        """Continues after the challenge or the redirect, and returns the issuer's answer.

        A failed authentication is declined with AUTHENTICATION_FAILED.
        """
        ...

    async def capture(self, request: CaptureRequest) -> CaptureAnswer: ...

    async def void(self, request: VoidRequest) -> VoidAnswer: ...

    async def release(self, request: ReleaseRequest) -> ReleaseAnswer:
        """Releases a rest. Returns how much was released in all if that has happened before, under any key."""
        ...

    async def refund(self, request: RefundRequest) -> RefundAnswer: ...

    async def look_up(self, request: LookUpRequest) -> AuthorizationAnswer | None:
        """Returns the answer of an authorisation, or of a call that continued one."""
        ...

    async def look_up_capture(self, request: LookUpRequest) -> CaptureAnswer | None: ...

    async def look_up_void(self, request: LookUpRequest) -> VoidAnswer | None: ...

    async def look_up_release(self, request: LookUpRequest) -> ReleaseAnswer | None: ...

    async def look_up_refund(self, request: LookUpRequest) -> RefundAnswer | None: ...


class ReferenceProcessor(Protocol):
    """A processor of transfers and cash under references, and of payouts. Calls raise like a card processor's."""

    capabilities: Capabilities

    async def issue_reference(self, request: ReferenceRequest) -> ReferenceAnswer: ...

    async def cancel_reference(self, request: ReferenceCancellation) -> ReferenceCancelled: ...

    async def pay_out(self, request: PayoutRequest) -> RefundAnswer: ...

    async def look_up_reference(self, request: LookUpRequest) -> ReferenceAnswer | None: ...

    async def look_up_cancellation(self, request: LookUpRequest) -> ReferenceCancelled | None: ...

    async def look_up_payout(self, request: LookUpRequest) -> RefundAnswer | None: ...


class Processor(CardProcessor, ReferenceProcessor, Protocol):
    """A processor of both kinds, which is also asked for the objects of its messages."""

    @property
    def alive(self) -> bool:
        """Whether calls can be sent now, as far as this process can see without one."""
        ...

    async def findings(self, notice: NoticeReceived, deadline_at: datetime) -> Sequence[Finding] | None:
        """Returns what is true of a message's object; nothing for a kind that is not used, or an object that is none of
        the ledger's; None if the processor knows no such object.

        Raises ProcessorTimedOut, ProcessorUnavailable: asking moves nothing.
        """
        ...

    async def notices(self, since: datetime, until: datetime) -> Sequence[MessageNotice]:
        """Returns what the processor has reported, or tried to report, in messages of the kinds that are used, from
        `since` until before `until`. Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        ...

    def records(self, since: datetime, until: datetime) -> AsyncIterator[ProcessorRecord]:
        """Yields what the processor carried out from `since` until before `until`, the oldest first."""
        ...

    def lines(self, since: datetime, until: datetime) -> AsyncIterator[SettlementLine]:
        """Yields each line of the payouts that changed from `since` until before `until`, as the line is now.

        A processor that `lists_payouts` has them, another one yields nothing.
        """
        ...

    async def look_up_line(self, request: LineRequest) -> SettlementLine | None:
        """Returns the line of a payout about a payment as it is now, None if the payout does not list the payment.

        Only a processor that `lists_payouts` is asked.
        """
        ...
