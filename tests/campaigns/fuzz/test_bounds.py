"""Clients without a key fill every bound of an API process at once: its memory stays bounded, and it goes on."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import httpx
import pytest
from campaigns.fuzz import bounds
from campaigns.fuzz.bounds import HELD, RESIDENT_MAX, Process

ROOT = Path(__file__).parents[3]


def test_the_page_lists_everything_that_is_filled():
    page = (ROOT / "docs/explanation/connections.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    filled = {name.strip() for row in rows if len(row) == 7 for name in row[4].split(",")}
    assert bounds.FILLS.keys() - {"all at once"} <= filled
    named = [test for row in rows if len(row) == 7 for test in re.findall(r"`(\w+): (\w+)`", row[5])]
    assert len(named) >= len(bounds.FILLS)
    assert [test for test in named if not _is_there(*test)] == []


def _is_there(module: str, name: str) -> bool:
    """Returns whether a module has a test whose name begins so."""
    return any(f"def {name}" in path.read_text() for path in ROOT.glob(f"tests/**/{module}.py"))


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process in /proc")
def test_all_bounds_at_once_leave_a_process_below_400_megabytes():
    async def fill_all(process: Process) -> None:
        await bounds.send_labels(process)
        await bounds.send_wrong_keys(process)
        await bounds.fill(process, HELD)

    with bounds.service() as service:
        process = Process(service.start())
        asyncio.run(fill_all(process))
        assert 0 < process.memory("VmHWM") < RESIDENT_MAX
        assert service.api_processes() == [process.pid]
        assert httpx.get(f"http://127.0.0.1:{service.port}/health/live", timeout=60).status_code == 200
