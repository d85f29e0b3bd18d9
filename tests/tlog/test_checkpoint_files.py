"""Checkpoints outside the database: each is there once, and a store that fails delays them and nothing else."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import OperationalError
from tests.metric_values import Counted, metric_value
from tests.tlog.logs import KEYS, append, checkpoints, execute, leaves, seal, sealer_of

from ledger.background import log_sealing
from ledger.doctor import examine
from ledger.postgres.faults import DatabaseUnavailable
from ledger.tlog.checkpoint_files import CheckpointFiles, CheckpointsUnavailable, checkpoints_address
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint, sign_checkpoint
from ledger.tlog.growth import encode_edge
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import CompactRange
from ledger.tlog.store import SignedCheckpoint

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def kept(folder: Path) -> list[list[tuple[UUID, Checkpoint]]]:
    """Returns what each file has, in the order of their times, verified."""
    found = []
    for file in sorted(folder.rglob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        merchants = [UUID(line["merchantId"]) for line in lines]
        opened = [
            open_checkpoint(line["checkpoint"].encode(), KEYS.verifiers(merchant))
            for line, merchant in zip(lines, merchants, strict=True)
        ]
        assert [each.size for each in opened] == [line["size"] for line in lines]
        found.append(list(zip(merchants, opened, strict=True)))
    return found


def days(folder: Path) -> list[str]:
    return ["/".join(file.relative_to(folder).parts[:3]) for file in sorted(folder.rglob("*.jsonl"))]


async def test_each_round_writes_what_it_has_signed_and_a_day_begins_with_all(
    database_url: str, tmp_path: Path
) -> None:
    busy, quiet = uuid4(), uuid4()
    append(database_url, busy, 3)
    append(database_url, quiet, 2)
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for hours in (0, 1, 2, 24, 25):
            if hours != 2:
                append(database_url, busy, 1)
            await sealer.seal(asyncio.Event())
            await sealer.write_checkpoints(NOON + timedelta(hours=hours))
    sizes = [sorted((merchant == busy, each.size) for merchant, each in file) for file in kept(tmp_path)]
    assert sizes == [[(False, 2), (True, 4)], [(True, 5)], [(False, 2), (True, 6)], [(True, 7)]]
    assert days(tmp_path) == ["2026/03/01", "2026/03/01", "2026/03/02", "2026/03/02"]
    stored = checkpoints(database_url, busy)
    assert [each for file in kept(tmp_path) for merchant, each in file if merchant == busy] == stored


async def test_another_worker_begins_with_all(database_url: str, tmp_path: Path) -> None:
    append(database_url, uuid4(), 3)
    await seal(database_url)  # a worker that ended before it wrote
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        assert await sealer.seal(asyncio.Event()) == []
        await sealer.write_checkpoints(NOON)
    assert [each.size for _, each in kept(tmp_path)[0]] == [3]


async def test_a_store_that_fails_stops_no_seal_and_gets_the_checkpoints_later(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    merchant, other = uuid4(), uuid4()
    place = tmp_path / "checkpoints"
    counted = Counted()
    async with sealer_of(database_url, folder=place) as sealer:
        append(database_url, other, 1)
        await sealer.seal(asyncio.Event())
        await sealer.write_checkpoints(NOON)
        shutil.rmtree(place)
        place.write_text("a file in the place of the folder")
        for _ in range(2):
            append(database_url, merchant, 5)
            await sealer.seal(asyncio.Event())
            await sealer.write_checkpoints(NOON)
        assert [each.size for each in checkpoints(database_url, merchant)] == [5, 10]
        place.unlink()
        place.mkdir()
        await sealer.write_checkpoints(NOON)
    assert [each.size for _, each in kept(place)[0]] == [10]
    outcomes = {key[1]: value for key, value in counted("ledger_checkpoint_files_total").items()}
    assert outcomes == {"written": 2, "failed": 2}
    printed = capfd.readouterr()
    assert "check that the folder of the checkpoints can be written" in printed.out + printed.err


async def test_a_lost_database_keeps_what_was_signed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(database_url, uuid4(), 1)
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        await sealer.write_checkpoints(NOON)
        append(database_url, uuid4(), 1)

        async def lost(*_: Any) -> None:
            raise DatabaseUnavailable("lost")

        monkeypatch.setattr(sealer, "_sign_again", lost)
        with pytest.raises(DatabaseUnavailable):
            await sealer.seal(asyncio.Event())
        await sealer.write_checkpoints(NOON)
    assert len(kept(tmp_path)[0]) == 2


async def test_a_file_is_never_written_again(tmp_path: Path) -> None:
    files = CheckpointFiles(f"file://{tmp_path}")
    keys = {await files.write([], NOON) for _ in range(50)}
    assert len(keys) == 50
    assert await files.read("absent") is None
    with pytest.raises(CheckpointsUnavailable, match="check that the folder of the checkpoints can be written"):
        await CheckpointFiles("file:///proc/nowhere").write([], NOON)


def test_the_address_is_a_folder_or_a_bucket(tmp_path: Path) -> None:
    assert checkpoints_address("", tmp_path) == f"file://{tmp_path}/checkpoints"
    assert checkpoints_address("/mnt/other", tmp_path) == "file:///mnt/other"
    assert checkpoints_address("s3://bucket/prefix", tmp_path) == "s3://bucket/prefix"


def test_the_doctor_warns_of_checkpoints_on_the_disk_of_the_database(tmp_path: Path) -> None:
    """Whose checks end before the database here, because its version is missing."""
    environ = {"LEDGER_DATA_DIR": str(tmp_path), "LEDGER_MASTER_KEY": "11" * 32}

    def finding(**more: str) -> tuple[str, str]:
        (found,) = [each for each in examine(environ | more) if each.check == "checkpoints"]
        return found.state, found.text

    assert finding(LEDGER_ENVIRONMENT="production")[0] == "ok"  # there is no embedded database
    (tmp_path / "pg").mkdir()
    state, text = finding(LEDGER_ENVIRONMENT="production")
    assert (state, text.partition(":")[0]) == ("warn", f"{tmp_path}/checkpoints is on the disk of the database")
    assert finding()[0] == "ok"
    assert finding(LEDGER_ENVIRONMENT="production", LEDGER_CHECKPOINTS_URL="/proc/elsewhere")[0] == "ok"
    assert not (tmp_path / "checkpoints").exists()


async def test_a_file_that_cannot_be_made_durable_is_a_fault_of_the_store(tmp_path: Path) -> None:
    files = CheckpointFiles(f"file://{tmp_path}")
    with pytest.raises(CheckpointsUnavailable, match="check that the folder of the checkpoints can be written"):
        await files._store.flush(["2026/03/01/gone.jsonl"])


def older(url: str, merchant: UUID, size: int) -> None:
    """Sets a log back to what it was at a size, as a restored database has it."""
    execute(url, "delete from event where merchant_id = %s and position > %s", merchant, size)
    execute(url, "update merchant_head set position = %s where merchant_id = %s", size, merchant)
    execute(url, "delete from log_checkpoint where merchant_id = %s and size > %s", merchant, size)
    edge = CompactRange()
    for leaf in leaves(url, merchant):
        edge.append(leaf)
    statement = "update log_tree set size = %s, edge = %s where merchant_id = %s"
    execute(url, statement, size, encode_edge(edge), merchant)


async def test_a_database_restored_to_the_past_is_not_signed_again(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    merchant, other = uuid4(), uuid4()
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for _ in range(2):
            append(database_url, merchant, 100)
            append(database_url, other, 3)
            await sealer.seal(asyncio.Event())
            await sealer.write_checkpoints(NOON)
    older(database_url, merchant, 100)
    async with sealer_of(database_url, folder=tmp_path) as restarted:
        await restarted.compare()
        await restarted.seal(asyncio.Event())
        restarted.sample()
        assert metric_value("ledger_log_changed_merchants", "api-0") == 1
        append(database_url, merchant, 250)
        append(database_url, other, 1)
        await restarted.seal(asyncio.Event())
        await restarted.write_checkpoints(NOON + timedelta(days=1))
    assert [each.size for each in checkpoints(database_url, merchant)] == [100]
    assert [each.size for each in checkpoints(database_url, other)] == [3, 6, 7]
    newest = {id_: each.size for id_, each in kept(tmp_path)[-1]}
    assert newest == {merchant: 200, other: 7}  # the next start compares with the newest file
    async with sealer_of(database_url, folder=tmp_path) as again:
        await again.compare()
        await again.seal(asyncio.Event())
    assert [each.size for each in checkpoints(database_url, merchant)] == [100]
    logged = capfd.readouterr()
    assert "log_contradicts_checkpoint" in logged.out + logged.err
    async with sealer_of(database_url, LogKeys("pay.example.com/v1/log-2", [bytes(range(32))]), folder=tmp_path) as new:
        await new.compare()
        await new.seal(asyncio.Event())
    note = execute(database_url, "select note from log_checkpoint where merchant_id = %s order by size desc", merchant)[
        0
    ][0]
    assert note.startswith(f"pay.example.com/v1/log-2/{merchant}\n350\n")


async def test_a_database_of_before_a_merchant_is_reported(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gone, other = uuid4(), uuid4()
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for merchant in (gone, other):
            append(database_url, merchant, 3)
        await sealer.seal(asyncio.Event())
        await sealer.write_checkpoints(NOON)
    for table in ("event", "merchant_head", "log_tree", "log_checkpoint"):
        execute(database_url, f"delete from {table} where merchant_id = %s", gone)
    async with sealer_of(database_url, folder=tmp_path) as restarted:
        await restarted.compare()
        append(database_url, other, 3)
        await restarted.seal(asyncio.Event())
        restarted.sample()
        await restarted.write_checkpoints(NOON + timedelta(days=1))
    assert metric_value("ledger_log_changed_merchants", "api-0") == 1
    logged = capfd.readouterr()
    assert f"{gone}" in logged.out + logged.err
    assert {id_: each.size for id_, each in kept(tmp_path)[-1]} == {gone: 3, other: 6}


async def test_what_else_is_in_the_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the root of a file system has a folder that root alone can read."""
    files = CheckpointFiles(f"file://{tmp_path}")
    await files.write([SignedCheckpoint(uuid4(), 1, "note", "keys")], NOON)
    for name in ("lost+found", "20x6", "notes"):
        (tmp_path / name / "03" / "01").mkdir(parents=True)
    listing = files._store.list

    async def without_permission(prefix: str) -> tuple[list[str], list[str]]:
        if prefix and not prefix.startswith(f"{NOON.year}/"):
            raise CheckpointsUnavailable
        return await listing(prefix)

    monkeypatch.setattr(files._store, "list", without_permission)
    assert len((await files.saved(NOON.date())).found) == 1
    assert await files.thin(NOON.date()) == 0


async def test_a_seal_whose_commit_was_not_answered_comes_outside(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant, other = uuid4(), uuid4()
    append(database_url, other, 1)
    write = log_sealing.write_checkpoints

    async def cut_after_the_commit(connection: Any, *arguments: Any) -> None:
        await write(connection, *arguments)
        await connection.execute("commit")
        execute(database_url, "select pg_terminate_backend(%s, 5000)", connection.info.backend_pid)

    async with sealer_of(database_url, folder=tmp_path) as sealer:
        await sealer.round(asyncio.Event(), NOON)
        append(database_url, merchant, 3)
        monkeypatch.setattr(log_sealing, "write_checkpoints", cut_after_the_commit)
        with pytest.raises((DatabaseUnavailable, OperationalError)):
            await sealer.round(asyncio.Event(), NOON)
        monkeypatch.undo()
        assert [each.size for each in checkpoints(database_url, merchant)] == [3]
        await sealer.round(asyncio.Event(), NOON + timedelta(seconds=10))
    assert {id_: each.size for id_, each in kept(tmp_path)[-1]} == {merchant: 3, other: 1}


async def test_another_log_behind_the_same_name_is_not_signed(database_url: str, tmp_path: Path) -> None:
    merchant, emptied, right = uuid4(), uuid4(), uuid4()
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for each in (merchant, emptied, right):
            append(database_url, each, 300)
        await sealer.seal(asyncio.Event())
        await sealer.write_checkpoints(NOON)
    for each in (merchant, emptied):
        for table in ("log_tree", "log_tile", "log_checkpoint"):
            execute(database_url, f"delete from {table} where merchant_id = %s", each)
        execute(database_url, "update event set data = 'x' where merchant_id = %s and position = 1", each)
    await seal(database_url)  # as if somebody had signed it: one tree has the size, and another root
    execute(database_url, "delete from log_tree where merchant_id = %s", emptied)
    execute(database_url, "delete from log_checkpoint where merchant_id = %s", emptied)
    async with sealer_of(database_url, folder=tmp_path) as restarted:
        await restarted.compare()
        for each in (merchant, emptied, right):
            append(database_url, each, 1)
        await restarted.seal(asyncio.Event())
    sizes = [[each.size for each in checkpoints(database_url, one)] for one in (merchant, emptied, right)]
    assert sizes == [[300], [], [300, 301]]


async def test_a_connection_to_an_older_server_signs_nothing(database_url: str, tmp_path: Path) -> None:
    merchant = uuid4()
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for _ in range(2):
            append(database_url, merchant, 10)
            await sealer.seal(asyncio.Event())
        older(database_url, merchant, 10)
        append(database_url, merchant, 30)
        assert await sealer.seal(asyncio.Event()) == []
    assert [each.size for each in checkpoints(database_url, merchant)] == [10]


async def test_the_next_day_begins_with_what_an_older_server_lacks(database_url: str, tmp_path: Path) -> None:
    """So that a worker that starts on that day does not sign again what was signed the day before."""
    merchant = uuid4()
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for _ in range(2):
            append(database_url, merchant, 10)
            await sealer.round(asyncio.Event(), NOON)
        older(database_url, merchant, 10)
        append(database_url, merchant, 30)
        await sealer.round(asyncio.Event(), NOON + timedelta(days=1))
    assert [each.size for _, each in kept(tmp_path)[-1]] == [20]
    async with sealer_of(database_url, folder=tmp_path) as restarted:
        await restarted.round(asyncio.Event(), NOON + timedelta(days=1))
    assert [each.size for each in checkpoints(database_url, merchant)] == [10]


async def test_a_lost_connection_has_the_logs_compared_again(database_url: str, tmp_path: Path) -> None:
    """A standby may have been promoted that lacks what another worker has signed."""
    merchant = uuid4()
    append(database_url, merchant, 10)
    async with sealer_of(database_url, folder=tmp_path) as sealer, sealer_of(database_url, folder=tmp_path) as other:
        await sealer.round(asyncio.Event(), NOON)
        append(database_url, merchant, 10)
        await other.round(asyncio.Event(), NOON)
        assert sealer._connection is not None
        await sealer._connection.close()
        older(database_url, merchant, 10)
        append(database_url, merchant, 30)
        await sealer.round(asyncio.Event(), NOON)
        assert [each.size for each in checkpoints(database_url, merchant)] == [10]


async def test_nothing_is_written_before_it_was_compared(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that answers a write and did not answer a read just before."""
    merchant, other = sorted([uuid4(), uuid4()])
    append(database_url, merchant, 10)
    append(database_url, other, 3)
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        await sealer.round(asyncio.Event(), NOON)
    older(database_url, merchant, 5)
    counted = Counted()
    async with sealer_of(database_url, folder=tmp_path) as restarted:

        async def unavailable(*_: Any) -> None:
            raise CheckpointsUnavailable("it does not answer")

        with monkeypatch.context() as fails:
            fails.setattr(restarted._files, "saved", unavailable)
            await restarted.round(asyncio.Event(), NOON + timedelta(days=1))
        assert len(kept(tmp_path)) == 1
        append(database_url, merchant, 1)
        await restarted.round(asyncio.Event(), NOON + timedelta(days=1))
    assert checkpoints(database_url, merchant) == []
    assert [sorted(each.size for _, each in file) for file in kept(tmp_path)] == [[3, 10], [3, 10]]
    assert {key[1]: value for key, value in counted("ledger_checkpoint_files_total").items()} == {
        "failed": 1,
        "written": 1,
    }


async def test_checkpoints_of_others_and_damaged_lines_stop_nothing(database_url: str, tmp_path: Path) -> None:
    merchant = uuid4()
    append(database_url, merchant, 3)
    await seal(database_url)
    signed = Checkpoint(KEYS.origin(merchant), 9, bytes(32))
    forged = sign_checkpoint(signed, LogKeys("pay.example.com/v1/log", [bytes(32)]).signers(merchant))
    mine = sign_checkpoint(signed, KEYS.signers(merchant))
    lines = [
        {"merchantId": str(merchant), "size": 9, "checkpoint": forged},
        {"merchantId": str(merchant), "size": 8, "checkpoint": mine},
        {"merchantId": str(uuid4()), "size": 9, "checkpoint": mine},
        {"merchantId": str(merchant), "size": 7, "checkpoint": ""},
    ]
    place = tmp_path / "2026" / "02" / "28"
    place.mkdir(parents=True)
    (place / "120000.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "{\n")
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        await sealer.compare()
        append(database_url, merchant, 3)
        await sealer.seal(asyncio.Event())
    assert [each.size for each in checkpoints(database_url, merchant)] == [3, 6]


async def test_a_store_that_does_not_answer_is_compared_later(database_url: str, tmp_path: Path) -> None:
    merchant = uuid4()
    append(database_url, merchant, 3)
    async with sealer_of(database_url, folder=tmp_path / "other") as sealer:
        await sealer.seal(asyncio.Event())
        await sealer.write_checkpoints(NOON)
    place = tmp_path / "checkpoints"
    place.write_text("a file in the place of the folder")
    async with sealer_of(database_url, folder=place) as restarted:
        older(database_url, merchant, 1)
        await restarted.compare()
        assert await restarted.seal(asyncio.Event()) == []
        place.unlink()
        shutil.copytree(tmp_path / "other", place)
        append(database_url, merchant, 1)
        await restarted.compare()
        assert await restarted.seal(asyncio.Event()) == []
    assert checkpoints(database_url, merchant) == []


async def test_checkpoints_are_thinned_to_the_first_of_a_day_after_a_week(database_url: str, tmp_path: Path) -> None:
    merchant, quiet = uuid4(), uuid4()
    append(database_url, quiet, 1)
    await seal(database_url)
    append(database_url, quiet, 1)
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        for n in range(20):  # two each day, for ten days
            append(database_url, merchant, 1)
            await sealer.seal(asyncio.Event())
            at = NOON + timedelta(hours=12 * n)
            await sealer.write_checkpoints(at)
            execute(
                database_url, "update log_checkpoint set sealed_at = %s where sealed_at > %s", at, NOON + timedelta(60)
            )
        execute(database_url, "update log_checkpoint set sealed_at = %s where merchant_id = %s", NOON, quiet)
        now = NOON + timedelta(hours=12 * 19)
        assert (f"{NOON:%m-%d}", f"{now:%m-%d}") == ("03-01", "03-11")
        for _ in range(2):
            await sealer.thin(now, asyncio.Event())
    of_day = {day: days(tmp_path).count(day) for day in days(tmp_path)}
    assert of_day == {f"2026/03/{day:02}": 1 if day in {1, 2, 3, 11} else 2 for day in range(1, 12)} | {"2026/03/01": 1}
    sizes = [each.size for each in checkpoints(database_url, merchant)]
    assert sizes == [1, 2, 4, *range(6, 21)]
    assert [each.size for each in checkpoints(database_url, quiet)] == [1, 2]  # the first of a day, and the newest
    assert {each.size for file in kept(tmp_path) for id_, each in file if id_ == merchant} == set(sizes)
