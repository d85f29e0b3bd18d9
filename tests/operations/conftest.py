"""A ledger on a fresh database: the real journal, the real read models, the sandbox processor with its stored
charges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.databases import Databases
from tests.sealing import MASTER_KEY
from uuid_utils.compat import uuid7

from ledger.domain.merchants.commands import RegisterMerchant
from ledger.domain.merchants.decide import decide_registration
from ledger.domain.merchants.evolve import evolve
from ledger.domain.orders.terms import CardSummary, MethodType, OrderTerms
from ledger.journal.append import Change
from ledger.operations.context.inputs import Actor, CustomerInput, OrderInput, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.processors.contract import Card
from ledger.settings import Settings
from ledger.wiring import open_ledger

APPROVED, DECLINED, SILENT = "4242424242424242", "4000000000000002", "4000000000000119"


async def register(ledger: Ledger) -> Actor:
    """Registers a merchant with default settings, and returns an actor of it."""
    merchant_id = uuid7()
    events = decide_registration(
        None, RegisterMerchant(merchant_id=merchant_id, name="Café Tacuba", at=datetime.now(UTC))
    )
    merchant = None
    for event in events:
        merchant = evolve(merchant, event)
    await ledger.journal.open_log(merchant_id)
    await ledger.journal.commit(merchant_id, uuid7(), [Change(merchant_id, 0, events, None, merchant)])
    return Actor(merchant_id=merchant_id, key_id=uuid7(), request_id="req-1")


def by_card(number: str = APPROVED, **changes: Any) -> PaymentInput:
    """Returns a payment by a card with this number."""
    summary = CardSummary(
        bin=number[:6],
        last4=number[-4:],
        brand="VISA",
        type=None,
        country=None,
        issuer_bank=None,
        exp_month=12,
        exp_year=2034,
    )
    card = Card(number=number, exp_month=12, exp_year=2034, cvc="123")
    return PaymentInput(type=MethodType.CARD, card=card, card_summary=summary, **changes)


def an_order(external_id: str, payment: PaymentInput | None = None, **changes: Any) -> OrderInput:
    """Returns an order over 10,000 centavos of the customer ana."""
    customer = changes.pop("customer", CustomerInput(external_id="ana", first_name="Ana", email="ana@example.com"))
    terms = {"external_id": external_id, "amount": Decimal(10_000), "currency": "MXN", **changes}
    return OrderInput(terms=OrderTerms(**terms), customer=customer, payment=payment)


Open = Callable[[], Coroutine[Any, Any, Ledger]]


@pytest.fixture(scope="module")
def module_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module, one after the other."""
    with databases.lent() as url:
        yield url


@pytest.fixture
def database_url(databases: Databases, module_url: str) -> Iterator[str]:
    """The module's database, which is empty at the beginning of each test."""
    yield module_url
    databases.empty(module_url)


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[Open]:
    """Yields a function that opens ledgers on the database of `url`, each with connections of its own."""
    async with AsyncExitStack() as stack:
        settings = Settings(
            database_url=url,
            database_vault_url=url,
            data_dir=Path(stack.enter_context(TemporaryDirectory())),
            master_key=MASTER_KEY,
            sandbox_deadline_s=0.5,
            processor_timeout_s=20.0,
        )
        yield lambda: stack.enter_async_context(open_ledger(settings))


@pytest.fixture(scope="module")
async def module_ledger(module_url: str) -> AsyncIterator[Ledger]:
    """A ledger that stays open for the tests of one module: opening one costs more than most tests."""
    async with opening(module_url) as open_one:
        yield await open_one()


@pytest.fixture
async def ledger(module_ledger: Ledger, database_url: str) -> AsyncIterator[Ledger]:
    """The module's ledger, on an empty database. What a test sets on it ends with the test, as its operations do."""
    del database_url
    ledger = copy(module_ledger)
    ledger.processors = accounts = copy(ledger.processors)
    accounts.simulated = simulated = copy(accounts.simulated)
    simulated.sandbox = copy(simulated.sandbox)
    yield ledger
    await ledger.drain()


@pytest.fixture
async def open_another(database_url: str) -> AsyncIterator[Open]:
    """Opens ledgers on the same database, as several processes have."""
    async with opening(database_url) as open_one:
        yield open_one


@pytest.fixture
async def merchant(ledger: Ledger) -> Actor:
    return await register(ledger)
