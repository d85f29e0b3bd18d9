"""The short form of `python -m tests.chaos`: two strikes of each of the two faults that every release has to stand."""

from __future__ import annotations

import sys

import pytest
from tests.chaos.checker import Violation
from tests.chaos.kill_postgres import KILL_POSTGRES
from tests.chaos.kill_service import KILL_SERVICE
from tests.chaos.rounds import Campaign, run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


@pytest.mark.parametrize("campaign", [KILL_SERVICE, KILL_POSTGRES], ids=lambda campaign: campaign.name)
async def test_nothing_acknowledged_is_lost_or_doubled(campaign: Campaign) -> None:
    result = await run(campaign, rounds=2, seed=11, clients=16)
    assert list(result.violations) == list[Violation]()
    assert (result.figures.lost, result.figures.doubled) == (0, 0)
    assert result.figures.acknowledged > 50
