"""Cases of references for transfers and cash, and of payouts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.processors.contract.account import AccountUnderTest, Loss, Need
from tests.processors.contract.cases import case, failure_of, outcome_of

from ledger.domain.orders.processor_outcomes import (
    ReferenceCancelled,
    ReferenceIssued,
    ReferenceRefused,
    Refunded,
    RefundPending,
    RefundRefused,
)
from ledger.domain.orders.terms import MethodType
from ledger.processors.clabe import is_clabe


@case(Need.SPEI)
async def a_transfers_reference_is_a_clabe_of_its_own(at: AccountUnderTest) -> None:
    first, second = await at.issued(), await at.issued()
    assert first.clabe is not None
    assert is_clabe(first.clabe)
    assert first.reference == first.clabe
    assert first.clabe != second.clabe
    assert first.processor_reference != second.processor_reference
    assert first.expires_at > datetime.now(UTC) + timedelta(days=2)


@case(Need.SPEI)
async def a_repeated_reference_is_issued_once(at: AccountUnderTest) -> None:
    request = at.reference()
    answers = [await at.processor.issue_reference(request) for _ in range(3)]
    assert isinstance(answers[0], ReferenceIssued)
    assert answers.count(answers[0]) == 3


@case(Need.PAYCASH)
async def a_stores_reference_has_a_number_and_an_end(at: AccountUnderTest) -> None:
    issued = await at.issued(MethodType.PAYCASH)
    assert issued.reference
    assert issued.clabe is None
    assert timedelta(days=2) < issued.expires_at - datetime.now(UTC) < timedelta(days=4)


@case(Need.CIE)
async def a_cie_reference_has_an_agreement_and_a_clabe(at: AccountUnderTest) -> None:
    issued = await at.issued(MethodType.CIE_CASH_NET)
    assert issued.convenio
    assert issued.clabe is not None
    assert is_clabe(issued.clabe)


@case(Need.NO_CIE)
async def a_method_that_the_account_has_not_is_refused(at: AccountUnderTest) -> None:
    answer = await at.processor.issue_reference(at.reference(MethodType.CIE_CASH_NET))
    assert isinstance(answer, ReferenceRefused)
    assert answer.code == "METHOD_NOT_ENABLED"


@case(Need.SPEI)
async def a_reference_is_cancelled(at: AccountUnderTest) -> None:
    request = at.reference()
    issued = await at.processor.issue_reference(request)
    assert isinstance(issued, ReferenceIssued)
    cancellation = at.cancellation(issued.processor_reference)
    assert await at.processor.look_up_cancellation(at.question(cancellation)) is None
    for _ in range(2):
        assert isinstance(await at.processor.cancel_reference(cancellation), ReferenceCancelled)
    assert isinstance(
        await at.processor.cancel_reference(at.cancellation(issued.processor_reference)), ReferenceCancelled
    )
    assert isinstance(await at.processor.look_up_cancellation(at.question(cancellation)), ReferenceCancelled)


@case(Need.PAYCASH)
async def a_stores_reference_is_cancelled(at: AccountUnderTest) -> None:
    issued = await at.issued(MethodType.PAYCASH)
    cancellation = at.cancellation(issued.processor_reference)
    assert isinstance(await at.processor.cancel_reference(cancellation), ReferenceCancelled)
    assert isinstance(await at.processor.look_up_cancellation(at.question(cancellation)), ReferenceCancelled)


@case(Need.SPEI)
async def a_cancellation_whose_answer_is_lost_is_found(at: AccountUnderTest) -> None:
    cancellation = at.cancellation((await at.issued()).processor_reference)
    async with at.losing(Loss.ANSWER) as deadline_s:
        lost = at.cancellation(
            cancellation.processor_reference, deadline_at=datetime.now(UTC) + timedelta(seconds=deadline_s)
        )
        await outcome_of(at.processor.cancel_reference(lost))
    assert isinstance(await at.processor.cancel_reference(cancellation), ReferenceCancelled)
    assert isinstance(await at.processor.look_up_cancellation(at.question(cancellation)), ReferenceCancelled)


@case(Need.SPEI, Need.PAYS_IN)
async def received_money_is_given_back_whole_and_once(at: AccountUnderTest) -> None:
    issued = await at.received()
    payout = at.payout(issued.processor_reference)
    assert await at.processor.look_up_payout(at.question(payout)) is None
    answers = [await at.processor.pay_out(payout) for _ in range(2)]
    assert isinstance(answers[0], RefundPending | Refunded)
    assert answers[1].processor_reference == answers[0].processor_reference  # type: ignore[union-attr]
    found = await at.processor.look_up_payout(at.question(payout))
    assert isinstance(found, RefundPending | Refunded)
    assert isinstance(await at.processor.pay_out(at.payout(issued.processor_reference, 1)), RefundRefused)
    assert [(key, refunded) for key, _, refunded, _ in await at.done()] == [(payout.idempotency_key, 50_000)]


@case(Need.SPEI, Need.PAYS_IN)
async def received_money_is_given_back_in_parts(at: AccountUnderTest) -> None:
    issued = await at.received()
    for amount in (20_000, 30_000):
        assert isinstance(
            await at.processor.pay_out(at.payout(issued.processor_reference, amount)), RefundPending | Refunded
        )
    assert sorted(refunded for _, _, refunded, _ in await at.done()) == [20_000, 30_000]


@case(Need.SPEI, Need.PAYS_IN)
async def more_than_was_received_is_not_given_back(at: AccountUnderTest) -> None:
    issued, unpaid = await at.received(), await at.issued()
    for reference, amount in ((issued, 50_001), (unpaid, 1)):
        answer = await at.processor.pay_out(at.payout(reference.processor_reference, amount))
        assert isinstance(answer, RefundRefused)
    assert await at.done() == []


@case(Need.SPEI, Need.PAYS_IN)
async def too_much_money_is_given_back_too(at: AccountUnderTest) -> None:
    issued = await at.received(51_500)
    answer = await at.processor.pay_out(at.payout(issued.processor_reference, 1_500))
    assert isinstance(answer, RefundPending | Refunded)
    answer = await at.processor.pay_out(at.payout(issued.processor_reference, 50_000))
    assert isinstance(answer, RefundPending | Refunded)


@case(Need.SPEI, Need.PAYS_IN)
async def a_payout_whose_answer_is_lost_is_made_once(at: AccountUnderTest) -> None:
    issued = await at.received()
    payout = at.payout(issued.processor_reference, 20_000)
    async with at.losing(Loss.ANSWER) as deadline_s:
        lost = at.payout(
            issued.processor_reference,
            20_000,
            idempotency_key=payout.idempotency_key,
            deadline_at=datetime.now(UTC) + timedelta(seconds=deadline_s),
            order_id=payout.order_id,
            payment_id=payout.payment_id,
        )
        await failure_of(at.processor.pay_out(lost))
    assert isinstance(await at.processor.pay_out(payout), RefundPending | Refunded)
    assert isinstance(await at.processor.look_up_payout(at.question(payout)), RefundPending | Refunded)
    assert [refunded for _, _, refunded, _ in await at.done()] == [20_000]


@case(Need.CASH_KEPT)
async def cash_is_not_given_back(at: AccountUnderTest) -> None:
    issued = await at.issued(MethodType.PAYCASH)
    assert isinstance(await at.processor.pay_out(at.payout(issued.processor_reference, 1_000)), RefundRefused)


@case(Need.CASH_REFUNDED, Need.PAYS_IN)
async def cash_is_given_back(at: AccountUnderTest) -> None:
    issued = await at.issued(MethodType.PAYCASH)
    await at.pay_in(issued, 50_000)
    assert isinstance(await at.processor.pay_out(at.payout(issued.processor_reference)), RefundPending | Refunded)
