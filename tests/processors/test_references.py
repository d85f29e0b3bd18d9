"""The sandbox's references, deposits to them, and payouts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest
from stdnum import luhn
from tests.processors.shop import NOW, Shop, question

from ledger.domain.orders.processor_outcomes import (
    ReferenceCancelled,
    ReferenceIssued,
    ReferenceRefused,
    RefundPending,
    RefundRefused,
)
from ledger.domain.orders.terms import MethodType
from ledger.processors.clabe import check_digit, is_clabe
from ledger.processors.contract import Destination, ReferenceCancellation
from ledger.processors.messages import RefundConfirmed, RefundFailed
from ledger.processors.sandbox.charges import LATER
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import CONVENIO, Deposit, WrongAmount

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(sandbox: SandboxProcessor) -> Shop:
    return Shop(sandbox)


def sent(shop: Shop, to: str | None, amount: int = 10_000, message_id: str = "m1") -> Deposit:
    assert to is not None
    return Deposit(merchant_id=shop.merchant_id, message_id=message_id, sent_to=to, amount=Decimal(amount), at=NOW)


@pytest.mark.parametrize("clabe", ["032180000118359719", "002010077777777771", "646180157000000004"])
def test_real_clabes_are_valid_and_one_wrong_digit_is_not(clabe: str):
    assert is_clabe(clabe)
    assert not is_clabe(clabe[:-1] + str((int(clabe[-1]) + 1) % 10))
    assert not is_clabe(clabe[:-1])


async def test_a_clabe_is_unique_over_all_merchants(sandbox: SandboxProcessor, elsewhere: SandboxProcessor):
    shops = [Shop((sandbox, elsewhere)[n % 2]) for n in range(40)]
    issued = await asyncio.gather(*[shop.issued() for shop in shops for _ in range(5)])
    clabes = [answer.clabe for answer in issued]
    assert len(set(clabes)) == 200
    assert all(is_clabe(clabe or "") for clabe in clabes)
    assert all(answer.reference == answer.clabe for answer in issued)
    assert all(answer.expires_at == NOW + timedelta(hours=72) for answer in issued)


async def test_cash_references(shop: Shop):
    paycash, cie = await shop.issued(MethodType.PAYCASH), await shop.issued(MethodType.CIE_CASH_NET)
    assert (paycash.clabe, paycash.convenio, len(paycash.reference)) == (None, None, 14)
    assert (cie.convenio, len(cie.reference)) == (CONVENIO, 12)
    assert is_clabe(cie.clabe or "")
    assert luhn.is_valid(cie.reference)


async def test_the_same_key_gets_the_same_reference(shop: Shop, elsewhere: SandboxProcessor):
    asked = shop.reference()
    answers = await asyncio.gather(*[at.issue_reference(asked) for at in (shop.sandbox, elsewhere) * 5])
    assert len({answer.reference for answer in answers if isinstance(answer, ReferenceIssued)}) == 1
    assert await elsewhere.look_up_reference(question(shop.merchant_id, asked.idempotency_key)) == answers[0]
    assert await elsewhere.look_up_reference(question(shop.merchant_id, "never")) is None


async def test_references_are_for_pesos(shop: Shop):
    assert isinstance(await shop.sandbox.issue_reference(shop.reference(currency="USD")), ReferenceRefused)


@pytest.mark.parametrize("amount", [1, 10_000, 25_000])
async def test_a_clabe_accepts_any_amount(shop: Shop, amount: int):
    for method in (MethodType.SPEI, MethodType.CIE_CASH_NET):
        issued = await shop.issued(method)
        message = await shop.sandbox.deposit(sent(shop, issued.clabe, amount, method))
        assert (message.amount, message.reference, message.payment_id) == (amount, issued.clabe, shop.payment_id)


async def test_a_store_accepts_only_the_exact_amount(shop: Shop):
    for method in (MethodType.PAYCASH, MethodType.CIE_CASH_NET):
        issued = await shop.issued(method)
        with pytest.raises(WrongAmount) as refused:
            await shop.sandbox.deposit(sent(shop, issued.reference, 9_999, method))
        assert refused.value.expected == 10_000
        assert (await shop.sandbox.deposit(sent(shop, issued.reference, 10_000, method))).amount == 10_000
    assert len(await shop.due_messages()) == 2


async def test_a_repeated_deposit_counts_once(shop: Shop):
    issued = await shop.issued()
    first = await shop.sandbox.deposit(sent(shop, issued.clabe))
    assert await shop.sandbox.deposit(sent(shop, issued.clabe, 5)) == first
    assert await shop.due_messages() == [first]


async def test_money_for_an_unknown_reference_is_reported_without_a_payment(shop: Shop, sandbox: SandboxProcessor):
    theirs = await Shop(sandbox).issued()
    for to in ("646180000000000000", theirs.clabe):
        message = await shop.sandbox.deposit(sent(shop, to, message_id=f"to {to}"))
        assert (message.order_id, message.payment_id) == (None, None)


async def test_a_cancelled_reference_still_reports_money(shop: Shop):
    issued = await shop.issued()
    cancellation = ReferenceCancellation(
        merchant_id=shop.merchant_id,
        idempotency_key="c",
        deadline_at=shop.reference().deadline_at,
        processor_reference=issued.processor_reference,
    )
    cancelled = await shop.sandbox.cancel_reference(cancellation)
    assert cancelled == ReferenceCancelled(processor_reference=issued.processor_reference)
    assert await shop.sandbox.look_up_cancellation(question(shop.merchant_id, "c")) == cancelled
    assert (await shop.sandbox.deposit(sent(shop, issued.clabe))).payment_id == shop.payment_id


async def test_payouts_are_confirmed_later_and_never_exceed_the_deposits(shop: Shop, elsewhere: SandboxProcessor):
    issued = await shop.issued()
    reference = issued.processor_reference
    assert isinstance(await shop.sandbox.pay_out(shop.payout(reference)), RefundRefused), "nothing was deposited yet"
    await shop.sandbox.deposit(sent(shop, issued.clabe))
    asked = [shop.payout(reference, 3_000) for _ in range(5)]
    answers = await asyncio.gather(*[(shop.sandbox, elsewhere)[n % 2].pay_out(one) for n, one in enumerate(asked)])
    assert sum(isinstance(answer, RefundPending) for answer in answers) == 3
    assert await elsewhere.look_up_payout(question(shop.merchant_id, asked[0].idempotency_key)) == answers[0]
    confirmed = [message for message in await shop.due_messages() if isinstance(message, RefundConfirmed)]
    assert {message.amount for message in confirmed} == {3_000}
    assert len(confirmed) == 3
    assert confirmed[0].occurred_at == NOW + LATER


async def test_a_failed_payout_can_be_repeated(shop: Shop):
    issued = await shop.issued()
    await shop.sandbox.deposit(sent(shop, issued.clabe))
    account = "64618000000000001"
    clabe = account + check_digit(account)
    refused = Destination(clabe=clabe, account_holder="Failing Account")
    wrong = Destination(clabe=account + "x")
    reference = issued.processor_reference
    assert isinstance(await shop.sandbox.pay_out(shop.payout(reference, destination=wrong)), RefundRefused)
    assert isinstance(await shop.sandbox.pay_out(shop.payout(reference, destination=refused)), RefundPending)
    assert isinstance((await shop.due_messages())[-1], RefundFailed)
    good = Destination(clabe=clabe, account_holder="Ana López")
    assert isinstance(await shop.sandbox.pay_out(shop.payout(reference, destination=good)), RefundPending)
    assert repr(good) == "Destination(***)"
