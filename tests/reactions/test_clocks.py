"""A clock that was moved shows it to every process, however lately that one had looked."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.reactions.conftest import Open

from ledger.operations import clocks
from ledger.operations.drafts import Actor
from ledger.operations.ledger import Ledger
from ledger.reactions import clock_hand
from ledger.reactions.clock_hand import ClockHand

pytestmark = pytest.mark.anyio


def a_day_later(now: datetime) -> datetime:
    return now + timedelta(days=1)


async def test_the_first_move_waits_until_nobody_can_believe_in_real_time_any_more(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (clocks, clock_hand):
        monkeypatch.setattr(module, "BELIEVED_S", 3.0)  # longer than a move takes by itself, on any machine
    other, hand = await open_another(), ClockHand(database_url, ledger, (), {})
    await other.clock.look(merchant.merchant_id)
    moved = await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.look(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    moved = await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.look(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    restarted = await open_another()
    await restarted.clock.look(merchant.merchant_id)
    assert restarted.clock.now(merchant.merchant_id) >= moved.now
