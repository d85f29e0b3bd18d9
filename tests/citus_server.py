"""A cluster with Citus, and distributed databases on it.

The suite runs on it if LEDGER_TEST_CITUS is set, without the tests that are marked by `ON_ONE_SERVER`; the tests of `tests/citus` always do, where Citus was built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster
from tests.databases import DistributedDatabases

from ledger.postgres.distribution import distribute
from ledger.postgres.migrate import migrate

SHARDS: Final = 4
"""Of each table in the tests: two on each worker."""

ON_ONE_SERVER: Final = pytest.mark.skipif(
    bool(os.environ.get("LEDGER_TEST_CITUS")),
    reason="it cuts or holds the connection of the writer of one server: tests/citus/test_shard_writers.py does so on nodes",
)
"""Marks tests that do not run on Citus."""


@contextmanager
def running(home: Path) -> Iterator[CitusCluster]:
    """Yields a cluster that runs as long as the block. `home` must not exist."""
    binaries = built()
    assert binaries is not None, "Citus was not built here: make citus"
    home.mkdir()
    home.chmod(0o711)
    with CitusCluster(home, binaries) as cluster:
        yield cluster


@contextmanager
def lending(cluster: CitusCluster) -> Iterator[DistributedDatabases]:
    """Yields distributed databases of a cluster, which tests borrow."""
    template = f"template_{uuid4().hex}"
    url = cluster.create_database(template)
    migrate(url)
    distribute(url, SHARDS)
    cluster.close_database(template)
    lent = DistributedDatabases(cluster, template)
    yield lent
    lent.drop()
