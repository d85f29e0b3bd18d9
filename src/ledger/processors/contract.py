"""The contract of a payment processor: what an operation may ask of it, and what it may answer.

The rule a stranger would break: no answer in time is `ProcessorTimedOut`, which means unknown. Only a processor that can
prove that nothing left this process raises `ProcessorUnavailable`; everything else that goes wrong is a time-out.

Every request has an `idempotency_key` of the merchant's, and the same key again is the same request and gets the same
answer. `deadline_at` is real time; `at` is the merchant's clock, from which a processor counts what it does later; None is
real time. `order_id` and `payment_id` are the processor's to echo in its messages, so that they find their order.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.processor_outcomes import (
    ActionRequired,
    Approved,
    CaptureAnswer,
    Declined,
    ReferenceAnswer,
    ReferenceCancelled,
    RefundAnswer,
    VoidAnswer,
)
from ledger.domain.orders.terms import MethodType

AuthorizationAnswer = Approved | Declined | ActionRequired


class Card(Struct, frozen=True, kw_only=True):
    """A card as the payer typed it: lives from the request to the processor's call, and prints as stars."""

    number: str
    exp_month: int
    exp_year: int
    cvc: str | None = None
    cardholder_name: str | None = None

    def __repr__(self) -> str:
        return "Card(***)"

    __str__ = __repr__


class Request(Struct, frozen=True, kw_only=True):
    """What every request to a processor says."""

    merchant_id: UUID
    idempotency_key: str
    deadline_at: datetime
    at: datetime | None = None
    order_id: UUID | None = None
    payment_id: UUID | None = None


class AuthorizationRequest(Request, frozen=True, kw_only=True):
    """Ask the issuer for `amount` minor units; `capture` takes them in the same call.

    `authenticate` allows the processor to ask for the payer's authentication first; without it, as at a virtual terminal,
    it may not. `saved_card` tells that the number was kept from an earlier payment. Where the payer has to act first,
    nothing is captured in this call and `capture` is said again when the authentication ends.
    """

    amount: Decimal
    currency: str
    card: Card
    capture: bool
    virtual_terminal: bool = False
    authenticate: bool = False
    saved_card: bool = False


class AuthenticationRequest(Request, frozen=True, kw_only=True):
    """Go on with a payer's authentication: the card is with the processor, and its session names it.

    The amount is the one that the session was opened for; `capture` takes it in the same call.
    """

    authentication_transaction_id: str
    capture: bool


class CaptureRequest(Request, frozen=True, kw_only=True):
    """Take `amount` of what was granted, all or a part. What is left may be taken later, until it is voided or lapses."""

    processor_reference: str
    amount: Decimal
    currency: str


class VoidRequest(Request, frozen=True, kw_only=True):
    """Release what was granted and not captured."""

    processor_reference: str


class RefundRequest(Request, frozen=True, kw_only=True):
    """Give `amount` of what was captured back to the card."""

    processor_reference: str
    amount: Decimal
    currency: str


class ReferenceRequest(Request, frozen=True, kw_only=True):
    """Issue a reference to which `amount` can be sent until `expires_at` (the merchant's clock)."""

    method: MethodType
    amount: Decimal
    currency: str
    expires_at: datetime


class ReferenceCancellation(Request, frozen=True, kw_only=True):
    """Show the payer a reference no longer."""

    processor_reference: str


class Destination(Struct, frozen=True, kw_only=True):
    """The account that a payout goes to; prints as stars."""

    clabe: str
    account_holder: str | None = None

    def __repr__(self) -> str:
        return "Destination(***)"

    __str__ = __repr__


class PayoutRequest(Request, frozen=True, kw_only=True):
    """Give back `amount` of what came in by a reference. Without a `destination` it goes to where it came from."""

    processor_reference: str
    amount: Decimal
    currency: str
    destination: Destination | None = None


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a processor can do, and how long its windows are, in seconds."""

    name: str
    late_arrival_s: float
    """How long after a call the processor may still apply it: before that, "not found" is not final."""
    authorization_validity_s: float = 7 * 86400.0
    """How long what was granted can be captured."""
    authentication_session_s: float = 15 * 60.0
    """How long a payer has to act."""
    refund_window_s: float = 180 * 86400.0
    """How long after its capture a card payment can be refunded."""
    reference_validity_s: float = 72 * 3600.0
    """How long a reference lives unless the order is due later."""
    reference_currencies: frozenset[str] = frozenset({"MXN"})
    """In which currencies it issues references: CLABEs and stores take pesos."""
    partial_payouts: bool = True
    """Whether a part of what came in by a reference can be given back."""
    is_simulated: bool = False
    """Whether no money moves, and a transaction's id may ask for how its authentication ends."""


class ProcessorTimedOut(Exception):
    """No answer before the deadline, or one that cannot be read: unknown, which is not declined."""


class ProcessorUnavailable(Exception):
    """The request was never sent."""


class CardProcessor(Protocol):
    """A company that moves card money.

    Every call raises `ProcessorTimedOut` or `ProcessorUnavailable`; anything else that it raises counts as a time-out.
    Every `look_up…` tells what became of the call with a key: its answer, or None where the processor knows no such call.
    """

    capabilities: Capabilities

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        """Ask the issuer for money. `ActionRequired` only where the request allows it to authenticate the payer."""
        ...

    async def submit_device_data(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        """The device's data was collected: a challenge follows, or the issuer answers without one."""
        ...

    async def validate_authentication(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        """The payer came back from the challenge or the redirect: what the issuer says now.

        A failed authentication is declined with AUTHENTICATION_FAILED.
        """
        ...

    async def capture(self, request: CaptureRequest) -> CaptureAnswer: ...

    async def void(self, request: VoidRequest) -> VoidAnswer: ...

    async def refund(self, request: RefundRequest) -> RefundAnswer: ...

    async def look_up(self, merchant_id: UUID, idempotency_key: str) -> AuthorizationAnswer | None:
        """An authorisation, or a call that went on with one."""
        ...

    async def look_up_capture(self, merchant_id: UUID, idempotency_key: str) -> CaptureAnswer | None: ...

    async def look_up_void(self, merchant_id: UUID, idempotency_key: str) -> VoidAnswer | None: ...

    async def look_up_refund(self, merchant_id: UUID, idempotency_key: str) -> RefundAnswer | None: ...


class ReferenceProcessor(Protocol):
    """A company that takes in transfers and cash under references, and pays out. Calls raise like a card processor's."""

    capabilities: Capabilities

    async def issue_reference(self, request: ReferenceRequest) -> ReferenceAnswer: ...

    async def cancel_reference(self, request: ReferenceCancellation) -> ReferenceCancelled: ...

    async def pay_out(self, request: PayoutRequest) -> RefundAnswer: ...

    async def look_up_reference(self, merchant_id: UUID, idempotency_key: str) -> ReferenceAnswer | None: ...

    async def look_up_cancellation(self, merchant_id: UUID, idempotency_key: str) -> ReferenceCancelled | None: ...

    async def look_up_payout(self, merchant_id: UUID, idempotency_key: str) -> RefundAnswer | None: ...


class Processor(CardProcessor, ReferenceProcessor, Protocol):
    """One company that does both."""
