"""Captures, voids, releases and refunds at Stripe, and what a look-up finds after each way in which they can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import CUT_AFTER, CUT_BEFORE, FAILS_AFTER, FAILS_BEFORE, HELD, Double

from ledger.domain.orders.processor_outcomes import (
    Captured,
    CaptureRefused,
    Refunded,
    RefundPending,
    RefundRefused,
    Released,
    ReleaseRefused,
    Voided,
    VoidRefused,
)
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, ReleaseRequest
from ledger.processors.stripe.processor import StripeProcessor

pytestmark = pytest.mark.anyio

Call = tuple[str, str, Callable[[Shop, str], Any]]
CALLS: list[Call] = [
    ("capture", "/capture", lambda shop, reference: shop.capture(reference, 6_000)),
    ("void", "/cancel", lambda shop, reference: shop.void(reference)),
    ("refund", "/refunds", lambda shop, reference: shop.refund(reference, 4_000)),
]


def effects(double: Double) -> list[Any]:
    """What the calls have done to the intents, and what was given back of them."""
    states = [(intent["status"], intent["amount_received"]) for intent in double.intents.values()]
    return [*states, [refund["amount"] for refund in double.refunds.values()]]


async def test_a_capture_releases_the_rest(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    reference = await shop.authorized(capture=False)
    request = shop.capture(reference, 6_000)
    captured = Captured(amount=Decimal(6_000), processor_reference=reference, released=Decimal(4_000))
    assert await stripe.capture(request) == captured
    assert await stripe.look_up_capture(shop.question(request, processor_reference=reference)) == captured
    assert double.posts("/capture")[0]["metadata[ledger_capture]"] == request.idempotency_key
    release = _release(shop, reference)
    assert await stripe.release(release) == Released(amount=Decimal(4_000), processor_reference=reference)
    again = await stripe.capture(shop.capture(reference, 4_000))
    assert isinstance(again, CaptureRefused)
    assert (again.code, again.retryable) == ("PAYMENT_INTENT_UNEXPECTED_STATE", False)


async def test_what_is_not_captured_is_voided_and_what_is_captured_is_refunded(
    shop: Shop, stripe: StripeProcessor
) -> None:
    held, paid = await shop.authorized(capture=False), await shop.authorized()
    assert isinstance(await stripe.release(_release(shop, held)), ReleaseRefused)
    request = shop.void(held)
    assert await stripe.void(request) == Voided(processor_reference=held)
    assert await stripe.look_up_void(shop.question(request)) == Voided(processor_reference=held)
    refused = await stripe.void(shop.void(paid))
    assert isinstance(refused, VoidRefused)
    assert refused.code == "ALREADY_CAPTURED"
    part = shop.refund(paid)
    refunded = await stripe.refund(part)
    assert isinstance(refunded, Refunded)
    assert refunded.amount == 4_000
    assert await stripe.refund(part) == refunded
    assert await stripe.look_up_refund(shop.question(part)) == refunded
    assert isinstance(await stripe.refund(shop.refund(paid, 6_001)), RefundRefused)


@pytest.mark.parametrize(("name", "path", "ask"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER, FAILS_BEFORE, FAILS_AFTER])
async def test_a_call_without_an_answer_is_unknown_until_the_look_up(
    shop: Shop, stripe: StripeProcessor, double: Double, name: str, path: str, ask: Any, fault: str
) -> None:
    reference = await shop.authorized(capture=name == "refund")
    before = effects(double)
    request = ask(shop, reference)
    double.faults[path] = [fault] * (2 if fault in {CUT_BEFORE, CUT_AFTER} else 1)
    with pytest.raises(ProcessorTimedOut):
        await getattr(stripe, name)(request)
    question = shop.question(request, processor_reference=reference)
    found = await getattr(stripe, f"look_up_{name}")(question)
    assert (found is not None) == (effects(double) != before) == (fault in {CUT_AFTER, FAILS_AFTER})
    if found is None and (name, fault) != ("refund", FAILS_BEFORE):
        answer = await getattr(stripe, name)(request)  # the recovery sends it again, past a failure that is repeated
        assert await getattr(stripe, f"look_up_{name}")(question) == answer
    once = effects(double)
    if fault == FAILS_BEFORE and name == "refund":
        with pytest.raises(
            ProcessorTimedOut
        ):  # what a failed refund did is not certain: it is not sent under another key
            await stripe.refund(request)
    else:
        await getattr(stripe, name)(request)
    assert effects(double) == once


@pytest.mark.parametrize(("name", "path", "ask"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_call_that_arrives_after_the_fence_has_no_effect(
    shop: Shop, stripe: StripeProcessor, double: Double, name: str, path: str, ask: Any
) -> None:
    reference = await shop.authorized(capture=name == "refund")
    request = ask(shop, reference)
    double.faults[path] = [HELD]
    late = asyncio.ensure_future(getattr(stripe, name)(request))
    await double.held.wait()
    late.cancel()
    before = effects(double)
    question = shop.question(request, processor_reference=reference, fence=True)
    for _ in range(2):
        assert await getattr(stripe, f"look_up_{name}")(question) is None
    double.gate.set()
    for _ in range(100):  # the request that waits at the double goes on
        await asyncio.sleep(0)
    assert effects(double) == before
    with pytest.raises(ProcessorUnavailable):
        await getattr(stripe, name)(request)


async def test_stripe_may_fail_at_one_call_several_times(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    held = await shop.authorized(capture=False)
    void = shop.void(held)
    double.faults[f"/{held}"] = [FAILS_BEFORE]  # at the mark of the void
    double.faults["/cancel"] = [FAILS_BEFORE] * 3
    with pytest.raises(ProcessorUnavailable):
        await stripe.void(void)
    for _ in range(3):
        with pytest.raises(ProcessorTimedOut):
            await stripe.void(void)
    question = shop.question(void, processor_reference=held, fence=True)
    assert await stripe.look_up_void(question) is None
    with pytest.raises(ProcessorUnavailable):  # the fence holds for the key that would have been the next one
        await stripe.void(void)
    assert double.intents[held]["status"] == "requires_capture"


async def test_a_fence_that_comes_after_the_call_finds_what_it_did(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    reference = await shop.authorized(capture=False)
    request = shop.capture(reference)
    double.faults["/capture"] = [CUT_AFTER] * 2
    with pytest.raises(ProcessorTimedOut):
        await stripe.capture(request)
    double.intents[reference]["status"] = "requires_capture"  # as a copy that lags would show it
    question = shop.question(request, processor_reference=reference, fence=True)
    double.faults[f"/{reference}"] = [HELD]
    look_up = asyncio.ensure_future(stripe.look_up_capture(question))
    await double.held.wait()
    double.intents[reference]["status"] = "succeeded"
    double.gate.set()
    assert isinstance(await look_up, Captured)


async def test_a_call_whose_key_is_forgotten_is_found_by_its_effect(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    held, paid = await shop.authorized(capture=False), await shop.authorized()
    capture, refund = shop.capture(held), shop.refund(paid)
    await stripe.capture(capture)
    await stripe.refund(refund)
    double.forget_keys()
    then = datetime.now(UTC) - timedelta(hours=25)
    for request, look_up in ((capture, stripe.look_up_capture), (refund, stripe.look_up_refund)):
        assert await look_up(shop.question(request, fence=True, announced_at=then)) is not None


async def test_what_was_done_on_stripes_own_pages_counts(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    reference = await shop.authorized(capture=False)
    double._receive(double.intents[reference], 10_000)
    request = shop.capture(reference)
    assert isinstance(await stripe.look_up_capture(shop.question(request, processor_reference=reference)), Captured)
    other = shop.capture(reference, 6_000)
    assert await stripe.look_up_capture(shop.question(other, processor_reference=reference)) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("pending", RefundPending),
        ("requires_action", RefundPending),
        ("failed", RefundRefused),
        ("canceled", RefundRefused),
    ],
)
async def test_a_refund_ends_as_stripe_says(
    shop: Shop, stripe: StripeProcessor, double: Double, status: str, kind: type
) -> None:
    request = shop.refund(await shop.authorized())
    await stripe.refund(request)
    [refund] = double.refunds.values()
    refund["status"] = status
    assert isinstance(await stripe.look_up_refund(shop.question(request)), kind)


def _release(shop: Shop, reference: str) -> ReleaseRequest:
    request = shop.void(reference)
    return ReleaseRequest(**{name: getattr(request, name) for name in request.__struct_fields__})
