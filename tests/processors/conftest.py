"""A sandbox processor over a fresh database, and authorisation requests to it."""

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
async def charge_writer(database_url: str) -> AsyncIterator[ChargeWriter]:
    charge_writer = ChargeWriter(database_url)
    await charge_writer.start()
    yield charge_writer
    await charge_writer.stop()


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[SandboxProcessor]:
    """The same processor as another process of the ledger sees it."""
    charge_writer = ChargeWriter(database_url)
    await charge_writer.start()
    executor = CallExecutor(database_url)
    yield SandboxProcessor(charge_writer, executor, silence_s=0.05, slow_s=0.2)
    await executor.stop()
    await charge_writer.stop()


@pytest.fixture
async def executor(database_url: str) -> AsyncIterator[CallExecutor]:
    executor = CallExecutor(database_url)
    await executor.start()
    yield executor
    await executor.stop()


@pytest.fixture
def sandbox(charge_writer: ChargeWriter, executor: CallExecutor) -> SandboxProcessor:
    return SandboxProcessor(charge_writer, executor, silence_s=0.05, slow_s=0.2)


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
