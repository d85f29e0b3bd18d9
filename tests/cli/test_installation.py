"""What a command runs on: the clock of its machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.cli import installation
from ledger.cli.attribution import operator_of
from ledger.postgres import registration
from ledger.settings import Settings


async def _nothing(*_: Any) -> None:
    return None


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
