"""An account at the double of Stripe, and requests to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.processors.stripe.description import wrong_with_object, wrong_with_request
from tests.processors.stripe.double import Double
from uuid_utils.compat import uuid7

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import Approved
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import (
    AuthorizationRequest,
    CaptureRequest,
    CardToken,
    LookUpRequest,
    Payer,
    ReferenceRequest,
    RefundRequest,
    Request,
    VoidRequest,
)
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import Connections

RETURN_URL = "https://shop.example/back"
_STEPS = {
    AuthorizationRequest: EntryAction.AUTHORIZATION,
    CaptureRequest: EntryAction.CAPTURE,
    VoidRequest: EntryAction.CANCELLATION,
    RefundRequest: EntryAction.REFUND,
    ReferenceRequest: EntryAction.REFERENCE,
}


class Shop:
    """Requests of one merchant, as the ledger builds them."""

    def __init__(self, stripe: StripeProcessor, double: Double) -> None:
        self.stripe = stripe
        self.double = double
        self.merchant_id = uuid7()

    def _about(self, deadline_s: float, given: dict[str, Any]) -> dict[str, Any]:
        payment_id = uuid7()
        about = {"merchant_id": self.merchant_id, "idempotency_key": str(payment_id), "payment_id": payment_id}
        about |= {"order_id": uuid7(), "deadline_at": datetime.now(UTC) + timedelta(seconds=deadline_s)}
        return about | given

    def pay(self, token: str = "pm_visa", deadline_s: float = 10, **given: Any) -> AuthorizationRequest:
        terms = {"amount": Decimal(10_000), "currency": "MXN", "card": CardToken(token=token), "capture": True}
        terms |= {"authenticate": True, "return_url": RETURN_URL}
        return AuthorizationRequest(**(self._about(deadline_s, terms) | given))

    def capture(self, reference: str, amount: int = 10_000, deadline_s: float = 10, **given: Any) -> CaptureRequest:
        terms = {"processor_reference": reference, "amount": Decimal(amount), "currency": "MXN", "final": True}
        return CaptureRequest(**(self._about(deadline_s, terms) | given))

    def void(self, reference: str, deadline_s: float = 10, **given: Any) -> VoidRequest:
        return VoidRequest(**(self._about(deadline_s, {"processor_reference": reference}) | given))

    def refund(self, reference: str, amount: int = 4_000, deadline_s: float = 10, **given: Any) -> RefundRequest:
        terms = {"processor_reference": reference, "amount": Decimal(amount), "currency": "MXN"}
        return RefundRequest(**(self._about(deadline_s, terms) | given))

    def reference(self, method: MethodType = MethodType.SPEI, deadline_s: float = 10, **given: Any) -> ReferenceRequest:
        terms = {"method": method, "amount": Decimal(50_000), "currency": "MXN"}
        terms |= {"expires_at": datetime.now(UTC) + timedelta(days=3)}
        terms |= {"payer": Payer(name="Ana López", email="ana@example.com")}
        return ReferenceRequest(**(self._about(deadline_s, terms) | given))

    def question(self, request: Request, *, fence: bool = False, **given: Any) -> LookUpRequest:
        """The look-up of a call, with what the log knows of it."""
        known = ("merchant_id", "idempotency_key", "order_id", "payment_id", "amount", "currency", "capture", "final")
        about = {name: getattr(request, name) for name in (*known, "processor_reference") if hasattr(request, name)}
        about |= {"step": _STEPS[type(request)], "fence": fence, "announced_at": datetime.now(UTC)}
        about |= {"deadline_at": datetime.now(UTC) + timedelta(seconds=10)}
        if isinstance(request, ReferenceRequest):
            about["method"] = request.method
        return LookUpRequest(**(about | given))

    async def authorized(self, **given: Any) -> str:
        """The reference of a new payment."""
        answer = await self.stripe.authorize(self.pay(**given))
        assert isinstance(answer, Approved)
        return answer.processor_reference


@pytest.fixture
def double() -> Iterator[Double]:
    """The double. After the test, its requests and objects are checked against Stripe's description."""
    double = Double()
    yield double
    wrong = [reason for asked in double.requests for reason in wrong_with_request(*asked)]
    made = (
        *double.intents.values(),
        *double.refunds.values(),
        *double.customers.values(),
        *double.events,
        *double.tokens.values(),
    )
    assert [*wrong, *(reason for value in made for reason in wrong_with_object(value, value["object"]))] == []


@pytest.fixture
async def server(double: Double) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.serve)
    async with TestServer(app) as server:
        yield server
        double.gate.set()


@pytest.fixture
async def connections(server: TestServer) -> AsyncIterator[Connections]:
    connections = Connections(str(server.make_url("")))
    yield connections
    await connections.close()


@pytest.fixture
def stripe(connections: Connections, double: Double) -> StripeProcessor:
    return StripeProcessor(connections, double.key)


@pytest.fixture
def shop(stripe: StripeProcessor, double: Double) -> Shop:
    return Shop(stripe, double)
