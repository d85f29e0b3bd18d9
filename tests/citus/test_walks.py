"""Random walks of merchants on a distributed database, as `python -m campaigns walker --citus` has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.walker.command import Walked, findings, service_to_walk_on, walk_seeds

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_nothing_is_wrong_after_walks(distributed_url: str, short_dir: Path) -> None:
    walks: list[Walked] = []
    with service_to_walk_on(distributed_url, short_dir / "walked-files") as service:
        await walk_seeds(service.start(), 1, 3, 300, walks.append)
    assert [findings(each) for each in walks] == [[], [], []]
