"""What a command runs on: the clock of its machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.trees import environment

from ledger.cli import installation
from ledger.cli.attribution import operator_of
from ledger.postgres import registration
from ledger.settings import Settings


async def _nothing(*_: Any) -> None:
    return None


LOGS_AND_FAILS = """
import sys, structlog
import {module}
from ledger.cli.main import main
from ledger.settings import CannotRun

def work(*_, **__):
    structlog.get_logger().error("data_key_unavailable")
    raise CannotRun("it cannot be read")

{module}.{work} = work
main()
"""


@pytest.mark.parametrize(
    ("command", "module", "work"),
    [
        ("restore", "ledger.backup.restoration", "restore"),
        ("backup", "ledger.backup.base_backup", "take_backup"),
        ("migrate", "ledger.postgres.prepare", "prepare"),
        ("archive", "ledger.postgres.prepare", "prepare"),
    ],
)
def test_a_command_prints_no_line_of_the_log(
    database_url: str, tmp_path: Path, command: str, module: str, work: str
) -> None:
    arguments = {"restore": ["x"], "backup": [str(tmp_path / "x")], "archive": ["--yes"]}.get(command, [])
    ended = subprocess.run(
        [sys.executable, "-P", "-c", LOGS_AND_FAILS.format(module=module, work=work), command, *arguments, "--json"],
        env=environment(LEDGER_DATABASE_URL=database_url, LEDGER_DATA_DIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("", "ledger: it cannot be read\n")


@pytest.fixture(autouse=True)
def _log_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in this process would silence the log of all tests after it."""
    monkeypatch.setattr("ledger.telemetry.logs.configure_logs", lambda *_: None)


@asynccontextmanager
async def _no_ledger(*_: Any, **__: Any) -> AsyncIterator[None]:
    yield None


@pytest.mark.parametrize(("ahead_s", "warns"), [(0, False), (60, True)])
def test_a_command_that_appends_warns_of_a_clock_that_is_apart(
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ahead_s: int,
    warns: bool,
) -> None:
    settings = Settings(data_dir=tmp_path, database_url=database_url)
    monkeypatch.setattr(registration, "CLOCK", f"select clock_timestamp() + interval '{ahead_s} seconds'")
    monkeypatch.setattr("ledger.wiring.open_ledger", _no_ledger)
    monkeypatch.setattr(installation, "with_database", lambda _, opened, **__: asyncio.run(opened(settings)))
    installation.on_ledger(tmp_path, _nothing)
    assert capsys.readouterr().err == ""
    installation.on_ledger(tmp_path, _nothing, operator_of("merchants create", "ana", None))
    warning = capsys.readouterr().err
    assert warning.startswith("ledger: warning: this machine's clock is 60.0 s behind the database's: ") is warns
    assert warning.count("\n") == warns
