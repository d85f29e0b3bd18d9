"""Data directories with a cluster, without a wait for initdb: a run creates one cluster and copies it.

A test of the very first start must create its own.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.directories import make_directory

from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir

_PLACE = "LEDGER_TEST_CLUSTER"
"""The directory of the cluster that all processes of a run copy. `share_cluster` sets it."""


def lay_cluster(data_dir: Path) -> Path:
    """Creates a data directory with an empty cluster that never ran. The server's account must be able to enter it."""
    path = make_data_dir(data_dir)
    subprocess.run(["cp", "-a", _cluster(), path / "pg"], check=True)
    return path


def share_cluster() -> None:
    """Lets the processes that this one starts from now on copy its cluster. It is removed at the end of this one."""
    os.environ.setdefault(_PLACE, str(_place()))


@cache
def _place() -> Path:
    if given := os.environ.get(_PLACE):
        return Path(given)
    path = make_directory()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def _cluster() -> Path:
    """Creates the cluster if no other process of the run has."""
    with (_place() / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return open_cluster(make_data_dir(_place() / "data")).directory
