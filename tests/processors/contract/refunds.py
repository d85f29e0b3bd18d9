"""Cases of refunds to cards."""

from __future__ import annotations

import asyncio

from tests.processors.contract.account import AccountUnderTest, CardKind
from tests.processors.contract.cases import case, outcome_of

from ledger.domain.orders.processor_outcomes import Refunded, RefundPending, RefundRefused, Voided


@case(CardKind.APPROVED)
async def a_payment_is_refunded_whole(at: AccountUnderTest) -> None:
    paid = await at.captured()
    refund = at.refund(paid)
    answer = await at.processor.refund(refund)
    assert isinstance(answer, Refunded)
    assert answer.amount == 10_000
    assert (refund.idempotency_key, 0, 10_000, False) in await at.done()


@case(CardKind.APPROVED)
async def a_payment_is_refunded_in_parts_up_to_the_whole(at: AccountUnderTest) -> None:
    paid = await at.captured()
    for amount in (1, 3_999, 6_000):
        answer = await at.processor.refund(at.refund(paid, amount))
        assert isinstance(answer, Refunded)
        assert answer.amount == amount
    assert isinstance(await at.processor.refund(at.refund(paid, 1)), RefundRefused)
    assert sorted(refunded for _, _, refunded, _ in await at.done()) == [0, 1, 3_999, 6_000]


@case(CardKind.APPROVED)
async def more_than_was_captured_is_not_refunded(at: AccountUnderTest) -> None:
    paid, part = await at.captured(), await at.authorized()
    await at.processor.capture(at.capture(part, 6_000))
    for reference, amount in ((paid, 10_001), (part, 6_001)):
        answer = await at.processor.refund(at.refund(reference, amount))
        assert isinstance(answer, RefundRefused)
        assert answer.code
    assert [refunded for _, _, refunded, _ in await at.done()] == [0, 0]
    assert isinstance(await at.processor.refund(at.refund(part, 6_000)), Refunded)


@case(CardKind.APPROVED)
async def a_repeated_refund_refunds_once(at: AccountUnderTest) -> None:
    refund = at.refund(await at.captured(), 4_000)
    answers = [await at.processor.refund(refund) for _ in range(3)]
    assert isinstance(answers[0], Refunded)
    assert answers.count(answers[0]) == 3
    assert sorted(refunded for _, _, refunded, _ in await at.done()) == [0, 4_000]


@case(CardKind.APPROVED)
async def a_refund_under_another_key_is_another_refund(at: AccountUnderTest) -> None:
    paid = await at.captured()
    first, second = await at.processor.refund(at.refund(paid, 4_000)), await at.processor.refund(at.refund(paid, 4_000))
    assert isinstance(first, Refunded)
    assert isinstance(second, Refunded)
    assert first.processor_reference != second.processor_reference
    assert sorted(refunded for _, _, refunded, _ in await at.done()) == [0, 4_000, 4_000]


@case(CardKind.APPROVED)
async def refunds_at_once_give_back_no_more_than_there_is(at: AccountUnderTest) -> None:
    paid = await at.captured()
    outcomes = await asyncio.gather(*(outcome_of(at.processor.refund(at.refund(paid, 6_000))) for _ in range(3)))
    assert sum(isinstance(outcome, Refunded) for outcome in outcomes) == 1, outcomes
    assert sum(refunded for _, _, refunded, _ in await at.done()) == 6_000


@case(CardKind.APPROVED)
async def what_was_never_captured_is_not_refunded(at: AccountUnderTest) -> None:
    held, left = await at.authorized(), await at.authorized()
    assert isinstance(await at.processor.void(at.void(left)), Voided)
    for reference in (held, left, "pi_unknown"):
        assert isinstance(await at.processor.refund(at.refund(reference)), RefundRefused), reference
    assert sum(refunded for _, _, refunded, _ in await at.done()) == 0


@case(CardKind.REFUNDS_LATER)
async def a_refund_that_is_carried_out_later_is_pending(at: AccountUnderTest) -> None:
    refund = at.refund(await at.captured(CardKind.REFUNDS_LATER), 4_000)
    answer = await at.processor.refund(refund)
    assert isinstance(answer, RefundPending)
    found = await at.processor.look_up_refund(at.question(refund))
    assert isinstance(found, RefundPending | Refunded)
    assert found.processor_reference == answer.processor_reference


@case(CardKind.REFUNDS_REFUSED)
async def a_refund_can_be_refused(at: AccountUnderTest) -> None:
    paid = await at.captured(CardKind.REFUNDS_REFUSED)
    assert isinstance(await at.processor.refund(at.refund(paid)), RefundRefused)
    assert [refunded for _, _, refunded, _ in await at.done()] == [0]
