"""The archive of write-ahead log in an object store: what it stores, what it refuses, and what Postgres does meanwhile."""

import subprocess
import threading
from contextlib import contextmanager
from time import monotonic, sleep
from uuid import uuid4

import psycopg
import pytest
from tests.clusters import lay_cluster
from tests.invoicing.s3_server import BUCKET, SECRET, s3

from ledger.backup.fetching import SegmentFetcher
from ledger.doctor import examine
from ledger.postgres.archive_state import FAILING
from ledger.postgres.embedded import archiving
from ledger.postgres.embedded.archiving import SPOOL, archive_settings
from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.server import start
from ledger.postgres.embedded.wal_store import ArchiveFailed, WalStore
from ledger.postgres.embedded.wal_uploader import Uploader
from ledger.settings import CannotRun, Settings, read_settings

__all__ = ["s3"]

URL = f"s3://{BUCKET}/wal"
NAME = "000000010000000000000001"


def until(condition):
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end, "it did not come about within a minute"
        sleep(0.02)


def in_directory(command, directory):
    """Runs a command as Postgres does, on a segment of this directory. Returns its exit status and its errors."""
    filled = command.replace("%p", NAME).replace("%f", NAME).replace("%%", "%")
    done = subprocess.run(["/bin/sh", "-c", filled], cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


@contextmanager
def repeatedly(work):
    """Does something again and again beside the block."""
    ended = threading.Event()

    def run():
        while not ended.wait(0.01):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_segment_is_stored_once_and_another_of_its_name_is_refused(s3):
    store = WalStore(URL)
    assert store.get(NAME) is None
    for _ in range(2):
        store.put(NAME, b"commits")
    assert s3.buckets[BUCKET] == {f"wal/{NAME}": b"commits"}
    assert store.get(NAME) == b"commits"
    with pytest.raises(ArchiveFailed, match=f"another segment {NAME}: give each server a prefix of its own"):
        store.put(NAME, b"other commits")
    assert store.get(NAME) == b"commits"


@pytest.mark.parametrize(
    ("url", "variables", "reason"),
    [
        ("s3://none/wal", {}, "NoSuchBucket.*make the bucket"),
        (URL, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"),
        (URL, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "check that it runs, AWS_ENDPOINT_URL"),
    ],
)
def test_a_store_that_fails_is_named_with_what_to_do_and_without_a_secret(s3, monkeypatch, url, variables, reason):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    store = WalStore(url)
    for call in (lambda: store.put(NAME, b"commits"), lambda: store.get(NAME)):
        with pytest.raises(ArchiveFailed, match=reason) as failure:
            call()
        assert SECRET not in str(failure.value)


@pytest.mark.parametrize("archive", ["ftp://b/wal", f"s3://key:{SECRET}@b/wal", "s3://", f"s3://{SECRET}@b"])
def test_a_malformed_archive_is_one_line_without_a_secret(archive):
    with pytest.raises(CannotRun) as refusal:
        read_settings({"LEDGER_WAL_ARCHIVE": archive})
    assert str(refusal.value).startswith("LEDGER_WAL_ARCHIVE must be a folder, or an address like s3://bucket/prefix")
    assert SECRET not in str(refusal.value)


def test_a_segment_is_handed_over_and_leaves_the_spool_once_it_is_stored(s3, tmp_path, monkeypatch):
    spool = tmp_path / "100% spool"
    spool.mkdir()
    (tmp_path / NAME).write_bytes(b"commits")
    command = archiving._HAND_OVER.format(to=archiving.quoted(spool))
    with repeatedly(Uploader(WalStore(URL), spool).upload):
        assert in_directory(command, tmp_path) == (0, "")
        assert s3.buckets[BUCKET] == {f"wal/{NAME}": b"commits"}
        (tmp_path / NAME).write_bytes(b"other commits")
        status, errors = in_directory(command, tmp_path)
    assert status == 1
    assert "another segment" in errors
    assert list(spool.iterdir()) == []


def test_a_recovery_gets_segments_learns_the_end_and_stops_where_the_store_fails(s3, tmp_path):
    WalStore(URL).put(NAME, b"commits")
    fetcher = SegmentFetcher(URL, tmp_path / "spool", None)
    with repeatedly(fetcher.serve):
        assert in_directory(fetcher.command, tmp_path) == (0, "")
        assert (tmp_path / NAME).read_bytes() == b"commits"
        s3.buckets[BUCKET].clear()
        assert in_directory(fetcher.command, tmp_path)[0] == 1, "the end of the archive"
    s3.buckets.clear()
    failures = []

    def serve():
        try:
            fetcher.serve()
        except ArchiveFailed as failure:
            failures.append(str(failure))

    with repeatedly(serve):
        assert in_directory(fetcher.command, tmp_path)[0] > 125, "no end: the recovery must not go on without it"
    assert "make the bucket" in failures[0]


@pytest.mark.long
def test_postgres_keeps_what_the_store_refuses_and_archives_it_when_the_store_is_back(s3, short_dir):
    data_dir = lay_cluster(short_dir / uuid4().hex[:8])
    settings = archive_settings(Settings(data_dir=data_dir, wal_archive=URL))
    server = start(open_cluster(data_dir), settings=settings)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:

            def archive_one():
                connection.execute("select pg_logical_emit_message(true, 'archive', 'this')")
                return connection.execute("select pg_walfile_name(pg_switch_wal())").fetchone()[0]

            def value(query):
                return connection.execute(query).fetchone()[0]

            first = archive_one()
            until(lambda: f"wal/{first}" in s3.buckets[BUCKET])
            objects = s3.buckets.pop(BUCKET)
            second = archive_one()
            until(lambda: value(FAILING) > 0)
            assert value(f"select count(*) from pg_ls_waldir() where name = '{second}'") == 1
            environ = {"LEDGER_DATA_DIR": str(data_dir), "LEDGER_WAL_ARCHIVE": URL}
            finding = next(each for each in examine(environ) if each.check == "archive")
            assert finding.state == "fail"
            assert "Postgres keeps it: LEDGER_WAL_ARCHIVE s3://" in finding.text
            assert "make the bucket" in finding.text
            assert "make the bucket" in (data_dir / "postgres.log").read_text()
            s3.buckets[BUCKET] = objects
    finally:
        server.stop(60.0)  # a server that shuts down tries once more
    assert f"wal/{second}" in objects
    assert settings[SPOOL]
