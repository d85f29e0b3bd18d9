"""A short crowd on two machines, one of which is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from campaigns.crowd.command import crowd, machine, new_database
from tests import postgres_server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]


async def test_what_clients_do_on_the_same_orders_at_once_leaves_nothing_wrong(short_dir: Path) -> None:
    with postgres_server.running(short_dir / "postgres") as server:
        url = new_database(server)
        with machine(url, short_dir) as one, machine(url, short_dir) as other:
            one.start()
            other.start()
            assert await crowd(one, other, seed=1, seconds=20, clients=6) == []
