"""Backup and restore of a server that the service does not start, as a role with the rights that the page names."""

import asyncio
import os
import re
from contextlib import contextmanager
from hashlib import sha256
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.clusters import lay_cluster
from tests.docs.pages import ROOT
from tests.postgres_server import packaged

from ledger.backup.base_backup import take_backup
from ledger.backup.restoration import restore
from ledger.journal.event_archive import file_key
from ledger.operations.merchants.registration import register_merchant
from ledger.postgres.embedded import server
from ledger.postgres.embedded.cluster import MAJOR, SUPERUSER, open_cluster
from ledger.postgres.prepare import prepare
from ledger.security.api_keys import new_key
from ledger.settings import CannotRun, Settings
from ledger.wiring import open_ledger

KEY = "5e" * 32
EVERY_DATABASE = "local all all trust\n"
REPLICATION = "local replication all trust\n"
ROLE = "create role ledger_owner login createrole"


@contextmanager
def running(made, rules):
    """Yields the connection string of the server's superuser, without a user and a database."""
    started = server.start(made, settings={"hba_file": str(rules)})
    try:
        yield f"host={made.sockets} port=5432"
    finally:
        started.stop(60.0)


@pytest.fixture
def own(short_dir):
    """A cluster that is started like an operator's: of another major version where the suite runs on one."""
    major = os.environ.get("LEDGER_TEST_POSTGRES", MAJOR)
    home = short_dir / uuid4().hex[:8]
    return open_cluster(lay_cluster(home).parent / home.name) if major == MAJOR else packaged(major, home)


async def registered(settings):
    async with open_ledger(settings) as ledger:
        await register_merchant(ledger, "Shop", new_key("sandbox", bytes(32)))


def archived_file(url, settings, written, found):
    """Records a file of archived events as `ledger archive` does, and leaves what was `found` in its place."""
    digest = sha256(written).digest()
    with psycopg.connect(url, autocommit=True) as owner:
        ((merchant_id,),) = owner.execute("select merchant_id from merchant").fetchall()
        owner.execute(
            "insert into archived_file (merchant_id, file_id, sha256, events, bytes) values (%s, %s, %s, 1, 1)",
            [merchant_id, digest[:16], digest],
        )
    key = file_key(merchant_id.bytes, digest[:16])
    if found is not None:
        (settings.data_dir / "files" / key).parent.mkdir(parents=True, exist_ok=True)
        (settings.data_dir / "files" / key).write_bytes(found)
    return key


@pytest.mark.long
def test_a_server_of_ones_own_is_backed_up_by_a_role_with_the_rights_of_the_page_and_restored(
    own, short_dir, tmp_path, monkeypatch
):
    place, rules = short_dir / uuid4().hex[:8], own.home / "rules.conf"
    rules.write_text(EVERY_DATABASE)
    rules.chmod(0o644)
    url = ""

    def refusal():
        with pytest.raises(CannotRun) as raised:
            take_backup(settings, url, place / "backup")
        assert not (place / "backup").exists(), "a later one may have this name"
        assert "The role needs REPLICATION, and pg_hba.conf a line for `replication`" in str(raised.value)
        return str(raised.value)

    with running(own, rules) as address:
        with psycopg.connect(f"{address} user={SUPERUSER} dbname=postgres", autocommit=True) as superuser:
            superuser.execute(ROLE)
            superuser.execute("create database ledger_shop owner ledger_owner")
        url = make_conninfo(address, user="ledger_owner", dbname="ledger_shop")
        settings = Settings(database_url=url, master_key=KEY, data_dir=tmp_path / "data")
        asyncio.run(registered(prepare(settings, url)))
        assert "no pg_hba.conf entry for replication" in refusal()
    rules.write_text(EVERY_DATABASE + REPLICATION)
    with running(own, rules) as address:
        assert re.search("permission denied|must be superuser or replication role", refusal())
        with psycopg.connect(f"{address} user={SUPERUSER} dbname=postgres", autocommit=True) as superuser:
            superuser.execute("alter role ledger_owner replication")
        kept = settings.data_dir / "checkpoints" / "2026" / "a.jsonl"
        kept.parent.mkdir(parents=True)
        kept.write_text("{}")
        (place / "backup" / "pg").mkdir(parents=True)  # of a backup that was killed
        (place / "backup" / "pg" / "PG_VERSION").write_text("9")
        (place / "backup" / "unfinished").touch()
        there, lost = archived_file(url, settings, b"{}\n", b"{}\n"), archived_file(url, settings, b"[]\n", None)
        changed = archived_file(url, settings, b"1\n", b"2\n")
        with psycopg.connect(f"{address} user={SUPERUSER} dbname=postgres", autocommit=True) as superuser:
            superuser.execute("alter system set synchronous_standby_names = 'away'")  # the server does not read it yet
        taken = take_backup(settings, url, place / "backup")
    assert (taken.record.database, taken.record.owner) == ("ledger_shop", "ledger_owner")
    assert (taken.archived, sorted(taken.lost)) == (
        3,
        sorted([f"{lost} cannot be read: No such file or directory", f"{changed} is another file than was written"]),
    )
    assert (place / "backup" / "files" / there).read_bytes() == b"{}\n"
    assert {path.name for path in (place / "backup").iterdir()} == {"pg", "files", "checkpoints", "backup.json"}

    restored = restore(Settings(data_dir=place / "there", master_key=KEY), place / "backup", None)
    assert (place / "there" / "checkpoints" / "2026" / "a.jsonl").read_text() == "{}"
    assert restored.audit.violations == []
    assert restored.audit.merchants == 1
    for name in ("pg_hba.conf", "postgresql.auto.conf"):
        assert (restored.cluster / name).read_bytes() == (own.directory / name).read_bytes()

    (place / "backup" / "pg" / "standby.signal").touch()  # as in a backup of a standby, whose manifest has it too
    monkeypatch.setattr("ledger.backup.restoration.check_backup", lambda *_: None)
    again = restore(Settings(data_dir=place / "again", master_key=KEY), place / "backup", None)
    assert again.audit.events == restored.audit.events


def test_the_page_names_those_rights():
    page = (ROOT / "docs" / "how-to" / "back-up-and-restore.md").read_text()
    assert "alter role ledger replication" in page
    assert "local replication" in page
