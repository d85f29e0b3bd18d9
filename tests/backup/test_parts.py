"""The parts of a backup and a restore: what each refuses, and what each leaves behind."""

import fcntl
import hashlib
import json
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from ledger.backup import base_backup, manifest, restoration
from ledger.backup.base_backup import Taken, take_backup
from ledger.backup.record import BackupRecord, read_record, write_record
from ledger.cli.service import backup
from ledger.operations.context.order_numbers import move_on
from ledger.postgres.embedded.archiving import archive_settings
from ledger.security.secrets import load_secrets
from ledger.settings import CannotRun, Settings

KEY = "5e" * 32
END = datetime(2026, 11, 23, tzinfo=UTC)


def record(**given):
    fingerprint = load_secrets(Settings(master_key=KEY)).fingerprint
    values = {
        "postgres": "18", "database": "postgres", "owner": "ledger", "options": None,
        "master_key_fingerprint": fingerprint, "complete_until": END, "bytes": 1,
    }  # fmt: skip
    return BackupRecord(**values | given)


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A base backup of two files and no log, which only the checks of the manifest read."""
    monkeypatch.setattr(manifest, "has_programs", lambda *_: False)
    (tmp_path / "base").mkdir()
    listed = []
    for name in ("PG_VERSION", "base/1"):
        (tmp_path / name).write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        listed.append({"Path": name, "Size": len(name), "Checksum-Algorithm": "SHA256", "Checksum": digest})
    head = f'{{ "PostgreSQL-Backup-Manifest-Version": 2,\n"Files": {json.dumps(listed)},\n"WAL-Ranges": [],\n'.encode()
    own = hashlib.sha256(head).hexdigest().encode()
    (tmp_path / "backup_manifest").write_bytes(head + b'"Manifest-Checksum": "' + own + b'"}\n')
    return tmp_path


def test_a_backup_that_is_as_it_was_sent_passes(base):
    (base / "pg_wal").mkdir()
    (base / "pg_wal" / "000000010000000000000001").touch()
    manifest.check_backup(base, "18")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda base: (base / "base/1").write_text("base/2"), "base/1 has been changed"),
        (lambda base: (base / "base/1").write_text("base"), "base/1 has 4 bytes, not 6"),
        (lambda base: (base / "base/1").unlink(), "base/1 cannot be read: No such file"),
        (lambda base: (base / "base/2").touch(), "base/2 is not in its manifest"),
        (lambda base: _replace(base / "backup_manifest", "base/1", "base/3"), "another checksum than it records"),
        (lambda base: (base / "backup_manifest").write_text("{"), "is no manifest"),
    ],
)
def test_a_backup_that_was_changed_is_refused(base, damage, reason):
    damage(base)
    with pytest.raises(CannotRun, match=reason):
        manifest.check_backup(base, "18")


def _replace(file, old, new):
    file.write_text(file.read_text().replace(old, new))


def test_a_directory_in_use_takes_no_backup(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(CannotRun, match="is not empty"):
        take_backup(Settings(), "host=/nowhere", tmp_path)


def test_a_backup_that_fails_leaves_its_name_free(tmp_path):
    settings = Settings(data_dir=tmp_path / "data", database_url="host=/nowhere")
    (tmp_path / "data" / "checkpoints").mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            take_backup(settings, "host=/nowhere", tmp_path / "new")
        assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(psycopg.OperationalError):
        take_backup(settings, "host=/nowhere", tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_what_a_killed_backup_has_left_is_removed_unless_it_is_still_written(tmp_path):
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").touch()
    (tmp_path / "unfinished").touch()
    with (tmp_path / "unfinished").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CannotRun, match="another backup is written to"):
            take_backup(Settings(), "host=/nowhere", tmp_path)
    assert (tmp_path / "pg" / "PG_VERSION").exists()
    write_record(tmp_path, record())
    with pytest.raises(CannotRun, match="is not empty"):  # it was killed at its very end
        take_backup(Settings(), "host=/nowhere", tmp_path)
    assert (tmp_path / "pg" / "PG_VERSION").exists()
    (tmp_path / "backup.json").unlink()
    with pytest.raises(psycopg.OperationalError):
        take_backup(Settings(), "host=/nowhere", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
def _log_as_it_is(monkeypatch):
    """A command that runs in this process would silence the log of all tests after it."""
    monkeypatch.setattr("ledger.telemetry.logs.configure_logs", lambda *_: None)


def test_the_command_names_the_archived_files_that_are_lost(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LEDGER_DATABASE_URL", "host=/nowhere user=owner")
    monkeypatch.setenv("LEDGER_MASTER_KEY", KEY)
    lost = [f"archive/a/{n}.jsonl cannot be read: No such file or directory" for n in range(6)]
    monkeypatch.setattr(base_backup, "take_backup", lambda *_: Taken(record=record(), archived=9, lost=lost))
    with pytest.raises(CannotRun) as refusal:
        backup(tmp_path / "backup", data_dir=tmp_path / "data")
    named = "; ".join(lost[:5])
    assert str(refusal.value).startswith(
        f"6 of 9 files of archived events are not in the backup as they were written: {named}; …. Bring them back"
    )
    assert "backed up to" in capsys.readouterr().out, "all else is in it"


def test_a_data_directory_without_a_database_is_no_cause_to_make_one(tmp_path, monkeypatch):
    """Its name is mistyped."""
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    with pytest.raises(CannotRun, match="typo has no database to back up: name the service's data directory"):
        backup(tmp_path / "backup", data_dir=tmp_path / "typo")
    assert not list(tmp_path.iterdir())


def test_a_record_is_read_as_it_was_written_and_its_absence_is_an_unfinished_backup(tmp_path):
    with pytest.raises(CannotRun, match="no complete backup"):
        read_record(tmp_path)
    write_record(tmp_path, record())
    assert read_record(tmp_path) == record()
    assert stat.S_IMODE((tmp_path / "backup.json").stat().st_mode) == 0o600
    write_record(tmp_path, record(format=2))
    with pytest.raises(CannotRun, match="format 2"):
        read_record(tmp_path)
    (tmp_path / "backup.json").write_text("{")
    with pytest.raises(CannotRun, match="no record"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("given", "at", "reason"),
    [
        ({}, None, "the backup needs the master key with the fingerprint"),
        ({"master_key": "5f" * 32}, None, "LEDGER_MASTER_KEY is the wrong master key"),
        ({"master_key": KEY}, END, "--at needs LEDGER_WAL_ARCHIVE"),
        ({"master_key": KEY, "wal_archive": "/wal"}, END - timedelta(seconds=1), "before the end of the backup"),
        ({"master_key": KEY, "wal_archive": "/nowhere/wal"}, None, "LEDGER_WAL_ARCHIVE /nowhere/wal cannot be read by"),
        ({"master_key": KEY, "wal_archive": __file__}, END, "LEDGER_WAL_ARCHIVE .* cannot be read by"),
    ],
)
def test_a_restore_that_cannot_succeed_writes_nothing(tmp_path, given, at, reason):
    backup = tmp_path / "backup"
    backup.mkdir()
    write_record(backup, record())
    with pytest.raises(CannotRun, match=reason):
        restoration.restore(Settings(data_dir=tmp_path / "new", **given), backup, at)
    assert not (tmp_path / "new").exists()


def test_order_numbers_move_on_behind_all_that_were_given_out(database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        last = "select last_value, extract(epoch from clock_timestamp() - timestamptz '2026-01-01Z') from order_number_block"
        move_on(connection)
        block, seconds = connection.execute(last).fetchone()
        assert (seconds - 60) * 64 < block <= seconds * 64
        connection.execute("select setval('order_number_block', %s)", [block + (1 << 36)])
        move_on(connection)
        assert connection.execute(last).fetchone()[0] == block + (1 << 36) + 1_000_000


def archived(command, tmp_path, name):
    """Runs an archive_command as Postgres does, on a segment of this directory."""
    filled = command.replace("%p", name).replace("%f", name).replace("%%", "%")
    return subprocess.run(["/bin/sh", "-c", filled], cwd=tmp_path, check=False).returncode


def test_a_segment_is_archived_once_and_another_of_its_name_is_refused(short_dir, tmp_path):
    archive = short_dir / f"100% {uuid4().hex[:6]}"
    command = archive_settings(Settings(wal_archive=str(archive)))["archive_command"]
    segment = tmp_path / "000000010000000000000001"
    segment.write_bytes(b"commits")
    assert [archived(command, tmp_path, segment.name) for _ in range(2)] == [0, 0]
    assert [(file.name, file.read_bytes()) for file in archive.iterdir()] == [(segment.name, b"commits")]
    segment.write_bytes(b"other commits")
    assert archived(command, tmp_path, segment.name) != 0
    assert (archive / segment.name).read_bytes() == b"commits"


def test_an_archive_that_cannot_be_written_stops_the_start(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        CannotRun, match=r"LEDGER_WAL_ARCHIVE .*file cannot be written by .*: it has to be a folder of that account"
    ):
        archive_settings(Settings(wal_archive=str(tmp_path / "file")))
    assert archive_settings(Settings()) == {}
