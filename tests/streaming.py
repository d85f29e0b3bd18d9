"""A primary and a standby that streams its write-ahead log, both real servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.clusters import lay_cluster

from ledger.postgres.embedded import cluster, server
from ledger.postgres.embedded.server import EmbeddedServer

# The primary keeps its log for a standby that a test has stopped: nothing else would let it follow again.
SETTINGS = {"shared_buffers": "32MB", "wal_init_zero": "off", "wal_keep_size": "256MB"}


@contextmanager
def running_primary(home: Path) -> Iterator[EmbeddedServer]:
    """A new server whose data are in `home`, until the block ends."""
    running = server.start(cluster.open_cluster(lay_cluster(home)), settings=SETTINGS)
    try:
        yield running
    finally:
        running.stop(at_once=True)


def wait_until(connection: psycopg.Connection, query: str, value: object) -> None:
    """Returns once a query answers with this value."""
    until = time.monotonic() + 30
    while connection.execute(query).fetchone() != (value,):  # type: ignore[arg-type]
        assert time.monotonic() < until, query
        time.sleep(0.02)
