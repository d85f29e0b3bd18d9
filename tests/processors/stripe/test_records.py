"""What Stripe's lists show of the ledger's calls, and what a check of an account finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import Double

from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import Processor
from ledger.processors.stripe.account import MONTHS, check
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
    assert [r.processor_reference for r in found] == [at_once, reference, at_once, other]
    assert [record async for record in stripe.records(start, start)] == []


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
    return {name: getattr(request, name) for name in ("idempotency_key", "capture")}
