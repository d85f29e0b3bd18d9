"""A payer's authentication at the sandbox processor: device data, challenge, redirect, and what each ends in."""

from __future__ import annotations

import asyncio

import pytest
from tests.processors.asking import Shop
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


async def test_a_payer_is_only_asked_where_the_merchant_allows_it(shop: Shop):
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
    asked = await shop.authenticating(number)
    assert asked.next_action is action
    url = asked.device_data_collection_url or asked.step_up_url
    assert url is not None
    assert url.startswith(f"http://127.0.0.1:8000/api/sandbox/3ds/{page}/")
    assert (asked.device_data_collection_url is None) != (asked.step_up_url is None)


async def test_a_challenge_that_is_passed_grants_the_money_once(shop: Shop, elsewhere: SandboxProcessor):
    request = shop.authorization(CHALLENGED, authenticate=True)
    asked = await shop.sandbox.authorize(request)
    assert isinstance(asked, ActionRequired)
    assert await elsewhere.authorize(request) == asked
    assert await elsewhere.look_up(shop.merchant_id, request.idempotency_key) == asked
    await shop.sandbox.pages.conclude(asked.authentication_transaction_id, accepted=True)
    went_on = shop.went_on(asked.authentication_transaction_id)
    answers = await asyncio.gather(*[at.validate_authentication(went_on) for at in (shop.sandbox, elsewhere) * 4])
    assert all(answer == answers[0] for answer in answers)
    granted = answers[0]
    assert isinstance(granted, Approved)
    assert (granted.authorized, granted.captured) == (10_000, 0)
    assert await elsewhere.look_up(shop.merchant_id, went_on.idempotency_key) == granted
    assert isinstance(await elsewhere.capture(shop.capture(granted.processor_reference)), Captured)
    again = await shop.sandbox.validate_authentication(shop.went_on(asked.authentication_transaction_id))
    assert isinstance(again, Declined), "the session has ended"


async def test_a_challenge_that_is_refused_is_declined(shop: Shop):
    asked = await shop.authenticating(CHALLENGED)
    session = await shop.sandbox.pages.conclude(asked.authentication_transaction_id, accepted=False)
    assert session is not None
    assert (session.payment_id, session.amount, session.card_last4) == (shop.payment_id, 10_000, "3220")
    answer = await shop.sandbox.validate_authentication(shop.went_on(asked.authentication_transaction_id))
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_FAILED"


async def test_a_test_may_leave_the_page_out(shop: Shop):
    for number in (CHALLENGED, REDIRECTED):
        asked = await shop.authenticating(number)
        went_on = shop.went_on(asked.authentication_transaction_id, capture=True)
        answer = await shop.sandbox.validate_authentication(went_on)
        assert isinstance(answer, Approved)
        assert answer.captured == 10_000


async def test_a_transaction_that_says_fail_fails(shop: Shop):
    answer = await shop.sandbox.validate_authentication(shop.went_on("please-fail"))
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_FAILED"


async def test_device_data_is_followed_by_the_money_or_by_a_challenge(shop: Shop):
    frictionless = await shop.authenticating(FRICTIONLESS)
    await shop.sandbox.pages.collect_device_data(frictionless.reference_id)
    went_on = shop.went_on(frictionless.authentication_transaction_id, capture=True)
    assert isinstance(await shop.sandbox.submit_device_data(went_on), Approved)

    both = await shop.authenticating(BOTH)
    early = await shop.sandbox.validate_authentication(shop.went_on(both.authentication_transaction_id))
    assert isinstance(early, Declined), "a challenge cannot be passed before there is one"
    challenge = await shop.sandbox.submit_device_data(shop.went_on(both.authentication_transaction_id))
    assert isinstance(challenge, ActionRequired)
    assert challenge.next_action is NextAction.CHALLENGE
    assert challenge.authentication_transaction_id == both.authentication_transaction_id
    answer = await shop.sandbox.validate_authentication(shop.went_on(both.authentication_transaction_id))
    assert isinstance(answer, Approved)


async def test_a_session_is_its_merchants_alone(shop: Shop, sandbox: SandboxProcessor):
    asked = await shop.authenticating(CHALLENGED)
    stranger = Shop(sandbox)
    answer = await sandbox.validate_authentication(stranger.went_on(asked.authentication_transaction_id))
    assert isinstance(answer, Declined)
    assert isinstance(
        await sandbox.validate_authentication(shop.went_on(asked.authentication_transaction_id)), Approved
    )


async def test_the_pages_know_a_session_by_either_name(shop: Shop):
    asked = await shop.authenticating(BOTH)
    pages = shop.sandbox.pages
    session = await pages.session(asked.reference_id)
    assert session == await pages.session(asked.authentication_transaction_id)
    assert session is not None
    assert session.stage is NextAction.DEVICE_DATA
    assert await pages.session(str(uuid7())) is None
    assert await pages.conclude(asked.authentication_transaction_id, accepted=False) == session, "nothing to choose yet"
