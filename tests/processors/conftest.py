"""A sandbox processor over a fresh database, and requests to send it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from uuid_utils.compat import uuid7

from ledger.processors.contract import AuthorizationRequest, Card
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.charge_writer import ChargeWriter
from ledger.processors.sandbox.processor import SandboxProcessor

Ask = Callable[..., AuthorizationRequest]


@pytest.fixture
async def book(database_url: str) -> AsyncIterator[ChargeWriter]:
    book = ChargeWriter(database_url)
    await book.start()
    yield book
    await book.stop()


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[SandboxProcessor]:
    """The same processor as another process of the ledger sees it."""
    book = ChargeWriter(database_url)
    await book.start()
    teller = CallExecutor(database_url)
    yield SandboxProcessor(book, teller, silence_s=0.05, slow_s=0.2)
    await teller.stop()
    await book.stop()


@pytest.fixture
async def teller(database_url: str) -> AsyncIterator[CallExecutor]:
    teller = CallExecutor(database_url)
    await teller.start()
    yield teller
    await teller.stop()


@pytest.fixture
def sandbox(book: ChargeWriter, teller: CallExecutor) -> SandboxProcessor:
    return SandboxProcessor(book, teller, silence_s=0.05, slow_s=0.2)


@pytest.fixture
def ask() -> Ask:
    merchant_id = uuid7()

    def request(number: str = "4242424242424242", *, deadline_s: float = 10, **given: object) -> AuthorizationRequest:
        terms = {
            "merchant_id": merchant_id,
            "idempotency_key": str(uuid7()),
            "amount": Decimal(10_000),
            "currency": "MXN",
            "card": Card(number=number, exp_month=12, exp_year=2031, cvc="987", cardholder_name="Ana López"),
            "capture": True,
            "deadline_at": datetime.now(UTC) + timedelta(seconds=deadline_s),
        }
        return AuthorizationRequest(**(terms | given))

    return request
