"""The register of the processes on a database: several machines, their releases, their clocks, and where files are."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from ledger import doctor
from ledger.invoicing.files import files_place, folder_url
from ledger.postgres import registration
from ledger.postgres.connection import SharedClient, connect
from ledger.postgres.registration import (
    ClockApart,
    FilesNotShared,
    Registration,
    address_and_id,
    ahead_s,
    require_clock,
    require_shared_files,
)

pytestmark = pytest.mark.anyio

AHEAD = "select clock_timestamp() - interval '7 seconds'"
REGISTERED = "select host, role, release, files, clock_ahead_s from service_process"


def elsewhere(url: str, **changes: Any) -> None:
    """Registers a process of another machine."""
    row = {"host": "app2", "role": "api", "release": "0.0.9", "files": "", "ahead": 0.0, "age_s": 0} | changes
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into service_process values (gen_random_uuid(), %(host)s, %(role)s, %(release)s, %(files)s, %(ahead)s,"
            " now(), now() - make_interval(secs => %(age_s)s))",
            row,
        )


async def examined(url: str) -> doctor.Finding:
    async with await connect(url, "test") as connection:
        return await doctor._services(connection)


async def test_a_process_is_registered_while_it_runs(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as other:
        async with SharedClient(database_url, "test-announcer") as client:
            async with Registration(client, "s3://bucket").running():
                [(host, role, release, files, ahead)] = other.execute(REGISTERED).fetchall()
                assert (role, files, ahead) == ("api", "s3://bucket", 0.0)
                assert host
                assert release
            assert other.execute(REGISTERED).fetchall() == []


async def test_a_process_that_was_killed_is_forgotten_after_a_day(database_url: str) -> None:
    for hours in (25, 23):
        elsewhere(database_url, host=f"{hours} hours", age_s=hours * 3600)
    async with SharedClient(database_url, "test-announcer") as client, Registration(client, "").running():
        pass
    with psycopg.connect(database_url) as other:
        assert other.execute("select host from service_process").fetchall() == [("23 hours",)]


async def test_a_registration_waits_for_no_disk_and_no_standby(database_url: str) -> None:
    async with await connect(database_url, "test") as connection:
        await registration._execute(connection, "create table told as select current_setting('synchronous_commit')")
        assert await (await connection.execute("table told")).fetchall() == [("off",)]
        await connection.execute("drop table told")


async def test_a_clock_that_is_apart_is_logged_and_measured(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "CLOCK", AHEAD)
    monkeypatch.setattr(registration, "BEAT_S", 0.02)
    with capture_logs() as lines:
        async with SharedClient(database_url, "test-announcer") as client:
            kept = Registration(client, "")
            async with kept.running():
                assert 6 < kept.clock_ahead_s < 60
                with pytest.raises(
                    ClockApart, match=r"^this machine's clock is \d+\.\d s ahead of the database's: synch"
                ):
                    require_clock(database_url)
                monkeypatch.setattr(registration, "CLOCK", "select clock_timestamp()")
                while kept.clock_ahead_s:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
                require_clock(database_url)
    assert [line["event"] for line in lines] == ["clock_apart", "clock_together"]


def test_a_clock_is_read_between_two_readings_of_this_one() -> None:
    now = datetime(2026, 3, 15, tzinfo=UTC)
    second = timedelta(seconds=1)
    assert ahead_s(now, now, now + second) == 0.0
    assert ahead_s(now, now - 3 * second, now + second) == 3.0
    assert ahead_s(now, now + 4 * second, now + second) == -3.0


async def test_doctor_shows_every_machine_and_what_differs(database_url: str) -> None:
    assert (await examined(database_url)).text == "none runs"
    elsewhere(database_url, host="app0", age_s=31)  # its machine was killed
    elsewhere(database_url, host="app0", age_s=-31)  # the same, and the clock of the new primary is behind
    elsewhere(database_url, files="file:///srv/one#1", release="0.1.0")
    elsewhere(database_url, host="app1", role="worker", files="file:///mnt/one#1", release="0.1.0")
    found = await examined(database_url)
    assert found.state == "ok"
    assert found.text.startswith("app1: worker of 0.1.0 (1, since ")
    assert "; app2: api of 0.1.0 (1, since " in found.text
    elsewhere(database_url, host="app3", ahead=-1.5)
    found = await examined(database_url)
    assert found.state == "warn"
    assert "The releases 0.0.9 and 0.1.0 run side by side: finish the upgrade" in found.text
    assert "The clock of app3 is 1.5 s behind the database's" in found.text
    elsewhere(database_url, host="app4", files="s3://bucket")
    found = await examined(database_url)
    assert found.state == "fail"
    assert "Invoices are kept apart in file:///srv/one of app2 and s3://bucket of app4" in found.text


def test_a_second_machine_with_a_folder_of_its_own_is_refused(database_url: str, tmp_path: Path) -> None:
    own, shared = files_place(folder_url(tmp_path / "own")), files_place(folder_url(tmp_path / "shared"))
    assert own == files_place(folder_url(tmp_path / "own"))
    elsewhere(database_url, files="")
    for age_s in (31, -31):
        elsewhere(database_url, files=shared, age_s=age_s)
    require_shared_files(database_url, own)
    elsewhere(database_url, files=shared)
    require_shared_files(database_url, shared)
    require_shared_files(database_url, "")
    with pytest.raises(FilesNotShared, match=r"own/files, those of app2 are in .*shared/files: name one object store"):
        require_shared_files(database_url, own)


def test_a_folder_is_known_by_its_id_whatever_its_path_has(database_url: str, tmp_path: Path) -> None:
    one, other = tmp_path / "shop#1" / "a#b", tmp_path / "shop#2" / "a#b"
    (tmp_path / "file").touch()
    own, shared, nowhere = (files_place(folder_url(folder)) for folder in (one, other, tmp_path / "file" / "a#b"))
    assert address_and_id(nowhere)[0] == f"file://{tmp_path}/file/a#b/files"
    assert address_and_id("s3://bucket/tax") == ("s3://bucket/tax", "s3://bucket/tax")
    elsewhere(database_url, files=own)
    require_shared_files(database_url, own)
    with pytest.raises(
        FilesNotShared, match=r"in \S+/shop#2/a#b/files, those of app2 are in \S+/shop#1/a#b/files: name"
    ):
        require_shared_files(database_url, shared)


def test_of_two_machines_that_start_at_the_same_time_the_first_one_stays(database_url: str, tmp_path: Path) -> None:
    first, second = files_place(folder_url(tmp_path / "first")), files_place(folder_url(tmp_path / "second"))
    elsewhere(database_url, host="app1", files=first)
    elsewhere(database_url, host="app2", files=second)
    require_shared_files(database_url, first)
    with pytest.raises(FilesNotShared, match="those of app1 are in"):
        require_shared_files(database_url, second)


def test_processes_that_start_at_the_same_time_read_one_id_of_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        for number in range(50):
            urls = [folder_url(tmp_path / str(number))] * 4
            assert len(set(threads.map(files_place, urls))) == 1
    assert [file.name for file in (tmp_path / "0" / "files").iterdir()] == ["folder-id"]


async def test_a_clock_at_which_no_machine_is_ready_is_a_failure(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(database_url, ahead=-5.5)
    assert (await examined(database_url)).state == "fail"
    monkeypatch.setattr(doctor, "CLOCK", AHEAD)
    async with await connect(database_url, "test") as connection:
        assert (await doctor._clock(connection)).state == "fail"


def test_a_folder_that_cannot_be_made_is_shared_with_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert files_place(f"file://{tmp_path}/file/files").startswith(f"file://{tmp_path}/file/files#")
