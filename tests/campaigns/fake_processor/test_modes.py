"""Every way in which the fake processor fails: what its caller gets, its file holds, and a look-up returns."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from campaigns.fake_processor.client import FakeCards
from campaigns.fake_processor.modes import Mode
from tests.campaigns.fake_processor.conftest import Recorded, SetModes
from tests.processors.shop import Shop, question

from ledger.domain.orders.processor_outcomes import (
    Approved,
    Captured,
    CaptureRefused,
    Declined,
    Refunded,
    RefundRefused,
    Voided,
)
from ledger.processors.contract import AuthorizationRequest, ProcessorTimedOut, ProcessorUnavailable

pytestmark = pytest.mark.anyio

GOOD = "4242424242424242"


@pytest.fixture
def shop(cards: FakeCards) -> Shop:
    return Shop(cards)


def request_of(shop: Shop) -> AuthorizationRequest:
    return shop.authorization(GOOD, capture=True, deadline_at=datetime.now(UTC) + timedelta(seconds=0.5))


@pytest.mark.parametrize(
    ("mode", "took_effect"),
    [
        (Mode.TIMEOUT_BEFORE, False),
        (Mode.TIMEOUT_AFTER, True),
        (Mode.RESET_BEFORE, False),
        (Mode.RESET_AFTER, True),
        (Mode.ERROR_BEFORE, False),
        (Mode.ERROR_AFTER, True),
        (Mode.DUPLICATE, True),
        (Mode.GARBAGE, True),
        (Mode.OTHER_KEY, True),
    ],
)
async def test_every_failure_is_unknown_and_can_be_looked_up(
    shop: Shop, set_modes: SetModes, recorded: Recorded, mode: Mode, took_effect: bool
):
    await set_modes(Mode.OK, mode)
    await shop.sandbox.authorize(request_of(shop))
    request = request_of(shop)
    with pytest.raises(ProcessorTimedOut):
        await shop.sandbox.authorize(request)
    found = await shop.sandbox.look_up(question(shop.merchant_id, request.idempotency_key))
    assert isinstance(found, Approved) == took_effect
    lines = [line for line in recorded() if line.key == request.idempotency_key]
    assert [line.mode for line in lines if line.mode] == [mode]
    assert [line.captured for line in lines if line.applied] == [10_000] * took_effect
    assert isinstance(await shop.sandbox.authorize(request_of(shop)), Approved), "the next call is served"


async def test_a_late_call_takes_effect_after_it_was_not_found(shop: Shop, set_modes: SetModes, recorded: Recorded):
    await set_modes(Mode.LATE)
    request = shop.authorization(GOOD, capture=True, deadline_at=datetime.now(UTC) + timedelta(seconds=0.1))
    with pytest.raises(ProcessorTimedOut):
        await shop.sandbox.authorize(request)
    assert await shop.sandbox.look_up(question(shop.merchant_id, request.idempotency_key)) is None
    assert not any(line.applied for line in recorded())
    async with asyncio.timeout(30):
        while True:
            if await shop.sandbox.look_up(question(shop.merchant_id, request.idempotency_key)) is not None:
                break
            await asyncio.sleep(0.05)
    assert isinstance(await shop.sandbox.look_up(question(shop.merchant_id, request.idempotency_key)), Approved)


async def test_a_processor_that_is_not_there_is_unavailable(cards: FakeCards, unused_port: int):
    cards._port = unused_port
    with pytest.raises(ProcessorUnavailable):
        await cards.authorize(request_of(Shop(cards)))


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_the_same_key_counts_once(shop: Shop, recorded: Recorded):
    request = request_of(shop)
    answers = await asyncio.gather(*[shop.sandbox.authorize(request) for _ in range(5)])
    assert all(answer == answers[0] for answer in answers)
    assert sum(line.applied for line in recorded()) == 1


async def test_a_charge_is_captured_voided_and_refunded(shop: Shop, recorded: Recorded):
    cards = shop.sandbox
    reference = await shop.authorized()
    capture, void, refund = shop.capture(reference, 6_000), shop.void(reference), shop.refund(reference, 2_000)
    assert isinstance(await cards.capture(capture), Captured)
    assert isinstance(await cards.capture(shop.capture(reference, 6_000)), CaptureRefused)
    assert isinstance(await cards.refund(refund), Refunded)
    assert isinstance(await cards.refund(shop.refund(reference, 5_000)), RefundRefused)
    other = shop.void(await shop.authorized())
    assert isinstance(await cards.void(other), Voided)
    assert await cards.look_up_capture(question(shop.merchant_id, capture.idempotency_key)) is not None
    assert await cards.look_up_void(question(shop.merchant_id, void.idempotency_key)) is None
    assert await cards.look_up_void(question(shop.merchant_id, other.idempotency_key)) is not None
    assert await cards.look_up_refund(question(shop.merchant_id, refund.idempotency_key)) is not None
    assert sum(line.captured for line in recorded()) == 6_000
    assert sum(line.refunded for line in recorded()) == 2_000


async def test_a_card_is_declined(shop: Shop):
    assert isinstance(await shop.sandbox.authorize(shop.authorization("4000000000000002")), Declined)


async def test_a_fenced_key_is_refused_and_one_that_took_effect_is_not(
    shop: Shop, set_modes: SetModes, recorded: Recorded
):
    await set_modes(Mode.OK, Mode.OK)
    done, late = request_of(shop), request_of(shop)
    await shop.sandbox.authorize(done)
    for request, approved in ((done, Approved), (late, type(None))):
        found = await shop.sandbox.look_up(question(request.merchant_id, request.idempotency_key, fence=True))
        assert type(found) is approved
    with pytest.raises(ProcessorTimedOut, match="410"):
        await shop.sandbox.authorize(late)
    assert [line.key for line in recorded() if line.applied] == [done.idempotency_key]
