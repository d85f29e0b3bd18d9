"""Data directories with a cluster, without a wait for initdb: a run creates one cluster and copies it.

A test of the very first start must create its own.
"""

import atexit
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.directories import make_directory

from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir


def lay_cluster(data_dir: Path) -> Path:
    """Creates a data directory with an empty cluster that never ran. The server's account must be able to enter it."""
    path = make_data_dir(data_dir)
    subprocess.run(["cp", "-a", _cluster(), path / "pg"], check=True)
    return path


@cache
def _cluster() -> Path:
    path = make_directory()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return open_cluster(make_data_dir(path / "data")).directory
