"""The sandbox's accounts under test: the one that every merchant has, and a further one of a merchant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final
from uuid import uuid4

from tests.processors.contract.account import AccountUnderTest, CardKind, Loss, Need

from ledger.domain.orders.processor_outcomes import ReferenceIssued
from ledger.processors.contract import Card, CardToken, PayingCard, Processor
from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit

SLOW_S: Final = 0.5
"""How long the sandbox takes for an answer that a test loses."""
_PATIENCE_S: Final = 0.25

_CARDS: Final[Mapping[CardKind, str]] = {
    CardKind.APPROVED: "tok_visa",
    CardKind.GENERIC: "tok_declined",
    CardKind.INSUFFICIENT_FUNDS: "tok_insufficient_funds",
    CardKind.LOST: "tok_lost_or_stolen",
    CardKind.STOLEN: "4000000000009979",
    CardKind.EXPIRED: "tok_expired_card",
    CardKind.INVALID_CVV: "tok_invalid_cvv",
    CardKind.UNAVAILABLE: "tok_issuer_unavailable",
    CardKind.FRAUD: "tok_suspected_fraud",
    CardKind.AUTHENTICATED: "tok_challenge",
    CardKind.DEVICE_DATA: "tok_device_data",
    CardKind.DEVICE_DATA_THEN_CHALLENGE: "4000000000003063",
    CardKind.HALF: "4000000000000010",
    CardKind.CAPTURES_REFUSED: "4000000000007015",
    CardKind.VOIDS_REFUSED: "4000000000007023",
    CardKind.REFUNDS_LATER: "tok_refund_later",
    CardKind.REFUNDS_REFUSED: "tok_refund_refused",
}


class Sandbox(AccountUnderTest):
    """The account `sandbox` of a merchant of its own."""

    cards = _CARDS
    abilities = frozenset({Need.VERIFIES, Need.SAVES, Need.PAYS_IN, Need.AUTHENTICATES, Need.SHARED})

    def __init__(self, accounts: SandboxAccounts) -> None:
        super().__init__()
        self._accounts = accounts
        self.simulated = accounts.sandbox
        self.processor = self.simulated

    async def card(self, kind: CardKind = CardKind.APPROVED) -> PayingCard:
        named = self.cards[kind]
        if named.startswith("tok_"):
            return CardToken(token=named)
        return Card(number=named, exp_month=12, exp_year=2031, cvc="987")

    async def elsewhere(self) -> AccountUnderTest:
        return await further(self._accounts)

    @asynccontextmanager
    async def losing(self, loss: Loss) -> AsyncIterator[float]:
        """An answer is lost if it comes after the deadline."""
        assert loss is Loss.ANSWER, "the sandbox loses no request"
        await self.simulated.set_mode(self.merchant_id, Mode.SLOW)
        yield _PATIENCE_S
        await self.simulated.set_mode(self.merchant_id, Mode.OK)

    @asynccontextmanager
    async def away(self) -> AsyncIterator[Processor]:
        await self.simulated.set_mode(self.merchant_id, Mode.DOWN)
        yield self.processor
        await self.simulated.set_mode(self.merchant_id, Mode.OK)

    async def authenticate(self, session: str, *, passed: bool) -> None:
        await self.simulated.pages.conclude(session, accepted=passed)

    async def pay_in(self, issued: ReferenceIssued, amount: int) -> None:
        sent = Deposit(
            merchant_id=self.merchant_id,
            message_id=f"deposit-{uuid4()}",
            sent_to=issued.clabe or issued.reference,
            amount=Decimal(amount),
            at=datetime.now(UTC),
        )
        await self.simulated.deposit(sent)


class Further(Sandbox):
    """A further account of a merchant of its own."""

    abilities = Sandbox.abilities - {Need.SHARED}


async def further(accounts: SandboxAccounts) -> AccountUnderTest:
    """Returns a further simulated account of a merchant of its own, with records of its own."""
    made = Further(accounts)
    account = await accounts.open(made.merchant_id, "further")
    assert isinstance(account.processor, SandboxProcessor)
    made.simulated = made.processor = account.processor
    return made
