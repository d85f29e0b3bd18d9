"""CLABEs and OXXO vouchers at Stripe, and what goes back to their payers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import BUSY, CUT_AFTER, CUT_BEFORE, FAILS_AFTER, REFUSED, Double

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import (
    ReferenceCancelled,
    ReferenceIssued,
    ReferenceRefused,
    Refunded,
    RefundPending,
    RefundRefused,
)
from ledger.domain.orders.refund import returned_refund_id
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import (
    Payer,
    PayoutRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    ReferenceCancellation,
    ReferenceRequest,
)
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.references import voucher_days

pytestmark = pytest.mark.anyio


async def test_each_transfer_has_a_customer_and_a_clabe_of_its_own(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    requests = [shop.reference(), shop.reference(payer=None)]
    answers = [await stripe.issue_reference(request) for request in requests]
    clabes = {answer.clabe for answer in answers if isinstance(answer, ReferenceIssued)}
    assert len(clabes) == len(double.customers) == 2
    for request, answer in zip(requests, answers, strict=True):
        assert isinstance(answer, ReferenceIssued)
        assert (answer.reference, answer.expires_at) == (answer.clabe, request.expires_at)
        assert await stripe.look_up_reference(shop.question(request)) == answer
    assert [customer.get("email") for customer in double.customers.values()] == ["ana@example.com", None]
    confirm = double.posts("/confirm")[0]
    assert confirm["payment_method_options[customer_balance][bank_transfer][type]"] == "mx_bank_transfer"


async def test_a_name_that_is_too_long_for_stripe_is_cut(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    request = shop.reference(payer=Payer(name="Ñ" * 511, email="ana@example.com"))
    assert isinstance(await stripe.issue_reference(request), ReferenceIssued)
    [customer] = double.customers.values()
    assert customer["name"] == "Ñ" * 256


async def test_a_voucher_expires_when_stripe_says(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    request = shop.reference(MethodType.PAYCASH)
    answer = await stripe.issue_reference(request)
    assert isinstance(answer, ReferenceIssued)
    assert (answer.clabe, answer.expires_at.timestamp()) == (None, double.now + 86_400)
    assert (answer.channel, answer.voucher_url, answer.expires_by_real_time) == ("OXXO", "https://x", True)
    assert await stripe.look_up_reference(shop.question(request)) == answer
    assert double.posts("/confirm")[0]["payment_method_options[oxxo][expires_after_days]"] == "3"
    nameless = await stripe.issue_reference(shop.reference(MethodType.PAYCASH, payer=None))
    assert isinstance(nameless, ReferenceRefused)
    assert isinstance(await stripe.issue_reference(shop.reference(MethodType.CIE_CASH_NET)), ReferenceRefused)


async def test_a_voucher_is_valid_for_one_to_seven_days(shop: Shop) -> None:
    at = datetime(2031, 1, 31, tzinfo=UTC)
    for days, expected in ((0, 1), (1, 1), (3, 3), (7, 7), (30, 7)):
        assert voucher_days(shop.reference(at=at, expires_at=at + timedelta(days=days))) == expected


@pytest.mark.parametrize("method", [MethodType.SPEI, MethodType.PAYCASH])
@pytest.mark.parametrize(
    ("path", "fault", "is_issued"),
    [
        ("/payment_intents", CUT_AFTER, False),
        ("/payment_intents", FAILS_AFTER, False),
        ("/confirm", CUT_BEFORE, False),
        ("/confirm", CUT_AFTER, True),
        ("/confirm", FAILS_AFTER, True),
    ],
)
async def test_a_reference_without_an_answer_is_looked_up(
    shop: Shop, stripe: StripeProcessor, double: Double, method: MethodType, path: str, fault: str, is_issued: bool
) -> None:
    double.faults[path] = [fault] * (2 if fault in {CUT_BEFORE, CUT_AFTER} else 1)
    request = shop.reference(method)
    with pytest.raises((ProcessorUnavailable, ProcessorTimedOut)):
        await stripe.issue_reference(request)
    double.faults.clear()
    assert isinstance(await stripe.look_up_reference(shop.question(request)), ReferenceIssued) == is_issued
    found = await stripe.look_up_reference(shop.question(request, fence=True))
    [intent] = double.intents.values()
    assert (found is None) == (intent["status"] == "canceled") == (not is_issued)
    if not is_issued:
        with pytest.raises(ProcessorUnavailable):  # it was fenced
            await stripe.issue_reference(request)


async def test_a_reference_is_cancelled_unless_its_payer_was_quicker(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    for is_paid in (False, True):
        reference = await _issued(shop, stripe)
        if is_paid:
            _fund(double, reference, 50_000)
        request = ReferenceCancellation(**_about(shop.reference()), processor_reference=reference)
        assert await stripe.cancel_reference(request) == ReferenceCancelled(processor_reference=reference)
        question = shop.question(shop.reference(), step=EntryAction.REFERENCE, processor_reference=reference)
        assert (await stripe.look_up_cancellation(question) is None) == is_paid


async def test_what_was_applied_goes_back_through_the_intent_and_the_rest_from_the_balance(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    reference = await _issued(shop, stripe)
    customer = _fund(double, reference, 50_000)
    double.balances[customer] = 2_000
    part = _payout(shop, reference, 30_000)
    assert isinstance(await stripe.pay_out(part), Refunded)
    assert isinstance(await stripe.look_up_payout(_question(shop, part)), Refunded)
    both = _payout(shop, reference, 21_500)
    double.faults["/refunds"] = [CUT_AFTER] * 2  # the part from the balance is made, and its answer is lost
    with pytest.raises(ProcessorTimedOut):
        await stripe.pay_out(both)
    assert await stripe.look_up_payout(_question(shop, both)) is None
    assert isinstance(await stripe.pay_out(both), RefundPending)  # it is sent again, and makes the other part alone
    assert (double.given_back(reference), double.balances[customer]) == (50_000, 500)
    assert isinstance(await stripe.look_up_payout(_question(shop, both)), RefundPending)
    for refund in double.refunds.values():
        refund["status"] = "succeeded"
    assert isinstance(await stripe.look_up_payout(_question(shop, both)), Refunded)
    refused = await stripe.pay_out(_payout(shop, reference, 501))
    assert isinstance(refused, RefundRefused)
    assert (double.given_back(reference), double.balances[customer]) == (50_000, 500)


async def test_money_for_a_part_goes_back_once_no_more_is_expected(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    reference = await _issued(shop, stripe)
    customer = str(double.intents[reference]["customer"])
    double.applied[reference] = 20_000
    last = replace(_payout(shop, reference, 20_000), is_last=True)
    assert isinstance(await stripe.pay_out(replace(last, is_last=False, idempotency_key="open")), RefundRefused)
    assert double.intents[reference]["status"] == "requires_action", (
        "the rest that its payer sends still pays the order"
    )
    double.faults["/cancel"] = [CUT_BEFORE] * 2
    with pytest.raises(ProcessorUnavailable):
        await stripe.pay_out(last)
    assert isinstance(await stripe.pay_out(last), RefundPending)
    assert (double.balances[customer], len(double.refunds)) == (0, 1)
    paid = await _issued(shop, stripe)
    _fund(double, paid, 50_000)
    assert isinstance(await stripe.pay_out(replace(_payout(shop, paid, 50_000), is_last=True)), Refunded)


async def test_a_payout_of_which_a_part_is_made_has_not_failed(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    for fault in ([REFUSED], [BUSY] * 4):
        reference = await _issued(shop, stripe)
        customer = _fund(double, reference, 50_000)
        double.balances[customer] = 2_000
        double.faults["/refunds"] = ["", *fault]
        request = _payout(shop, reference, 52_000)
        with pytest.raises(ProcessorTimedOut):
            await stripe.pay_out(request)
        found = await stripe.look_up_payout(replace(_question(shop, request), fence=True))
        assert isinstance(found, RefundPending)
        assert (double.given_back(reference), double.balances[customer]) == (0, 0)
        [made] = [each for each in double.refunds.values() if each["metadata"]["ledger_key"] == request.idempotency_key]
        assert made["metadata"]["ledger_fenced"] == request.idempotency_key, "a message about it ends the payout"
        assert await stripe.look_up_payout(_question(shop, request)) is None, "only the fence stops the other part"
        with pytest.raises(ProcessorTimedOut):
            await stripe.pay_out(request)  # it arrives late
        made["status"] = "succeeded"
        failed = await stripe.look_up_payout(replace(_question(shop, request), fence=True))
        assert isinstance(failed, RefundRefused)
        assert (failed.code, failed.returned, failed.returned_reference) == ("ONLY_A_PART_MADE", 2_000, made["id"])
        assert len(await _listed_as_returned(shop, stripe, request, 2_000)) == 1
        made["status"] = "failed"
        failed = await stripe.look_up_payout(replace(_question(shop, request), fence=True))
        assert isinstance(failed, RefundRefused)
        assert (failed.code, failed.returned) == ("FAILED", 0)
        assert await _listed_as_returned(shop, stripe, request, 2_000) == []


async def _listed_as_returned(
    shop: Shop, stripe: StripeProcessor, failed: PayoutRequest, amount: int
) -> Sequence[Refunded]:
    """Returns what the processor has under the key of the refund that the log has of a failed one's part."""
    assert failed.payment_id is not None
    returned_id = returned_refund_id(UUID(failed.idempotency_key), failed.payment_id)
    key = f"{returned_id}:{failed.payment_id}"
    question = replace(_question(shop, failed), idempotency_key=key, amount=Decimal(amount))
    found = await stripe.look_up_payout(replace(question, payment_id=failed.payment_id, order_id=failed.order_id))
    assert found is None or isinstance(found, Refunded)
    return [] if found is None else [found]


async def test_a_payout_that_a_look_up_fenced_has_no_effect_when_it_arrives(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    reference = await _issued(shop, stripe)
    double.balances[_fund(double, reference, 50_000)] = 2_000
    for amount in (30_000, 52_000):
        late = _payout(shop, reference, amount)
        assert await stripe.look_up_payout(replace(_question(shop, late), fence=True)) is None
        with pytest.raises(ProcessorTimedOut):
            await stripe.pay_out(late)
    assert double.refunds == {}


async def test_cash_is_not_given_back(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    answer = await stripe.issue_reference(shop.reference(MethodType.PAYCASH))
    assert isinstance(answer, ReferenceIssued)
    double.intents[answer.processor_reference] |= {"status": "succeeded", "amount_received": 50_000}
    refused = await stripe.pay_out(_payout(shop, answer.processor_reference, 50_000))
    assert isinstance(refused, RefundRefused)
    assert (refused.code, double.refunds) == ("NOT_REFUNDABLE", {})


async def _issued(shop: Shop, stripe: StripeProcessor) -> str:
    answer = await stripe.issue_reference(shop.reference())
    assert isinstance(answer, ReferenceIssued)
    return answer.processor_reference


def _fund(double: Double, reference: str, amount: int) -> str:
    intent = double.intents[reference]
    intent |= {"status": "succeeded", "amount_received": amount, "next_action": None}
    return str(intent["customer"])


def _about(request: ReferenceRequest) -> dict[str, Any]:
    names = ("merchant_id", "idempotency_key", "deadline_at", "order_id", "payment_id")
    return {name: getattr(request, name) for name in names}


def _payout(shop: Shop, reference: str, amount: int) -> PayoutRequest:
    about = _about(shop.reference())
    return PayoutRequest(**about, processor_reference=reference, amount=Decimal(amount), currency="MXN")


def _question(shop: Shop, request: PayoutRequest) -> Any:
    given = {"step": EntryAction.REFUND, "method": MethodType.SPEI, "idempotency_key": request.idempotency_key}
    amount = {"amount": request.amount, "processor_reference": request.processor_reference}
    return shop.question(shop.reference(), **given, **amount)
