"""A disk that is full under the whole data directory: the service stays, says so once, and is back when there is room."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from campaigns.chaos.full_disk import fill
from tests.clusters import lay_cluster
from tests.service.trees import Running, eventually, is_alive

from ledger.postgres.embedded import cluster
from ledger.postgres.embedded.server import url_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux mounts a small disk"),
]


@pytest.fixture
def disk(short_dir):
    """A small file system in memory."""
    place = short_dir / uuid4().hex[:8]
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128m,mode=0711", "tmpfs", str(place)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


class Reports:
    """What a service has written to its standard error, read while it runs."""

    def __init__(self, service):
        self._descriptor = service.process.stderr.fileno()
        os.set_blocking(self._descriptor, False)
        self._text = b""

    def lines(self):
        with suppress(BlockingIOError):
            while piece := os.read(self._descriptor, 65536):
                self._text += piece
        return self._text.decode().splitlines()

    def of_a_failed_start(self):
        return [line for line in self.lines() if line.startswith("ledger: Postgres does not start: ")]


def use_up_the_log(url):
    """Has Postgres begin another segment of its write-ahead log, for which a full disk has no room."""
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True, connect_timeout=2) as connection:
        # A message needs room in the log alone; a row of a table would need a page, for which there is none either.
        connection.execute("select pg_logical_emit_message(true, 'full', 'disk')")
        connection.execute("select pg_switch_wal()")


def test_a_full_disk_does_not_end_the_service_which_is_back_when_there_is_room(disk):
    data_dir = lay_cluster(disk / "data")
    with Running(data_dir) as service:
        before = service.ready().count()
        reports, postmaster = Reports(service), service.postmaster()
        url = url_of(cluster.open_cluster(data_dir))
        filler = fill(disk)

        eventually(lambda: use_up_the_log(url) or not is_alive(postmaster), 60)
        eventually(lambda: use_up_the_log(url) or reports.of_a_failed_start(), 60)
        assert service.count() is None
        assert service.get("/").status_code == 200, "the API processes are there"
        assert service.process.poll() is None

        filler.unlink()
        assert eventually(service.count, 60) > before, "every acknowledged row is kept"
        assert len(reports.of_a_failed_start()) == 1, "it is reported once, not for each attempt"
        eventually(lambda: reports.lines()[-1] == "ledger: Postgres is back")
        service.send(signal.SIGTERM)
        assert service.process.wait(30) == 0
