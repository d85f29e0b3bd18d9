"""A cluster with Citus for these tests, which are skipped where it was not built: `make citus` builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster
from tests import citus_server
from tests.databases import DistributedDatabases


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
