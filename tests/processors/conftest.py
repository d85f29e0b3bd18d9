"""A sandbox processor over a fresh database, and authorisation requests to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from uuid_utils.compat import uuid7

from ledger.postgres.connection import Connection
from ledger.processors.contract import AuthorizationRequest, Card
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.processor import SandboxProcessor

Ask = Callable[..., AuthorizationRequest]


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[SandboxProcessor]:
    """The same processor as another process of the ledger sees it."""
    executor = CallExecutor(database_url)
    yield SandboxProcessor(executor, silence_s=0.05, slow_s=0.2)
    await executor.stop()


class WatchedExecutor(CallExecutor):
    """An executor that shows which connection it lent last."""

    lent: Connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with super().connection() as self.lent:
            yield self.lent


@pytest.fixture
async def executor(database_url: str) -> AsyncIterator[WatchedExecutor]:
    executor = WatchedExecutor(database_url)
    await executor.start()
    yield executor
    await executor.stop()


@pytest.fixture
def sandbox(executor: CallExecutor) -> SandboxProcessor:
    return SandboxProcessor(executor, silence_s=0.05, slow_s=0.2)


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
