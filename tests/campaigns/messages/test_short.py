"""A short form of the campaign of messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.messages.campaign import Plan, run

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_messages_in_disorder_change_no_orders_end(tmp_path: Path) -> None:
    result = await run(Plan(orders=22, seed=7, answer_s=0.6, late_s=1.2), tmp_path)
    assert result.violations == []
    assert result.lost > 0
    assert result.fetched > 0
    assert result.states == {
        "paid": "COMPLETED",
        "captured there": "PARTIALLY_PAID",
        "cancelled there": "FAILED",
        "authenticated": "COMPLETED",
        "refused": "FAILED",
        "transfer": "COMPLETED",
        "cash": "COMPLETED",
        "refunded there": "PARTIALLY_REFUNDED",
        "transfer back": "PARTIALLY_REFUNDED",
        "dispute lost": "REFUNDED",
        "dispute won": "COMPLETED",
    }
