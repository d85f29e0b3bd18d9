"""Short forms of the programmes that bill a year, and that kill processes during renewals."""

from __future__ import annotations

import asyncio
import sys

import pytest
from tests.subscriptions_kills import kills
from tests.subscriptions_year import year

pytestmark = [pytest.mark.long]


def test_a_merchants_months_are_billed_as_they_were_due(database_url: str) -> None:
    assert asyncio.run(year(database_url, 12, 2)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told of their parent's end by the kernel")
def test_renewals_survive_kills_of_the_api_and_the_worker() -> None:
    assert kills(1, 4, seed=7) == []
