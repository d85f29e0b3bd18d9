"""Cards without a payment whose payers act at the processor: they count without the payer's return, and end there first.

The processor is the sandbox, whose session is made one of a processor where the payer's act verifies the card.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace
from tests.operations.conftest import an_order
from tests.operations.test_card_verification import methods_of
from tests.operations.test_kept_cards import by_token, references
from tests.operations.test_timers import Ahead

from ledger.background.inbox.consumer import Applied
from ledger.background.inbox.verification_changes import record_verification_state
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, CardReference, Voided, VoidRefused
from ledger.domain.payment_methods.state import Verification, stream_of
from ledger.domain.payment_methods.terms import VerificationEnd
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.payment_methods.change import delete_payment_method
from ledger.operations.payment_methods.complete import expire_verification
from ledger.operations.payment_methods.verify import verify_and_save
from ledger.processors.contract import ForgetCardRequest, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.findings import VerificationState
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio

LEFT = CardReference(token="pm_left", customer="cus_left")


class Bank:
    """A session of a customer's card at a processor where the payer's own act completes it."""

    def __init__(self, ledger: Ledger, merchant: Actor) -> None:
        self.ledger, self.merchant = ledger, merchant
        self.customer_id, self.verification_id = uuid4(), uuid4()
        self.has_acted, self.is_away = False, False
        self.voided: list[str] = []
        self.forgotten: list[str] = []
        sandbox: Any = ledger.processors.sandbox
        authorize = sandbox.authorize

        async def asked(request: Any) -> Any:
            answer = await authorize(request)
            assert isinstance(answer, ActionRequired)
            return replace(answer, processor_reference=answer.authentication_transaction_id)

        async def void(request: Any) -> Voided | VoidRefused:
            self._answer()
            self.voided.append(request.processor_reference)
            return VoidRefused(code="ALREADY_CAPTURED") if self.has_acted else Voided(processor_reference="seti")

        async def look_up(_: Any) -> Any:
            self._answer()
            none = Decimal(0)
            return Approved(authorized=none, captured=none, processor_reference="seti") if self.has_acted else None

        async def forget(request: ForgetCardRequest) -> None:
            self._answer()
            self.forgotten.append(request.token.token)

        sandbox.authorize, sandbox.void, sandbox.look_up, sandbox.forget_card = asked, void, look_up, forget

    def _answer(self) -> None:
        if self.is_away:
            raise ProcessorTimedOut("away")

    async def begin(self) -> None:
        """Lets the customer's card be verified by a payer who is at the bank's page."""
        self.customer_id = (await create_order(self.ledger, self.merchant, an_order("1"))).customer.customer_id
        token = by_token("tok_challenge")
        begun = await verify_and_save(self.ledger, self.merchant, "ana", token, is_default=False)
        self.verification_id = begun.methods.verifications[0].verification_id

    async def verification(self) -> Verification:
        [found] = (await methods_of(self.ledger, self.merchant, self.customer_id)).verifications
        return found

    @property
    def _about(self) -> tuple[UUID, UUID]:
        return self.merchant.merchant_id, stream_of(self.customer_id)

    async def stands(self, account: str = "sandbox", **changes: Any) -> bool:
        """Records how the verification stands at the processor; returns whether it is recorded."""
        found = VerificationState(
            merchant_id=self.merchant.merchant_id,
            customer_id=self.customer_id,
            verification_id=self.verification_id,
            processor_reference=(await self.verification()).session_reference or "seti",
            is_waiting=False,
        )
        return isinstance(await record_verification_state(self.ledger, (account,), replace(found, **changes)), Applied)

    async def time_is_over(self) -> bool:
        self.ledger.clock = Ahead(timedelta(days=2))
        return await expire_verification(self.ledger, *self._about, (await self.verification()).payment_method_id)


@pytest.fixture
async def bank(ledger: Ledger, merchant: Actor) -> Bank:
    bank = Bank(ledger, merchant)
    await bank.begin()
    return bank


async def test_a_payer_who_never_comes_back_has_the_card_saved_once(bank: Bank, database_url: str) -> None:
    """Doubled, early, late and forged messages change nothing."""
    waiting = await bank.verification()
    assert waiting.session_reference is not None
    for untrue in (
        {"is_waiting": True},
        {"processor_reference": "seti_another"},
        {"account": "another"},
        {"customer_id": uuid4()},
        {"verification_id": uuid4()},
    ):
        assert await bank.stands(**untrue)  # type: ignore[arg-type]
        assert await bank.verification() == waiting
    for _ in range(2):
        assert await bank.stands(saved_card=LEFT)
    assert (await bank.verification()).ended is VerificationEnd.VERIFIED
    assert (
        len((await methods_of(bank.ledger, bank.merchant, bank.customer_id)).live) == len(references(database_url)) == 1
    )
    assert bank.forgotten == []


async def test_a_verification_that_cannot_be_continued_is_tried_again(bank: Bank) -> None:
    sandbox: Any = bank.ledger.processors.sandbox
    validate = sandbox.validate_authentication

    async def during(request: Any) -> Any:
        assert not await bank.stands(), "its call is open"
        raise ProcessorUnavailable("away")

    sandbox.validate_authentication = during
    assert not await bank.stands()
    sandbox.validate_authentication = validate
    assert await bank.stands()
    assert (await bank.verification()).ended is VerificationEnd.VERIFIED


async def test_a_session_ends_at_its_processor_before_it_ends_in_the_log(bank: Bank) -> None:
    bank.is_away = True
    assert not await bank.time_is_over()
    assert (await bank.verification()).ended is None
    bank.is_away = False
    assert await bank.time_is_over()
    assert ((await bank.verification()).ended, len(bank.voided)) == (VerificationEnd.EXPIRED, 1)
    await bank.ledger.drain()
    assert await bank.time_is_over()
    assert len(bank.voided) == 1, "what has ended at the processor is not ended there again"


async def test_a_payer_who_is_quicker_than_the_end_counts(bank: Bank) -> None:
    bank.has_acted = True
    assert await bank.time_is_over()
    assert ((await bank.verification()).ended, bank.voided) == (VerificationEnd.VERIFIED, [])


@pytest.mark.parametrize("how", ["deleted", "erased"])
async def test_what_a_merchant_ends_is_ended_at_the_processor_and_what_a_quicker_payer_left_is_forgotten(
    bank: Bank, database_url: str, how: str
) -> None:
    verification, merchant = await bank.verification(), bank.merchant
    if how == "deleted":
        await delete_payment_method(bank.ledger, merchant, bank.customer_id, verification.payment_method_id)
    else:
        async with Erasures(database_url) as payers:
            await delete_customer(bank.ledger, merchant, "ana", payers.orders_of)
    await bank.ledger.drain()
    assert bank.voided == [verification.session_reference]
    bank.is_away = True
    assert not await bank.stands(saved_card=LEFT)
    bank.is_away = False
    assert await bank.stands()
    assert bank.forgotten == []
    assert await bank.stands(saved_card=LEFT)
    assert (bank.forgotten, references(database_url)) == ([LEFT.token], [])
