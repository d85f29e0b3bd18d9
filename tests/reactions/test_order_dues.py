"""What falls due on an order is done when the merchant's clock comes to it, and not a moment sooner."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.operations.conftest import an_order, by_card

from ledger.operations.drafts import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.orders import create_order
from ledger.operations.standing import load_order
from ledger.orders.status import PaymentStatus
from ledger.orders.terms import CaptureMethod
from ledger.reactions.clock_hand import ClockHand
from ledger.reactions.registry import HANDLERS, REACTIONS

pytestmark = pytest.mark.anyio


async def test_an_authorisation_that_nobody_captures_lapses_after_seven_days(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(), capture_method=CaptureMethod.MANUAL))
    order_id = receipt.order.terms.order_id
    assert receipt.order.payments[0].status is PaymentStatus.AUTHORIZED
    hand = ClockHand(database_url, ledger, REACTIONS, HANDLERS)
    moved = await hand.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(days=6, hours=23))
    order, _ = await load_order(ledger, merchant.merchant_id, order_id)
    assert (moved.jobs_run, order.payments[0].status) == (0, PaymentStatus.AUTHORIZED)
    moved = await hand.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(hours=2))
    order, _ = await load_order(ledger, merchant.merchant_id, order_id)
    assert (moved.jobs_run, order.payments[0].status) == (1, PaymentStatus.EXPIRED)
    again = await hand.advance(merchant.merchant_id, "advanceBy", lambda now: now + timedelta(days=30))
    assert again.jobs_run == 0
