"""`python -m campaigns wrong-requests [--requests N] [--seed S]`: wrong requests of every kind to every operation, over HTTP.

It exits 1 unless each is answered with a 4xx that names every wrong field, and the database is as it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import structlog
from tests import postgres_server
from tests.api.isolation.objects import objects_of
from tests.api.storefront import opened
from tests.databases import Databases
from tests.sealing import MASTER_KEY
from tests.serving import served

from campaigns.races.command import template_of
from campaigns.wrong_requests.campaign import Outcome, campaign
from ledger.settings import Settings

_SHOWN: int = 40


async def run(url: str, data_dir: Path, count: int, seed: int) -> Outcome:
    """Sends so many wrong requests to a service on the loopback, and returns what was found."""
    settings = Settings(
        database_url=url, database_vault_url=url, data_dir=data_dir, master_key=MASTER_KEY, body_limit=256 << 10
    )
    async with (
        opened(settings) as store,
        served(settings) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        merchant = await store.register()
        own = await objects_of(merchant, "mine")
        merchant.client = client
        return await campaign(merchant, own, url, count=count, seed=seed)


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns wrong-requests", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="how many requests to send (2000)")
    parser.add_argument("--seed", type=int, default=1, help="from which the requests are made (1)")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="ledger-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as server:
            databases = Databases(server, template_of(server))
            with databases.lent() as url:
                outcome = asyncio.run(run(url, home, options.requests, options.seed))
            databases.drop()
    for each in outcome.wrong[:_SHOWN]:
        sys.stdout.write(f"WRONG {each}\n")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.sent.items()))
    sys.stdout.write(f"{outcome.sent.total():,} requests ({kinds}); {len(outcome.wrong)} wrong\n")
    return 1 if outcome.wrong else 0
