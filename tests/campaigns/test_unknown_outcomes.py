"""A short campaign, and a comparison that finds every kind of difference."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from campaigns.chaos.evidence import gather
from campaigns.chaos.running import environ
from campaigns.fake_processor.modes import Line, Mode
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.unknown_outcomes.campaign import Plan, pay, run
from campaigns.unknown_outcomes.comparison import compare
from campaigns.unknown_outcomes.disturbances import KINDS, Disturbances, can_move_the_clock

pytestmark = pytest.mark.anyio


@pytest.mark.long
async def test_the_processor_and_the_ledger_agree_on_every_amount(short_dir: Path):
    home = short_dir / "unknown"
    home.mkdir()
    result = await run(Plan(payments=120, seed=3, trouble=0.4, clients=12, kill_every_s=2.5), home)
    assert list(result.verdict.violations) == []
    assert result.verdict.totals.unknown > 0
    assert result.kills > 0
    assert result.verdict.totals.refunded > 0
    assert result.verdict.totals.voided > 0


@pytest.mark.long
async def test_the_processor_and_the_ledger_agree_after_processes_were_disturbed(short_dir: Path):
    """Processes are stopped or cut off for longer than the recovery waits, or their clock is moved, and then go on."""
    home = short_dir / "disturbed"
    home.mkdir()
    kinds = KINDS if can_move_the_clock() else tuple(kind for kind in KINDS if kind != "clock")
    disturbances = Disturbances(every_s=0.3, max_s=10.0, clock_max_s=15, kinds=kinds)
    result = await run(Plan(payments=100, seed=5, clients=24, kill_every_s=None, disturbances=disturbances), home)
    assert list(result.verdict.violations) == []
    assert result.disturbances


async def test_the_comparison_finds_every_difference(short_dir: Path):
    home = short_dir / "compared"
    home.mkdir()
    record = home / "processor.jsonl"
    with (
        fake_processor(record, home / "log", environ({})) as fake,
        FakedService(fake.wait_port(), workers=1) as service,
    ):
        service.start()
        await pay(
            service, service.merchant("Compared"), Plan(payments=20, clients=2, seed=1, trouble=0, kill_every_s=None)
        )
        with service.database() as url:
            evidence = await gather(url)
    lines = read(record)
    assert list(compare(lines, evidence).violations) == []
    paid = next(line for line in lines if line.captured)
    others = [line for line in lines if line is not paid]
    refund = next(line for line in lines if line.refunded)
    without_refund = [line for line in lines if line is not refund]
    void = next(line for line in lines if line.kind == "VOID" and line.applied)
    without_void = [line for line in lines if line is not void]
    dearer = msgspec.structs.replace(paid, captured=paid.captured + 1)
    unannounced = Line(kind="AUTHORIZE", merchant_id=paid.merchant_id, key="unannounced", mode=Mode.OK)
    for wrong, violation in (
        ([*lines, paid], "took effect 2 times"),
        ([*others, dearer], "the ledger has"),
        (others, "the processor captured 0"),
        (without_refund, "the processor refunded 0"),
        (without_void, "voided nothing"),
        ([*lines, unannounced], "is in no order"),
        ([*lines, msgspec.structs.replace(paid, mode=Mode.OK, captured=Decimal(0), applied=False)], "was sent 2 times"),
    ):
        violations = compare(wrong, evidence).violations
        assert any(violation in found for found in violations), (violation, violations)
