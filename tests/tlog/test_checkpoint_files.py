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
from tests.metric_values import Counted
from tests.tlog.logs import KEYS, append, checkpoints, seal, sealer_of

from ledger.doctor import examine
from ledger.postgres.faults import DatabaseUnavailable
from ledger.tlog.checkpoint_files import CheckpointFiles, CheckpointsUnavailable, checkpoints_address
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint

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
