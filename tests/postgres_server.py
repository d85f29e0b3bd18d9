"""The Postgres of the tests: the embedded one, another major version as Debian packages it, or a given server.

Fail if the requested version is missing. With another version instead, tests would pass on a version that they never
ran on.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import lay_cluster

from ledger.postgres.embedded import cluster, server
from ledger.postgres.embedded.account import as_account, server_account
from ledger.postgres.embedded.cluster import SUPERUSER, Cluster
from ledger.postgres.embedded.ownership import own_directory

# A session ends before its server writes over a file of its log. Each new file would be written twice, first with zeros.
# Its databases are small: every page of a large cache would be a new page of memory, and every drop would search it.
_SETTINGS = {"max_connections": "400", "wal_init_zero": "off", "shared_buffers": "64MB"}


@contextmanager
def running(home: Path) -> Iterator[str]:
    """Yields the owner's connection string of a server that runs as long as the block.

    LEDGER_TEST_DATABASE_URL names a server that already runs, LEDGER_TEST_POSTGRES a major version under
    /usr/lib/postgresql; without either, it is the embedded one. It runs with fsync on, so that commits behave as in an
    installation.
    """
    if given := os.environ.get("LEDGER_TEST_DATABASE_URL"):
        yield given
        return
    major = os.environ.get("LEDGER_TEST_POSTGRES") or cluster.MAJOR
    settings: dict[str, str] = {}
    if major == cluster.MAJOR:
        made = cluster.open_cluster(lay_cluster(home))
    else:
        made = packaged(major, home)
        # The map of the embedded server lets a user be any role, which PostgreSQL 15 does not know.
        settings = {"hba_file": str(trusting(home))}
    running = server.start(made, settings=_SETTINGS | settings)
    try:
        yield running.url
    finally:
        running.stop(at_once=True)  # nothing reads the cluster again: a last checkpoint would write it whole


def packaged(major: str, home: Path) -> Cluster:
    """Creates a cluster in `home` with Debian's programs of that major version, for the account of the embedded one."""
    binaries = Path("/usr/lib/postgresql") / major / "bin"
    assert (binaries / "initdb").exists(), f"there is no PostgreSQL {major}: apt-get install postgresql-{major}"
    account = server_account()
    home.mkdir()
    sockets = home / "run"
    for place in (home, sockets):
        own_directory(place, account)
    made = Cluster(binaries=binaries, home=home, log=home / "postgres.log", sockets=sockets, account=account)
    initdb = [binaries / "initdb", f"--pgdata={made.directory}", f"--username={SUPERUSER}", "--auth=trust"]
    options = ["--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run([*initdb, *options], check=True, capture_output=True, **as_account(account))
    return made


def trusting(home: Path) -> Path:
    """Writes rules by which every user is any role. Only the account can enter the directory of the socket."""
    path = home / "pg_hba.conf"
    path.write_text("local all all trust\n")
    path.chmod(0o644)
    return path
