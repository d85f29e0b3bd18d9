"""A cluster with Citus, and distributed databases on it.

The suite runs on it if LEDGER_TEST_CITUS is set; the tests of `tests/citus` always do, where Citus was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster
from tests.databases import DistributedDatabases

from ledger.postgres.distribution import distribute
from ledger.postgres.migrate import migrate

SHARDS: Final = 4
"""Of each table in the tests: two on each worker."""


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
