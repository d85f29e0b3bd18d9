"""What holds for every command."""

from __future__ import annotations

import subprocess
import sys

import pytest
from psycopg.conninfo import timeout_from_conninfo
from tests.service.trees import environment
from typer.testing import CliRunner

from ledger.cli import main


@pytest.mark.parametrize("command", [[], ["doctor"], ["keys", "create"], ["merchants"]])
def test_a_flag_shows_no_type_in_the_help(command: list[str]) -> None:
    shown = CliRunner().invoke(main.app, [*command, "--help"])
    assert (shown.exit_code, "--help" in shown.output, "<bool>" in shown.output) == (0, True, False)


def test_the_paragraphs_of_a_help_fill_the_lines() -> None:
    shown = CliRunner().invoke(main.app, ["doctor", "--help"], terminal_width=120).output
    assert "what waits there. It changes nothing" in " ".join(shown.split())
    assert not [line for line in shown.splitlines() if line.strip().endswith(" It")]


def test_the_commands_that_run_the_service_come_first() -> None:
    shown = CliRunner().invoke(main.app, ["--help"]).output
    places = [shown.index(f"│ {name} ") for name in ("serve", "doctor", "merchants", "backup")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("variable", "string", "seconds"), [(None, {}, 5), ("7", {}, 7), ("7", {"connect_timeout": "3"}, 3)]
)
def test_no_server_holds_up_a_command_for_long(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, string: dict[str, str], seconds: int
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", variable or "")
    if variable is None:
        monkeypatch.delenv("PGCONNECT_TIMEOUT")
    found = list[int]()
    monkeypatch.setattr(main, "app", lambda: found.append(timeout_from_conninfo(string)))
    main.main()
    assert found == [seconds]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device(closed: str) -> None:
    program = "from ledger.cli.main import main; main()"
    ended = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -P -c "$1" settings {closed}', sys.executable, program],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0
