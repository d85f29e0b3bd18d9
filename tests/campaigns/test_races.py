"""Races for money in short form: `python -m campaigns races` runs hundreds of rounds of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.chaos.installation import Installation
from campaigns.races.money import RACES, RaceService
from campaigns.races.running import two_processes, wrong_in

pytestmark = pytest.mark.anyio

ROUNDS_EACH = [1, pytest.param(4, marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def racing(
    postgres_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, RaceService]]:
    log: Path = tmp_path_factory.mktemp("races") / "log"
    with two_processes(postgres_url, template_database, log) as made:
        yield made


@pytest.mark.parametrize("rounds", ROUNDS_EACH)
@pytest.mark.parametrize("name", RACES)
async def test_no_race_pays_or_refunds_more_than_there_is(
    racing: tuple[Installation, RaceService], name: str, rounds: int
) -> None:
    installation, service = racing
    for number in range(rounds):
        assert await RACES[name](service, f"{name}/{number}") == []
    assert await wrong_in(installation) == []
