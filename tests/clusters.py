"""A data directory with a cluster in it, without waiting for initdb: one is made in a run, and copied as often as it is wanted.

The rule a stranger would break: a test about the first start of all makes its own.
"""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir


def lay_cluster(data_dir: Path) -> Path:
    """The data directory, made, with an empty cluster that has never run. The server's account must be able to enter it."""
    place = make_data_dir(data_dir)
    subprocess.run(["cp", "-a", _made_once(), place / "pg"], check=True)
    return place


@cache
def _made_once() -> Path:
    place = Path(tempfile.mkdtemp(prefix="ledger-", dir="/tmp"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o711)
    return open_cluster(make_data_dir(place / "data")).directory
