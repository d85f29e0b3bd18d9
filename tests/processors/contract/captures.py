"""Cases of captures, voids and releases."""

from __future__ import annotations

import asyncio

from tests.processors.contract.account import AccountUnderTest, CardKind, Need
from tests.processors.contract.cases import case, outcome_of

from ledger.domain.orders.processor_outcomes import (
    Captured,
    CaptureRefused,
    Released,
    ReleaseRefused,
    Voided,
    VoidRefused,
)
from ledger.processors.contract import ProcessorTimedOut


@case(CardKind.APPROVED)
async def an_authorization_is_captured_whole(at: AccountUnderTest) -> None:
    held = await at.authorized()
    capture = at.capture(held)
    answer = await at.processor.capture(capture)
    assert isinstance(answer, Captured)
    assert (answer.amount, answer.released or 0) == (10_000, 0)
    assert await at.done() == [(capture.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED, Need.SEVERAL_CAPTURES)
async def an_authorization_is_captured_in_parts(at: AccountUnderTest) -> None:
    held = await at.authorized()
    for amount in (2_500, 7_500):
        answer = await at.processor.capture(at.capture(held, amount))
        assert isinstance(answer, Captured)
        assert (answer.amount, answer.released) == (amount, None)
    assert isinstance(await at.processor.capture(at.capture(held, 1)), CaptureRefused)
    assert sorted(captured for _, captured, *_ in await at.done()) == [2_500, 7_500]


@case(CardKind.APPROVED, Need.ONE_CAPTURE)
async def a_capture_of_a_part_releases_the_rest(at: AccountUnderTest) -> None:
    held = await at.authorized()
    answer = await at.processor.capture(at.capture(held, 2_500))
    assert isinstance(answer, Captured)
    assert (answer.amount, answer.released) == (2_500, 7_500)
    assert isinstance(await at.processor.capture(at.capture(held, 7_500)), CaptureRefused)
    assert [captured for _, captured, *_ in await at.done()] == [2_500]


@case(CardKind.APPROVED)
async def a_final_capture_of_a_part_releases_the_rest(at: AccountUnderTest) -> None:
    held = await at.authorized()
    capture = at.capture(held, 6_000, final=True)
    answer = await at.processor.capture(capture)
    assert isinstance(answer, Captured)
    assert (answer.amount, answer.released) == (6_000, 4_000)
    assert isinstance(await at.processor.capture(at.capture(held, 4_000)), CaptureRefused)
    released = await at.processor.release(at.release(held))
    assert isinstance(released, Released)
    assert released.amount == 4_000
    assert await at.done() == [(capture.idempotency_key, 6_000, 0, False)]


@case(CardKind.APPROVED)
async def more_than_was_authorized_is_not_captured(at: AccountUnderTest) -> None:
    held = await at.authorized()
    answer = await at.processor.capture(at.capture(held, 10_001))
    assert isinstance(answer, CaptureRefused)
    assert (bool(answer.code), answer.retryable) == (True, False)
    assert await at.done() == []
    assert isinstance(await at.processor.capture(at.capture(held)), Captured), "the hold is as it was"


@case(CardKind.APPROVED)
async def a_repeated_capture_captures_once(at: AccountUnderTest) -> None:
    capture = at.capture(await at.authorized())
    answers = [await at.processor.capture(capture) for _ in range(3)]
    assert isinstance(answers[0], Captured)
    assert answers.count(answers[0]) == 3
    assert await at.done() == [(capture.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED)
async def a_second_capture_of_the_whole_is_refused(at: AccountUnderTest) -> None:
    for amount in (10_000, 6_000):
        held = await at.authorized()
        assert isinstance(await at.processor.capture(at.capture(held, amount)), Captured)
        assert isinstance(await at.processor.capture(at.capture(held)), CaptureRefused)
    assert sorted(captured for _, captured, *_ in await at.done()) == [6_000, 10_000]


@case(CardKind.APPROVED)
async def what_was_captured_with_its_authorization_is_not_captured_again(at: AccountUnderTest) -> None:
    paid = await at.captured()
    assert isinstance(await at.processor.capture(at.capture(paid)), CaptureRefused)
    assert [captured for _, captured, *_ in await at.done()] == [10_000]


@case(CardKind.APPROVED)
async def of_two_captures_at_once_one_captures(at: AccountUnderTest) -> None:
    held = await at.authorized()
    calls = [at.capture(held), at.capture(held)]
    outcomes = await asyncio.gather(*(outcome_of(at.processor.capture(call)) for call in calls))
    assert sum(isinstance(outcome, Captured) for outcome in outcomes) == 1, outcomes
    assert [captured for _, captured, *_ in await at.done()] == [10_000]


@case(CardKind.APPROVED)
async def a_voided_authorization_is_not_captured(at: AccountUnderTest) -> None:
    held = await at.authorized()
    void = at.void(held)
    assert isinstance(await at.processor.void(void), Voided)
    assert isinstance(await at.processor.capture(at.capture(held)), CaptureRefused)
    assert await at.done() == [(void.idempotency_key, 0, 0, True)]


@case()
async def an_unknown_authorization_is_not_captured(at: AccountUnderTest) -> None:
    outcome = await outcome_of(at.processor.capture(at.capture("pi_unknown")))
    assert isinstance(outcome, CaptureRefused | ProcessorTimedOut)
    assert await at.done() == []


@case(CardKind.APPROVED)
async def a_repeated_void_releases_once(at: AccountUnderTest) -> None:
    void = at.void(await at.authorized())
    answers = [await at.processor.void(void) for _ in range(3)]
    assert isinstance(answers[0], Voided)
    assert answers.count(answers[0]) == 3
    assert await at.done() == [(void.idempotency_key, 0, 0, True)]


@case(CardKind.APPROVED)
async def what_is_captured_is_not_voided(at: AccountUnderTest) -> None:
    held, part = await at.authorized(), await at.authorized()
    await at.processor.capture(at.capture(held))
    await at.processor.capture(at.capture(part, 6_000))
    for reference in (held, part, await at.captured()):
        answer = await at.processor.void(at.void(reference))
        assert isinstance(answer, VoidRefused)
        assert answer.code == "ALREADY_CAPTURED"
    assert [voided for *_, voided in await at.done()] == [False] * 3


@case(CardKind.APPROVED)
async def either_the_capture_or_the_void_is_first(at: AccountUnderTest) -> None:
    for _ in range(4):
        held = await at.authorized()
        capture, void = at.capture(held), at.void(held)
        outcomes = await asyncio.gather(
            outcome_of(at.processor.capture(capture)), outcome_of(at.processor.void(void)), return_exceptions=True
        )
        if any(isinstance(outcome, ProcessorTimedOut) for outcome in outcomes):
            continue  # the other call held the object, and this one is to be looked up
        assert isinstance(outcomes[0], Captured) is not isinstance(outcomes[1], Voided), outcomes
        found = {key: (captured, voided) for key, captured, _, voided in await at.done()}
        assert found.get(capture.idempotency_key) == ((10_000, False) if isinstance(outcomes[0], Captured) else None)


@case(CardKind.APPROVED)
async def the_rest_of_a_partly_captured_authorization_is_released(at: AccountUnderTest) -> None:
    held = await at.authorized()
    await at.processor.capture(at.capture(held, 6_000))
    for release in (at.release(held), at.release(held)):
        answer = await at.processor.release(release)
        assert isinstance(answer, Released)
        assert answer.amount == 4_000
        assert await at.processor.look_up_release(at.question(release)) is not None
    assert isinstance(await at.processor.capture(at.capture(held, 4_000)), CaptureRefused)
    assert [captured for _, captured, *_ in await at.done()] == [6_000]


@case(CardKind.APPROVED)
async def nothing_is_released_before_a_capture(at: AccountUnderTest) -> None:
    held = await at.authorized()
    answer = await at.processor.release(at.release(held))
    assert isinstance(answer, ReleaseRefused)
    assert isinstance(await at.processor.capture(at.capture(held)), Captured)
