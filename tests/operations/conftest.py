"""A ledger on a fresh database: the real journal, the real read models, the sandbox processor with its stored
charges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
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


@pytest.fixture
async def open_another(database_url: str) -> AsyncIterator[Open]:
    """Opens ledgers on the same database, each with connections of its own, as several processes have."""
    contexts = []

    async def open_one() -> Ledger:
        context = open_ledger(
            Settings(
                database_url=database_url,
                database_vault_url=database_url,
                master_key=MASTER_KEY,
                sandbox_deadline_s=0.5,
                processor_timeout_s=20.0,
            )
        )
        contexts.append(context)
        return await context.__aenter__()

    yield open_one
    for context in reversed(contexts):
        await context.__aexit__(None, None, None)


@pytest.fixture
async def ledger(open_another: Open) -> Ledger:
    return await open_another()


@pytest.fixture
async def merchant(ledger: Ledger) -> Actor:
    return await register(ledger)
