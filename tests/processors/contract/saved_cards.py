"""Cases of cards that a processor keeps for later payments."""

from __future__ import annotations

from decimal import Decimal

from tests.processors.contract.account import AccountUnderTest, CardKind, Need, timeless
from tests.processors.contract.cases import case, outcome_of
from uuid_utils.compat import uuid7

from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.processors.contract import AuthorizationRequest, CardToken


async def _saved(at: AccountUnderTest, **given: object) -> tuple[AuthorizationRequest, Approved, CardToken]:
    request = await at.asking(CardKind.APPROVED, save_as=uuid7(), **given)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved), answer
    assert answer.saved_card is not None
    return request, answer, CardToken(token=answer.saved_card.token, customer=answer.saved_card.customer)


@case(CardKind.APPROVED, Need.SAVES)
async def a_card_is_saved_with_its_payment_and_charged_later(at: AccountUnderTest) -> None:
    request, answer, card = await _saved(at)
    assert timeless(await at.processor.look_up(at.question(request))) == timeless(answer)
    assert timeless(await at.processor.authorize(request)) == timeless(answer)
    later = await at.payment(card=card, saved_card=True)
    assert isinstance(await at.processor.authorize(later), Approved)
    assert {key: captured for key, captured, *_ in await at.done()} == {
        request.idempotency_key: 10_000,
        later.idempotency_key: 10_000,
    }


@case(CardKind.APPROVED, Need.SAVES, Need.VERIFIES)
async def a_card_is_saved_without_a_payment_and_charged_later(at: AccountUnderTest) -> None:
    _, answer, card = await _saved(at, amount=Decimal(0), capture=False, payment_method_id=uuid7())
    assert answer.authorized == 0
    assert isinstance(await at.processor.authorize(await at.payment(card=card, saved_card=True)), Approved)


@case(CardKind.APPROVED, Need.SAVES)
async def a_forgotten_card_is_not_charged(at: AccountUnderTest) -> None:
    _, _, card = await _saved(at)
    for _ in range(2):
        await at.processor.forget_card(at.forgetting(card))
    assert await at.read(card.token, card.customer) is None
    outcome = await outcome_of(at.processor.authorize(await at.payment(card=card, saved_card=True)))
    assert isinstance(outcome, Declined | Exception), outcome
    assert len(await at.done()) == 1


@case(CardKind.APPROVED, Need.SAVES)
async def a_card_that_another_account_keeps_is_unknown(at: AccountUnderTest) -> None:
    _, _, card = await _saved(await at.elsewhere())
    outcome = await outcome_of(at.processor.authorize(await at.payment(card=card, saved_card=True)))
    assert isinstance(outcome, Declined | Exception), outcome
    assert await at.done() == []
