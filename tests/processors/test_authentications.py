"""A payer's authentication at the sandbox processor: device data, challenge, redirect, and how each ends."""

from __future__ import annotations

import asyncio

import pytest
from tests.processors.shop import Shop, question
from uuid_utils.compat import uuid7

from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Captured, Declined
from ledger.domain.orders.statuses import NextAction
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio

CHALLENGED, FRICTIONLESS, BOTH, REDIRECTED = (
    "4000000000003220",
    "4000000000003055",
    "4000000000003063",
    "4000000000007007",
)


@pytest.fixture
def shop(sandbox: SandboxProcessor) -> Shop:
    return Shop(sandbox)


async def test_a_payer_authenticates_only_where_the_merchant_allows_it(shop: Shop):
    for number in (CHALLENGED, FRICTIONLESS, BOTH, REDIRECTED):
        assert isinstance(await shop.sandbox.authorize(shop.authorization(number)), Approved)


@pytest.mark.parametrize(
    ("number", "action", "page"),
    [
        (CHALLENGED, NextAction.CHALLENGE, "challenge"),
        (FRICTIONLESS, NextAction.DEVICE_DATA, "device-data"),
        (BOTH, NextAction.DEVICE_DATA, "device-data"),
        (REDIRECTED, NextAction.REDIRECT, "redirect"),
    ],
)
async def test_each_card_asks_for_its_first_step(shop: Shop, number: str, action: NextAction, page: str):
    action_required = await shop.authenticating(number)
    assert action_required.next_action is action
    url = action_required.device_data_collection_url or action_required.step_up_url
    assert url is not None
    assert url.startswith(f"http://127.0.0.1:8000/api/sandbox/3ds/{page}/")
    assert (action_required.device_data_collection_url is None) != (action_required.step_up_url is None)


async def test_a_challenge_that_is_passed_grants_the_money_once(shop: Shop, elsewhere: SandboxProcessor):
    request = shop.authorization(CHALLENGED, authenticate=True)
    action_required = await shop.sandbox.authorize(request)
    assert isinstance(action_required, ActionRequired)
    assert await elsewhere.authorize(request) == action_required
    assert await elsewhere.look_up(question(shop.merchant_id, request.idempotency_key)) == action_required
    await shop.sandbox.pages.conclude(action_required.authentication_transaction_id, accepted=True)
    continuation = shop.continuation(action_required.authentication_transaction_id)
    answers = await asyncio.gather(*[at.validate_authentication(continuation) for at in (shop.sandbox, elsewhere) * 4])
    assert all(answer == answers[0] for answer in answers)
    granted = answers[0]
    assert isinstance(granted, Approved)
    assert (granted.authorized, granted.captured) == (10_000, 0)
    assert await elsewhere.look_up(question(shop.merchant_id, continuation.idempotency_key)) == granted
    assert isinstance(await elsewhere.capture(shop.capture(granted.processor_reference)), Captured)
    again = await shop.sandbox.validate_authentication(shop.continuation(action_required.authentication_transaction_id))
    assert isinstance(again, Declined), "the session has ended"


async def test_a_challenge_that_is_refused_is_declined(shop: Shop):
    action_required = await shop.authenticating(CHALLENGED)
    session = await shop.sandbox.pages.conclude(action_required.authentication_transaction_id, accepted=False)
    assert session is not None
    assert (session.payment_id, session.amount, session.card_last4) == (shop.payment_id, 10_000, "3220")
    answer = await shop.sandbox.validate_authentication(
        shop.continuation(action_required.authentication_transaction_id)
    )
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_FAILED"


async def test_a_test_can_leave_the_page_out(shop: Shop):
    for number in (CHALLENGED, REDIRECTED):
        action_required = await shop.authenticating(number)
        continuation = shop.continuation(action_required.authentication_transaction_id, capture=True)
        answer = await shop.sandbox.validate_authentication(continuation)
        assert isinstance(answer, Approved)
        assert answer.captured == 10_000


async def test_a_transaction_with_fail_in_its_id_fails(shop: Shop):
    answer = await shop.sandbox.validate_authentication(shop.continuation("please-fail"))
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_FAILED"


async def test_device_data_is_followed_by_an_approval_or_by_a_challenge(shop: Shop):
    frictionless = await shop.authenticating(FRICTIONLESS)
    await shop.sandbox.pages.collect_device_data(frictionless.reference_id)
    continuation = shop.continuation(frictionless.authentication_transaction_id, capture=True)
    assert isinstance(await shop.sandbox.submit_device_data(continuation), Approved)

    both = await shop.authenticating(BOTH)
    early = await shop.sandbox.validate_authentication(shop.continuation(both.authentication_transaction_id))
    assert isinstance(early, Declined), "a challenge cannot be passed before there is one"
    challenge = await shop.sandbox.submit_device_data(shop.continuation(both.authentication_transaction_id))
    assert isinstance(challenge, ActionRequired)
    assert challenge.next_action is NextAction.CHALLENGE
    assert challenge.authentication_transaction_id == both.authentication_transaction_id
    answer = await shop.sandbox.validate_authentication(shop.continuation(both.authentication_transaction_id))
    assert isinstance(answer, Approved)


async def test_a_session_belongs_to_its_merchant(shop: Shop, sandbox: SandboxProcessor):
    action_required = await shop.authenticating(CHALLENGED)
    another = Shop(sandbox)
    answer = await sandbox.validate_authentication(another.continuation(action_required.authentication_transaction_id))
    assert isinstance(answer, Declined)
    assert isinstance(
        await sandbox.validate_authentication(shop.continuation(action_required.authentication_transaction_id)),
        Approved,
    )


async def test_the_pages_find_a_session_by_either_id(shop: Shop):
    action_required = await shop.authenticating(BOTH)
    pages = shop.sandbox.pages
    session = await pages.session(action_required.reference_id)
    assert session == await pages.session(action_required.authentication_transaction_id)
    assert session is not None
    assert session.stage is NextAction.DEVICE_DATA
    assert await pages.session(str(uuid7())) is None
    assert await pages.conclude(action_required.authentication_transaction_id, accepted=False) is None, (
        "nothing to choose yet"
    )
    assert await pages.session(action_required.reference_id) == session
