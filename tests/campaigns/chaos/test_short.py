"""The short form of `python -m campaigns chaos`: a strike or a few of the faults that every change has to survive.

It is a part of `make test-long`. At every change, `tests/crash` and `tests/service` kill single processes, and
`tests/journal` and `tests/postgres` cut and stop single connections. Only the programme itself exhausts pools and fills
the disk under the log.
"""

from __future__ import annotations

import sys

import pytest
from campaigns.chaos.checker import Violation
from campaigns.chaos.cut_commits import CUT_COMMITS
from campaigns.chaos.freeze import FREEZE
from campaigns.chaos.full_disk import FULL_DATA, can_mount
from campaigns.chaos.kill_postgres import KILL_POSTGRES
from campaigns.chaos.kill_service import KILL_SERVICE
from campaigns.chaos.rounds import Campaign, run
from campaigns.chaos.stop_service import STOP_SERVICE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


@pytest.mark.parametrize(
    ("campaign", "rounds"),
    [
        (KILL_SERVICE, 4),
        (CUT_COMMITS, 1),
        (FREEZE, 2),
        (KILL_POSTGRES, 3),
        (STOP_SERVICE, 2),
        (FULL_DATA, 1),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_nothing_acknowledged_is_lost_or_doubled(campaign: Campaign, rounds: int) -> None:
    if campaign is FULL_DATA and not can_mount():
        pytest.skip("nothing can be mounted here, so no disk can be filled")
    for seed in (11, 12, 13):  # on a busy machine a strike may hit nothing, and proves nothing then
        result = await run(campaign, rounds=rounds, seed=seed, clients=16)
        missed = [violation for violation in result.violations if violation.rule == "reach"]
        assert [violation for violation in result.violations if violation not in missed] == list[Violation]()
        if len(missed) < rounds:
            break
    assert len(missed) < rounds
    assert (result.figures.lost, result.figures.doubled) == (0, 0)
    assert result.figures.acknowledged > 20
    assert result.figures.about_cards > 0
