"""A cluster with Citus for these tests, which are skipped where it was not built: `make citus` builds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster
from tests import citus_server
from tests.databases import DistributedDatabases
from tests.sealing import MASTER_KEY

from ledger.operations.context.ledger import Ledger
from ledger.postgres.prepare import prepare
from ledger.settings import Settings
from ledger.wiring import open_ledger


@pytest.fixture(scope="session")
def cluster(short_dir: Path) -> Iterator[CitusCluster]:
    """A coordinator and two workers."""
    if built() is None:
        pytest.skip("Citus was not built here: make citus")
    with citus_server.running(short_dir / "nodes") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def distributed(cluster: CitusCluster) -> Iterator[DistributedDatabases]:
    """Distributed databases, which tests borrow."""
    with citus_server.lending(cluster) as databases:
        yield databases


@pytest.fixture
def distributed_url(distributed: DistributedDatabases) -> Iterator[str]:
    """The coordinator's connection string of a distributed database with the current schema, for one test."""
    with distributed.lent() as url:
        yield url


@pytest.fixture
async def settings(distributed_url: str) -> Settings:
    """The settings of a service under the application's role, which Citus has created on every node."""
    settings = Settings(database_url=distributed_url, master_key=MASTER_KEY, sandbox_deadline_s=5.0)
    ready = await asyncio.to_thread(prepare, settings, distributed_url)
    assert ready.database_url != distributed_url
    return ready


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    async with open_ledger(settings) as ledger:
        yield ledger
