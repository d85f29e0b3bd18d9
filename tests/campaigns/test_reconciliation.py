"""The short form of the programme that plants differences and counts those that the comparison finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from campaigns.reconciliation import days, sandbox, stripe
from campaigns.reconciliation.planting import Figures


def test_clean_days_have_no_difference_and_each_planted_one_is_found() -> None:
    random = Random(20_261_126)
    assert days.clean_days(10, random) == 0
    assert days.planted(5, random) == dict.fromkeys(days.PLANTED, (5, 0))


@pytest.mark.long
def test_the_sandbox_is_compared(database_url: str) -> None:
    figures, others = asyncio.run(sandbox.run(database_url, 2))
    assert figures == {
        name: Figures(planted=2, found=2, repaired=2 if name in sandbox.REPAIRED else 0) for name in figures
    }
    assert (len(figures), others) == (10, 0)


@pytest.mark.long
def test_an_account_at_stripe_is_compared(database_url: str, tmp_path: Path) -> None:
    figures, others = asyncio.run(stripe.run(database_url, 2, tmp_path))
    missed = {name: each for name, each in figures.items() if each.found != each.planted or not each.planted}
    assert (missed, others) == ({}, 0)
    assert {name for name, each in figures.items() if each.repaired == each.planted} >= set(stripe.REPAIRED)
