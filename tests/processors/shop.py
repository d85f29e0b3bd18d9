"""Requests of one merchant to a processor, with defaults for every field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, ReferenceIssued
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import (
    AuthenticationRequest,
    AuthorizationRequest,
    CaptureRequest,
    Card,
    LookUpRequest,
    PayoutRequest,
    ReferenceRequest,
    RefundRequest,
    ReleaseRequest,
    Request,
    VoidRequest,
)
from ledger.processors.sandbox.processor import SandboxProcessor

R = TypeVar("R", bound=Request)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def question(
    merchant_id: UUID, key: str, *, step: EntryAction = EntryAction.AUTHORIZATION, fence: bool = False
) -> LookUpRequest:
    """Returns the look-up of a call, as a log without the call has it."""
    deadline_at = datetime.now(UTC) + timedelta(seconds=10)
    return LookUpRequest(merchant_id=merchant_id, idempotency_key=key, deadline_at=deadline_at, step=step, fence=fence)


class Shop:
    """One merchant's requests, each under a new key unless one is given, at `NOW` of the merchant's clock."""

    def __init__(self, sandbox: SandboxProcessor) -> None:
        self.sandbox = sandbox
        self.merchant_id = uuid7()
        self.order_id, self.payment_id = uuid7(), uuid7()

    def authorization(self, number: str, **given: Any) -> AuthorizationRequest:
        card = Card(number=number, exp_month=12, exp_year=2031, cvc="987")
        return self._request(
            AuthorizationRequest, given, amount=Decimal(10_000), currency="MXN", card=card, capture=False
        )

    async def authorized(self, number: str = "4242424242424242", **given: Any) -> str:
        """Authorises a payment, and returns the processor's reference."""
        answer = await self.sandbox.authorize(self.authorization(number, **given))
        assert isinstance(answer, Approved)
        return answer.processor_reference

    async def authenticating(self, number: str, **given: Any) -> ActionRequired:
        answer = await self.sandbox.authorize(self.authorization(number, authenticate=True, **given))
        assert isinstance(answer, ActionRequired)
        return answer

    def capture(self, reference: str, amount: int = 10_000, **given: Any) -> CaptureRequest:
        return self._request(
            CaptureRequest, given, processor_reference=reference, amount=Decimal(amount), currency="MXN"
        )

    def void(self, reference: str, **given: Any) -> VoidRequest:
        return self._request(VoidRequest, given, processor_reference=reference)

    def release(self, reference: str, **given: Any) -> ReleaseRequest:
        return self._request(ReleaseRequest, given, processor_reference=reference)

    def refund(self, reference: str, amount: int = 10_000, **given: Any) -> RefundRequest:
        return self._request(
            RefundRequest, given, processor_reference=reference, amount=Decimal(amount), currency="MXN"
        )

    def continuation(self, transaction_id: str, *, capture: bool = False, **given: Any) -> AuthenticationRequest:
        return self._request(
            AuthenticationRequest, given, authentication_transaction_id=transaction_id, capture=capture
        )

    def reference(self, method: MethodType = MethodType.SPEI, amount: int = 10_000, **given: Any) -> ReferenceRequest:
        terms = {"amount": Decimal(amount), "currency": "MXN", "expires_at": NOW + timedelta(hours=72)}
        return self._request(ReferenceRequest, given, method=method, **terms)

    async def issued(self, method: MethodType = MethodType.SPEI, amount: int = 10_000) -> ReferenceIssued:
        answer = await self.sandbox.issue_reference(self.reference(method, amount))
        assert isinstance(answer, ReferenceIssued)
        return answer

    def payout(self, reference: str, amount: int = 10_000, **given: Any) -> PayoutRequest:
        return self._request(
            PayoutRequest, given, processor_reference=reference, amount=Decimal(amount), currency="MXN"
        )

    def _request(self, kind: type[R], given: dict[str, Any], **terms: Any) -> R:
        common: dict[str, Any] = {
            "merchant_id": self.merchant_id,
            "idempotency_key": str(uuid7()),
            "deadline_at": datetime.now(UTC) + timedelta(seconds=10),
            "at": NOW,
            "order_id": self.order_id,
            "payment_id": self.payment_id,
        }
        return kind(**(common | terms | given))

    async def due_messages(self, after_s: float = 3600, merchant_id: UUID | None = None) -> list[Any]:
        """Returns the processor's messages that are due `after_s` seconds after `NOW`, and leaves them undelivered."""
        now = NOW + timedelta(seconds=after_s)
        return list(await self.sandbox.outbox.due_messages(merchant_id or self.merchant_id, now))
