"""The consumer of the how-to, killed again and again while it follows the feed."""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
import time
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.error import HTTPError

from campaigns.chaos.running import ROOT

PROGRAM: Final = ROOT / "docs/how-to/feed_totals.py"
_RUNS_S: Final = (0.15, 0.6)


async def follow_and_kill(address: str, key: str, database: Path, times: int, random: Random) -> None:
    """Starts the consumer and kills it, so many times."""
    environment = os.environ | {"LEDGER_API_KEY": key}
    for _ in range(times):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            address,
            str(database),
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(random.uniform(*_RUNS_S)):
                await process.wait()  # it ends by itself while the service is away
        except TimeoutError:
            process.kill()
        await process.wait()


def totals(address: str, key: str, database: Path) -> Mapping[str, Decimal]:
    """Lets the consumer read to the end of the feed, and returns what it makes of all of it."""
    program: dict[str, Any] = runpy.run_path(str(PROGRAM))
    connection, fetch = program["opened"](str(database)), program["fetch_from"](address, key)
    try:
        has_more = True
        while has_more:
            try:
                has_more = program["consume"](connection, fetch, wait_s=0)
            except HTTPError as refused:
                if refused.code != HTTPStatus.SERVICE_UNAVAILABLE:  # the last kill may be a moment ago
                    raise
                time.sleep(1)
        found: Mapping[str, Decimal] = program["totals"](connection)
    finally:
        connection.close()
    return found
