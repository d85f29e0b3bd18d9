"""A backup of a service under load, restored elsewhere: nothing that was acknowledged before its end is missing."""

import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from uuid import uuid4

import psycopg
import pytest
from tests.cli.test_cli import ledger
from tests.docs.pages import ROOT
from tests.invoicing.s3_server import BUCKET, s3
from tests.service.trees import environment

from ledger.backup.restoration import restore
from ledger.journal.operator import Operator
from ledger.postgres.embedded.cluster import locate_cluster, open_cluster
from ledger.postgres.embedded.server import start, url_of
from ledger.settings import CannotRun, Settings

__all__ = ["s3"]


class Serving:
    """`ledger serve` on a port of its own, and the key of a merchant in it."""

    def __init__(self, data_dir, **settings):
        self._settings = {"LEDGER_DATA_DIR": str(data_dir), "LEDGER_PORT": "0"} | UNLIMITED | settings
        self.data_dir, self.url = data_dir, ""

    def __enter__(self):
        program = [sys.executable, "-P", "-c", "from ledger.cli.main import main; main()", "serve"]
        self._process = subprocess.Popen(
            program, env=environment(**self._settings), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self._process.stdout.readline().split()[-1]
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate(timeout=60)

    def run(self, *arguments):
        """Returns what a command prints in JSON."""
        done = ledger(*arguments, "--json", **self._settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


UNLIMITED = {"LEDGER_REQUESTS_PER_MINUTE": "0", "LEDGER_REQUESTS_PER_SECOND": "0"}


class Client:
    """A merchant's program that creates one paid order after the other, and keeps when each was acknowledged."""

    def __init__(self, service, key):
        self._orders = f"{service.url}/api/v2/payment-orders"
        self._key = key
        self._order = json.loads((ROOT / "seeds" / "first_order.json").read_text())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = []  # (when, id, number)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)

    def create(self):
        body = json.dumps(self._order | {"externalId": str(uuid4())}).encode()
        headers = {"x-api-key": self._key, "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self._orders, body, headers), timeout=60) as answer:
            order = json.load(answer)
        self.acknowledged.append((datetime.now(UTC), order["id"], order["orderNumber"]))

    def _run(self):
        while not self._stop.is_set():
            with suppress(urllib.error.HTTPError):  # a busy service may answer 503
                self.create()


def until(condition):
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end, "it did not come about within a minute"
        sleep(0.02)


def archive_all(data_dir):
    """Has the server archive everything that is written, and waits for it."""
    with psycopg.connect(url_of(locate_cluster(data_dir)), autocommit=True) as connection:
        ((segment,),) = connection.execute("select pg_walfile_name(pg_switch_wal())").fetchall()
        archived = "select last_archived_wal >= %s from pg_stat_archiver"
        until(lambda: connection.execute(archived, (segment,)).fetchone() == (True,))


@pytest.fixture
def place(short_dir):
    path = short_dir / uuid4().hex[:8]
    path.mkdir(mode=0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def orders_of(settings):
    """Returns the ids of the orders in a restored data directory."""
    server = start(open_cluster(settings.data_dir))
    try:
        with psycopg.connect(server.url) as connection:
            return {str(order_id) for (order_id,) in connection.execute("select order_id from payment_order")}
    finally:
        server.stop()


@pytest.fixture(params=["folder", "store"])
def archive(request, place):
    """Where the log is archived: a folder, or a bucket of an object store."""
    if request.param == "store":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/wal"
    return str(place / "wal")


@pytest.mark.long
def test_what_was_acknowledged_before_the_backups_end_is_restored_elsewhere_and_to_a_moment_exactly(place, archive):
    backup = place / "backup"
    with Serving(place / "data", LEDGER_WAL_ARCHIVE=archive) as service:
        api_key = service.run("merchants", "create", "Shop")["apiKey"]
        with Client(service, api_key) as client:
            until(lambda: len(client.acknowledged) >= 5)
            taken = service.run("backup", backup)
            behind = len(client.acknowledged)
            until(lambda: len(client.acknowledged) >= behind + 5)
        moment = datetime.now(UTC)
        at_moment = {order_id for _, order_id, _ in client.acknowledged}
        sleep(0.05)
        client.create()
        client.create()
        archive_all(service.data_dir)
    end = datetime.fromisoformat(taken["completeUntil"])
    before_end = {order_id for when, order_id, _ in client.acknowledged if when < end}
    assert before_end < at_moment

    key = {"master_key_file": place / "data" / "master.key"}
    there = Settings(data_dir=place / "there", **key)
    restored = restore(there, backup, None, operator=Operator(name="ana", command="restore"))
    assert restored.audit.violations == []
    assert restored.audit.events > len(before_end)

    then = Settings(data_dir=place / "then", wal_archive=archive, **key)
    assert restore(then, backup, moment).audit.violations == []
    everything = {order_id for _, order_id, _ in client.acknowledged}
    assert orders_of(then) & everything == at_moment

    late = Settings(data_dir=place / "late", wal_archive=archive, **key)
    with pytest.raises(CannotRun, match="the archived log ends before"):
        restore(late, backup, datetime.now(UTC) + timedelta(days=1))
    assert not (late.data_dir / "restoring").exists()

    with pytest.raises(CannotRun, match="already has a database"):
        restore(there, backup, None)

    issued = {number for _, _, number in client.acknowledged}
    with Serving(there.data_dir, LEDGER_MASTER_KEY_FILE=str(key["master_key_file"])) as service:
        with psycopg.connect(url_of(locate_cluster(there.data_dir))) as connection:
            found = {str(order_id) for (order_id,) in connection.execute("select order_id from payment_order")}
            recorded = connection.execute("select operator, command, subject from operator_command").fetchall()
        assert before_end <= found
        assert recorded == [("ana", "restore", str(backup))]
        again = Client(service, api_key)
        again.create()
        assert not issued & {number for _, _, number in again.acknowledged}
