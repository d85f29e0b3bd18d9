"""What Stripe's lists show of the ledger's calls, and what a check of an account finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import Double
from tests.processors.stripe.test_events import paid_out
from tests.processors.stripe.test_references import _fund, _payout

from ledger.domain.orders.processor_outcomes import ReferenceIssued
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import LineRequest, Processor, ProcessorUnavailable
from ledger.processors.messages import SettlementLine, SettlementListed, SettlementRefused
from ledger.processors.stripe.account import MONTHS, check
from ledger.processors.stripe.call_keys import unrequested_refund_id
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import Connections, KeyRefused, Transport

pytestmark = pytest.mark.anyio


async def test_every_effect_is_listed_under_the_key_of_its_call(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    start = datetime.fromtimestamp(double.now, UTC)
    paid, held, voided = shop.pay(), shop.pay(capture=False), shop.pay(capture=False)
    at_once = await shop.authorized(**_given(paid))
    reference, other = await shop.authorized(**_given(held)), await shop.authorized(**_given(voided))
    double.now += 7_200
    capture, void, refund = shop.capture(reference, 6_000), shop.void(other), shop.refund(at_once, 4_000)
    await stripe.capture(capture)
    await stripe.void(void)
    await stripe.refund(refund)
    double.transactions.append({**double.transactions[0], "id": "txn_x", "type": "payout", "source": "po_1"})
    foreign = {**double.transactions[0]["source"], "metadata": {}}
    double.transactions.append({**double.transactions[0], "id": "txn_y", "source": foreign})
    found = [record async for record in stripe.records(start, start + timedelta(hours=3))]
    assert [(r.idempotency_key, r.captured, r.refunded, r.voided) for r in found] == [
        (paid.idempotency_key, 10_000, 0, False),
        (capture.idempotency_key, 6_000, 0, False),
        (refund.idempotency_key, 0, 4_000, False),
        (void.idempotency_key, 0, 0, True),
    ]
    assert {r.merchant_id for r in found} == {shop.merchant_id}
    assert not any(r.is_unrequested for r in found)
    assert [r.processor_reference for r in found] == [at_once, reference, at_once, other]
    assert [record async for record in stripe.records(start, start)] == []


async def test_what_was_done_on_stripes_own_pages_is_listed_under_keys_that_follow_from_its_ids(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    start = datetime.fromtimestamp(double.now, UTC)
    held, *others = [shop.pay(capture=False) for _ in range(4)]
    captured, voided, expired, failed = [await shop.authorized(**_given(each)) for each in (held, *others)]
    double._receive(double.intents[captured], 10_000)
    double.intents[failed]["latest_charge"]["status"] = "failed"
    ended = (voided, "requested_by_customer"), (expired, "automatic"), (failed, "abandoned")
    for intent, reason in ended:
        double.intents[intent] |= {"status": "canceled", "cancellation_reason": reason}
        double.happen("payment_intent.canceled", double.intents[intent])
    await stripe.refund(shop.refund(captured))
    [refund] = double.refunds.values()
    refund["metadata"] = {}
    found = [record async for record in stripe.records(start, start + timedelta(hours=1))]
    assert held.order_id is not None
    refund_key = f"{unrequested_refund_id(held.order_id, refund['id'])}:{held.payment_id}"
    assert {(r.idempotency_key, r.captured, r.refunded, r.voided) for r in found} == {
        (f"{captured}:capture", 10_000, 0, False),
        (refund_key, 0, 4_000, False),
        (f"{voided}:cancel", 0, 0, True),
    }
    assert [r.captured for r in found if r.is_unrequested] == [10_000]


async def test_a_refund_in_parts_is_listed_with_what_its_call_gives_back(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    issued = await stripe.issue_reference(shop.reference())
    assert isinstance(issued, ReferenceIssued)
    double.balances[_fund(double, issued.processor_reference, 50_000)] = 1_500
    request = _payout(shop, issued.processor_reference, 51_500)
    await stripe.pay_out(request)
    plain = shop.refund(await shop.authorized())
    await stripe.refund(plain)
    *parts, refund = double.refunds.values()
    start = datetime.fromtimestamp(double.now, UTC)
    for ends, is_pending, returned in (
        (("pending", "succeeded"), None, None),
        (("succeeded", "succeeded"), None, None),
        (("failed", "succeeded"), False, parts[1]["amount"]),
    ):
        double.transactions.clear()
        for each, status in zip((*parts, refund), (*ends, "pending"), strict=True):
            each["status"] = status
            double._move("refund", each, each["amount"])
        found = [record async for record in stripe.records(start, start + timedelta(hours=1)) if record.refunded]
        assert {(r.idempotency_key, r.refunded, r.is_pending, r.returned) for r in found} == {
            (request.idempotency_key, 51_500, is_pending, returned),
            (plain.idempotency_key, 4_000, True, None),
        }


async def test_the_lines_of_payouts_are_listed_as_they_are_now(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """An older payout is listed again when it changes; the money of one that was sent back is in a later one."""
    [first, second] = [await shop.authorized() for _ in range(2)]
    await stripe.refund(shop.refund(first))
    start, yesterday = double.now, double.now - 86_400
    double.now = yesterday
    paid_out(double, "po_1", "paid")
    double.now = start
    since, until = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + 60, UTC)
    assert [line async for line in stripe.lines(since, until)] == []
    double.payouts["po_1"]["status"] = "failed"
    double.happen("payout.failed", double.payouts["po_1"])
    double.happen("payout.failed", double.payouts["po_1"])
    found = [line async for line in stripe.lines(since, until)]
    assert sorted(line.processor_reference for line in found) == sorted([first, second])
    assert {(type(line), line.batch_id, line.fee) for line in found} == {(SettlementRefused, "po_1", 36)}
    double._move("payout_failure", double.payouts["po_1"], 9_964)
    other = await shop.authorized()
    paid_out(double, "po_2", "in_transit")

    async def line(batch: str, reference: str, merchant: UUID = shop.merchant_id) -> SettlementLine | None:
        deadline_at = datetime.now(UTC) + timedelta(seconds=10)
        about = {"merchant_id": merchant, "batch_id": batch, "processor_reference": reference}
        return await stripe.look_up_line(LineRequest(**about, deadline_at=deadline_at))

    for reference in (first, other):
        found_line = await line("po_2", reference)
        assert isinstance(found_line, SettlementListed)
        assert (found_line.processor_reference, found_line.batch_id) == (reference, "po_2")
    assert isinstance(await line("po_1", second), SettlementRefused)
    assert await line("po_1", other) is None
    assert await line("po_9", first) is None
    assert await line("po_1", first, uuid4()) is None, "another merchant's"
    with pytest.raises(ProcessorUnavailable):
        await line("po_1/../account", first)


async def test_an_account_is_checked(connections: Connections, double: Double) -> None:
    capabilities = {"card_payments": "active", "oxxo_payments": "inactive", "mx_bank_transfer_payments": "active"}
    double.account = {"id": "acct_1", "object": "account", "country": "MX", "charges_enabled": False}
    double.account["capabilities"] = capabilities
    deadline_at = datetime.now(UTC) + timedelta(seconds=10)
    facts = await check(Transport(connections, double.key), deadline_at)
    assert (facts.account_id, facts.country) == ("acct_1", "MX")
    assert [(offer.type, offer.currencies, offer.installments) for offer in facts.methods] == [
        (MethodType.CARD, ("MXN",), MONTHS),
        (MethodType.CARD, ("USD",), ()),
        (MethodType.SPEI, ("MXN",), ()),
    ]
    assert facts.methods[0].amount_min == Decimal(1_000)
    assert [problem[:20] for problem in facts.problems] == ["The account cannot c", "Stripe has not activ"]
    with pytest.raises(KeyRefused):
        await check(Transport(connections, "sk_test_other"), deadline_at)


async def test_an_account_is_a_processor(stripe: StripeProcessor) -> None:
    processor: Processor = stripe
    assert (processor.alive, processor.capabilities.name, processor.capabilities.can_fence) == (True, "stripe", True)


def _given(request: object) -> dict[str, object]:
    return {name: getattr(request, name) for name in ("idempotency_key", "capture", "order_id", "payment_id")}
