"""Cases of payers who are authenticated."""

from __future__ import annotations

from decimal import Decimal

from tests.processors.contract.account import AccountUnderTest, CardKind, Loss, Need
from tests.processors.contract.cases import case, failure_of, outcome_of
from uuid_utils.compat import uuid7

from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Captured, Declined, Voided, VoidRefused
from ledger.domain.orders.statuses import NextAction
from ledger.processors.contract import AuthorizationRequest, ProcessorTimedOut


async def _challenged(
    at: AccountUnderTest, kind: CardKind = CardKind.AUTHENTICATED, **given: object
) -> tuple[AuthorizationRequest, ActionRequired]:
    request = await at.asking(kind, **given)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, ActionRequired), answer
    return request, answer


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def a_challenge_names_the_page_and_moves_nothing(at: AccountUnderTest) -> None:
    request, asked = await _challenged(at)
    assert asked.next_action is NextAction.CHALLENGE
    assert asked.step_up_url
    assert asked.step_up_url.startswith("http")
    assert await at.processor.look_up(at.question(request)) == asked
    assert await at.processor.authorize(request) == asked, "a repeated call has the same session"
    assert await at.done() == []


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES, Need.FENCES)
async def a_fence_leaves_an_open_session_open(at: AccountUnderTest) -> None:
    request, asked = await _challenged(at)
    assert await at.processor.look_up(at.question(request, fence=True)) == asked
    await at.authenticate(asked.authentication_transaction_id, passed=True)
    answer = await at.processor.validate_authentication(at.continuation(asked.authentication_transaction_id))
    assert isinstance(answer, Approved)


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def an_authenticated_payment_is_captured(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at)
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=True)
    answer = await at.processor.validate_authentication(at.continuation(session))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured, answer.eci) == (10_000, 10_000, "05")
    assert [captured for _, captured, *_ in await at.done()] == [10_000]
    [record] = await at.records()
    assert record.processor_reference == answer.processor_reference


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def an_authenticated_payment_is_held(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at, capture=False)
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=True)
    answer = await at.processor.validate_authentication(at.continuation(session, capture=False))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (10_000, 0)
    assert isinstance(await at.processor.capture(at.capture(answer.processor_reference)), Captured)


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def a_repeated_validation_has_the_same_answer(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at)
    await at.authenticate(asked.authentication_transaction_id, passed=True)
    validation = at.continuation(asked.authentication_transaction_id)
    answers = [await at.processor.validate_authentication(validation) for _ in range(3)]
    assert isinstance(answers[0], Approved)
    assert answers.count(answers[0]) == 3
    assert await at.processor.look_up(at.question(validation)) == answers[0]
    assert len(await at.done()) == 1


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def a_payer_who_is_not_authenticated_pays_nothing(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at)
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=False)
    validation = at.continuation(session)
    answer = await at.processor.validate_authentication(validation)
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_FAILED"
    assert await at.processor.validate_authentication(validation) == answer
    again = await outcome_of(at.processor.validate_authentication(at.continuation(session)))
    assert isinstance(again, Declined)
    assert await at.done() == []


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES)
async def a_validation_whose_answer_is_lost_is_found(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at)
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=True)
    async with at.away() as away:
        await failure_of(away.validate_authentication(at.continuation(session)))
    validation = at.continuation(session)
    async with at.losing(Loss.ANSWER):
        await outcome_of(at.processor.validate_authentication(validation))
    found = await at.processor.look_up(at.question(validation))
    assert isinstance(found, Approved)
    assert len(await at.done()) == 1


@case(CardKind.AUTHENTICATED)
async def a_payer_is_never_asked_unless_the_request_allows_it(at: AccountUnderTest) -> None:
    request = await at.payment(CardKind.AUTHENTICATED, virtual_terminal=True)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved) or answer.code == "AUTHENTICATION_REQUIRED"  # type: ignore[union-attr]
    assert not isinstance(answer, ActionRequired)
    assert await at.processor.look_up(at.question(request)) == answer
    assert len(await at.done()) == isinstance(answer, Approved)


@case(CardKind.APPROVED, Need.AUTHENTICATES)
async def a_card_whose_issuer_does_not_ask_is_approved_at_once(at: AccountUnderTest) -> None:
    assert isinstance(await at.processor.authorize(await at.asking(CardKind.APPROVED)), Approved)


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES, Need.VERIFIES)
async def a_verified_cards_payer_is_authenticated(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at, amount=Decimal(0), capture=False, payment_method_id=uuid7())
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=True)
    answer = await at.processor.validate_authentication(at.continuation(session, capture=False))
    assert isinstance(answer, Approved)
    assert answer.authorized == 0
    assert await at.done() == []


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES, Need.ENDS_SESSIONS)
async def an_open_session_ends_with_a_void(at: AccountUnderTest) -> None:
    request, asked = await _challenged(at)
    session = asked.authentication_transaction_id
    void = at.void(session)
    for _ in range(2):
        assert isinstance(await at.processor.void(void), Voided)
    assert isinstance(await at.processor.look_up_void(at.question(void)), Voided)
    answer = await outcome_of(at.processor.validate_authentication(at.continuation(session)))
    assert isinstance(answer, Declined | ProcessorTimedOut)
    assert await at.processor.look_up(at.question(request, fence=True)) is None
    assert [captured for _, captured, *_ in await at.done()] == [0]


@case(CardKind.AUTHENTICATED, Need.AUTHENTICATES, Need.ENDS_SESSIONS)
async def a_payer_who_was_quicker_than_the_end_of_his_session_has_paid(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at)
    session = asked.authentication_transaction_id
    await at.authenticate(session, passed=True)
    answer = await at.processor.void(at.void(session))
    assert isinstance(answer, VoidRefused)
    assert answer.code == "ALREADY_CAPTURED"
    assert isinstance(await at.processor.validate_authentication(at.continuation(session)), Approved)


@case(CardKind.DEVICE_DATA)
async def a_devices_data_can_be_enough(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at, CardKind.DEVICE_DATA)
    assert asked.next_action is NextAction.DEVICE_DATA
    assert asked.device_data_collection_url
    submission = at.continuation(asked.authentication_transaction_id)
    answer = await at.processor.submit_device_data(submission)
    assert isinstance(answer, Approved)
    assert answer.captured == 10_000
    assert await at.processor.submit_device_data(submission) == answer
    assert await at.processor.look_up(at.question(submission)) == answer


@case(CardKind.DEVICE_DATA_THEN_CHALLENGE)
async def a_devices_data_can_lead_to_a_challenge(at: AccountUnderTest) -> None:
    _, asked = await _challenged(at, CardKind.DEVICE_DATA_THEN_CHALLENGE)
    session = asked.authentication_transaction_id
    answer = await at.processor.submit_device_data(at.continuation(session))
    assert isinstance(answer, ActionRequired)
    assert answer.next_action is NextAction.CHALLENGE
    assert isinstance(await at.processor.validate_authentication(at.continuation(session)), Approved)
    assert len(await at.done()) == 1
