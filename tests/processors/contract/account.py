"""An account under test: its processor, the requests of one merchant, and how calls to it fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from msgspec.structs import replace
from uuid_utils.compat import uuid7

from ledger.domain.orders.capabilities import MethodCapability
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import Approved, ReferenceIssued
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import (
    AuthenticationRequest,
    AuthorizationRequest,
    Capabilities,
    CaptureRequest,
    CardToken,
    ForgetCardRequest,
    LookUpRequest,
    Payer,
    PayingCard,
    PayoutRequest,
    Processor,
    ProcessorRecord,
    ProcessorTimedOut,
    ProcessorUnavailable,
    ReferenceCancellation,
    ReferenceRequest,
    RefundRequest,
    ReleaseRequest,
    Request,
    TokenCard,
    TokenRequest,
    VoidRequest,
)

R = TypeVar("R", bound=Request)

RETURN_URL = "https://shop.example/back"
FAILURES = (ProcessorTimedOut, ProcessorUnavailable)

_STEPS: Mapping[type[Request], EntryAction] = {
    AuthorizationRequest: EntryAction.AUTHORIZATION,
    AuthenticationRequest: EntryAction.AUTHENTICATION,
    CaptureRequest: EntryAction.CAPTURE,
    VoidRequest: EntryAction.CANCELLATION,
    ReleaseRequest: EntryAction.RELEASE,
    RefundRequest: EntryAction.REFUND,
    PayoutRequest: EntryAction.REFUND,
    ReferenceRequest: EntryAction.REFERENCE,
    ReferenceCancellation: EntryAction.CANCELLATION,
}
_KNOWN = ("amount", "currency", "capture", "final", "processor_reference", "authentication_transaction_id", "save_as")


class CardKind(StrEnum):
    """What a test card does. An account that has no such card leaves the cases with it out."""

    APPROVED = "a card that is approved"
    GENERIC = "a card that is declined without a reason"
    INSUFFICIENT_FUNDS = "a card without funds"
    LOST = "a lost card"
    STOLEN = "a stolen card"
    EXPIRED = "an expired card"
    INVALID_CVV = "a card with a wrong security code"
    UNAVAILABLE = "a card whose issuer cannot be reached"
    FRAUD = "a card that risk rules refuse"
    ADVISED = "a card whose network advises against another try"
    AUTHENTICATED = "a card whose issuer asks for the payer's authentication"
    DEVICE_DATA = "a card whose issuer asks for the device's data"
    DEVICE_DATA_THEN_CHALLENGE = "a card whose issuer asks for the device's data and a challenge"
    HALF = "a card that grants half"
    CAPTURES_REFUSED = "a card whose captures are refused"
    VOIDS_REFUSED = "a card whose voids are refused"
    REFUNDS_LATER = "a card whose refunds are carried out later"
    REFUNDS_REFUSED = "a card whose refunds are refused"
    NO_PLANS = "a card without plans of instalments"
    PLANS = "a card with plans of instalments"
    SAVED = "a card that is saved for a customer"
    USED_ONCE = "a token that can be used once"


class Need(StrEnum):
    """What a case needs of an account. The value completes "left out: the account …"."""

    NUMBERS = "takes no card numbers"
    TOKENS_ONLY = "takes card numbers"
    SEVERAL_CAPTURES = "releases the rest with each capture"
    ONE_CAPTURE = "can capture one authorisation several times"
    FRACTIONS = "takes whole minor units only"
    WHOLE_UNITS = "takes fractions of a minor unit"
    FENCES = "cannot fence"
    SPEI = "takes no transfers"
    PAYCASH = "takes no cash at stores"
    CIE = "takes no CIE payments"
    NO_CIE = "takes CIE payments"
    CASH_KEPT = "gives cash back"
    CASH_REFUNDED = "gives no cash back"
    VERIFIES = "cannot verify a card"
    SAVES = "keeps no card for later payments"
    OWN_TOKENS = "has the test tokens of every account"
    PAYS_IN = "lets no test send money to a reference"
    AUTHENTICATES = "lets no test authenticate a payer"
    ENDS_SESSIONS = "has no open session to end by a call"
    LOSES_REQUESTS = "loses no request on its way"
    SHARED = "is one merchant's own"
    STORES_FAILURES = "stores no failures of its own"


class Loss(StrEnum):
    """Which half of a call is lost."""

    REQUEST = "request"
    ANSWER = "answer"


class AccountUnderTest(ABC):
    """One account with requests of one merchant, each under a new key unless one is given.

    `cards` are the test cards that it has.
    """

    name: str
    processor: Processor
    cards: Mapping[CardKind, str]
    abilities: frozenset[Need]
    """What the stand-in lets a test do, beside the capabilities of its processor."""

    def __init__(self) -> None:
        self.merchant_id: UUID = uuid7()
        self.began_at = datetime.now(UTC) - timedelta(seconds=2)
        self._neighbours = list[AccountUnderTest]()

    async def close(self) -> None:
        """Ends its connections, and those of the accounts that it has opened."""
        for account in self._neighbours:
            await account.close()

    def neighbour(self, account: AccountUnderTest) -> AccountUnderTest:
        """Returns an account that ends with this one."""
        self._neighbours.append(account)
        return account

    @property
    def has(self) -> frozenset[Need | CardKind]:
        """What cases may need of this account."""
        return offered(self.processor.capabilities) | self.abilities | set(self.cards)

    # ---------------------------------------------------------------- what differs between stand-ins

    async def card(self, kind: CardKind = CardKind.APPROVED) -> PayingCard:
        """Returns a card that behaves so."""
        return CardToken(token=self.cards[kind])

    @abstractmethod
    async def elsewhere(self) -> AccountUnderTest:
        """Returns another account of the same processor, with another merchant."""

    @abstractmethod
    def losing(self, loss: Loss) -> AbstractAsyncContextManager[float]:
        """Loses a half of this merchant's calls meanwhile. Yields the deadline in seconds that they are to have."""

    @abstractmethod
    def away(self) -> AbstractAsyncContextManager[Processor]:
        """Yields the processor as it is when calls cannot be sent."""

    def failing(self, *, carried_out: bool) -> AbstractAsyncContextManager[None]:
        """Lets the processor fail at this merchant's calls, and repeat that under their keys from then on."""
        raise NotImplementedError

    async def authenticate(self, session: str, *, passed: bool) -> None:
        """Lets the payer accept or refuse at the issuer's page."""
        raise NotImplementedError

    async def pay_in(self, issued: ReferenceIssued, amount: int) -> None:
        """Sends money to a reference."""
        raise NotImplementedError

    def posts(self) -> int:
        """Returns how many changing requests have been sent for this merchant, 0 where that is not seen."""
        return 0

    # ---------------------------------------------------------------- requests

    async def payment(self, kind: CardKind = CardKind.APPROVED, **given: Any) -> AuthorizationRequest:
        if "card" not in given:
            given["card"] = await self.card(kind)
        return self._request(
            AuthorizationRequest, given, amount=Decimal(10_000), currency="MXN", capture=True, installments=None
        )

    async def asking(self, kind: CardKind = CardKind.AUTHENTICATED, **given: Any) -> AuthorizationRequest:
        """Returns a payment whose payer may be authenticated."""
        return await self.payment(kind, **{"authenticate": True, "return_url": RETURN_URL} | given)

    async def authorized(self, kind: CardKind = CardKind.APPROVED, **given: Any) -> str:
        """Authorises a payment without capturing it, unless asked to, and returns the processor's reference."""
        answer = await self.processor.authorize(await self.payment(kind, **{"capture": False} | given))
        assert isinstance(answer, Approved), answer
        return answer.processor_reference

    async def captured(self, kind: CardKind = CardKind.APPROVED, **given: Any) -> str:
        return await self.authorized(kind, capture=True, **given)

    def continuation(self, session: str, **given: Any) -> AuthenticationRequest:
        return self._request(AuthenticationRequest, given, authentication_transaction_id=session, capture=True)

    def capture(self, reference: str, amount: int = 10_000, **given: Any) -> CaptureRequest:
        """Returns a capture that releases the rest only if every capture of this account does."""
        return self._request(
            CaptureRequest,
            given,
            processor_reference=reference,
            amount=Decimal(amount),
            currency="MXN",
            final=self.processor.capabilities.capture_releases_rest,
        )

    def void(self, reference: str, **given: Any) -> VoidRequest:
        return self._request(VoidRequest, given, processor_reference=reference)

    def release(self, reference: str, **given: Any) -> ReleaseRequest:
        return self._request(ReleaseRequest, given, processor_reference=reference)

    def refund(self, reference: str, amount: int = 10_000, **given: Any) -> RefundRequest:
        return self._request(
            RefundRequest, given, processor_reference=reference, amount=Decimal(amount), currency="MXN"
        )

    def reference(self, method: MethodType = MethodType.SPEI, **given: Any) -> ReferenceRequest:
        terms = {"amount": Decimal(50_000), "currency": "MXN", "expires_at": datetime.now(UTC) + timedelta(days=3)}
        terms |= {"payer": Payer(name="Ana López", email="ana@example.com"), "method": method}
        return self._request(ReferenceRequest, given, **terms)

    async def issued(self, method: MethodType = MethodType.SPEI, **given: Any) -> ReferenceIssued:
        answer = await self.processor.issue_reference(self.reference(method, **given))
        assert isinstance(answer, ReferenceIssued), answer
        return answer

    async def received(self, amount: int = 50_000) -> ReferenceIssued:
        """Returns a reference that the payer has sent this amount to."""
        issued = await self.issued()
        await self.pay_in(issued, amount)
        return issued

    def cancellation(self, reference: str, **given: Any) -> ReferenceCancellation:
        return self._request(ReferenceCancellation, given, processor_reference=reference)

    def payout(self, reference: str, amount: int = 50_000, **given: Any) -> PayoutRequest:
        return self._request(
            PayoutRequest, given, processor_reference=reference, amount=Decimal(amount), currency="MXN"
        )

    async def read(self, token: str, customer: str | None = None) -> TokenCard | None:
        asked = TokenRequest(
            merchant_id=self.merchant_id, token=CardToken(token=token, customer=customer), deadline_at=soon()
        )
        return await self.processor.read_token(asked)

    def forgetting(self, token: CardToken, **given: Any) -> ForgetCardRequest:
        return self._request(ForgetCardRequest, given, token=token)

    def question(self, request: Request, *, fence: bool = False, long_ago: bool = False, **given: Any) -> LookUpRequest:
        """Returns the look-up of a call, with what the log knows of it.

        With `long_ago` the log does not know when the call was announced, so the processor may have forgotten its key.
        """
        known = {name: getattr(request, name) for name in _KNOWN if hasattr(request, name)}
        if isinstance(request, ReferenceRequest):
            known["method"] = request.method
        known |= {"idempotency_key": request.idempotency_key, "order_id": request.order_id}
        known |= {"payment_id": request.payment_id, "step": _STEPS[type(request)], "fence": fence}
        known["announced_at"] = None if long_ago else datetime.now(UTC)
        return self._request(LookUpRequest, known | given)

    def _request(self, kind: type[R], given: dict[str, Any], **terms: Any) -> R:
        payment_id = uuid7()
        about = {"merchant_id": self.merchant_id, "idempotency_key": str(payment_id), "payment_id": payment_id}
        about |= {"order_id": uuid7(), "deadline_at": soon()}
        return kind(**about | terms | given)

    # ---------------------------------------------------------------- what was done

    async def records(self, since: datetime | None = None, until: datetime | None = None) -> list[ProcessorRecord]:
        """Returns what the processor lists of this merchant."""
        since, until = since or self.began_at, until or datetime.now(UTC) + timedelta(seconds=2)
        found = [record async for record in self.processor.records(since, until)]
        return [record for record in found if record.merchant_id == self.merchant_id]

    async def done(self) -> list[tuple[str, int, int, bool]]:
        """Returns what the processor lists of this merchant: key, captured, refunded and voided, sorted."""
        return sorted((r.idempotency_key, int(r.captured), int(r.refunded), r.voided) for r in await self.records())


def offered(capabilities: Capabilities) -> frozenset[Need | CardKind]:
    """Returns what cases may need, as far as the capabilities of an account say."""
    methods: dict[MethodType, MethodCapability] = {each.type: each for each in capabilities.methods}
    refunds_cash = MethodType.PAYCASH in methods and methods[MethodType.PAYCASH].refundable
    either = {
        Need.NUMBERS: capabilities.takes_card_numbers,
        Need.TOKENS_ONLY: not capabilities.takes_card_numbers,
        Need.SEVERAL_CAPTURES: not capabilities.capture_releases_rest,
        Need.ONE_CAPTURE: capabilities.capture_releases_rest,
        Need.FRACTIONS: capabilities.smallest_amount < 1,
        Need.WHOLE_UNITS: capabilities.smallest_amount == 1,
        Need.FENCES: capabilities.can_fence,
        Need.SPEI: MethodType.SPEI in methods,
        Need.PAYCASH: MethodType.PAYCASH in methods,
        Need.CIE: MethodType.CIE_CASH_NET in methods,
        Need.NO_CIE: MethodType.CIE_CASH_NET not in methods,
        Need.CASH_KEPT: MethodType.PAYCASH in methods and not refunds_cash,
        Need.CASH_REFUNDED: refunds_cash,
    }
    return frozenset(need for need, is_there in either.items() if is_there)


def timeless(answer: Any) -> Any:
    """Returns an answer without the seconds that are left of its authorisation: they grow fewer."""
    return replace(answer, validity_s=None) if isinstance(answer, Approved) else answer


def soon(seconds: float = 20) -> datetime:
    """Returns a deadline."""
    return datetime.now(UTC) + timedelta(seconds=seconds)
