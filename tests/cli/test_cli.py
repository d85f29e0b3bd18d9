"""The command line: fast, readable, and one line when something is wrong."""

import json
import subprocess
import sys
from importlib.metadata import version
from uuid import uuid4

import psycopg
import pytest
from tests.cli import forked
from tests.service.trees import environment

from ledger.cli.installation import errors_as_cannot_run
from ledger.journal.append import KeyUnavailable
from ledger.postgres.faults import DatabaseUnavailable
from ledger.settings import CannotRun, Settings


def ledger(*arguments, **variables):
    """Runs `ledger` as it is installed: with an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-c", "from ledger.cli.main import main; main()", *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def forked_ledger(tmp_path):
    """Runs `ledger` in a process that need not import it."""

    def run(*arguments, **variables):
        status = forked.run([*map(str, arguments)], environment(**variables), tmp_path, timeout=60)
        out, err = ((tmp_path / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(arguments, status, out, err)

    return run


def test_help_names_every_command():
    result = ledger("--help")
    assert result.returncode == 0
    for command in ("serve", "api", "worker", "migrate", "settings"):
        assert command in result.stdout


def test_the_version_is_printed():
    assert ledger("--version").stdout == f"ledger {version('payment-ledger')}\n"


def test_help_names_the_choices(forked_ledger):
    for arguments, choices in (
        (("keys", "create", "--help"), ("orders:read", "settings")),
        (("merchants", "set", "--help"), ("surchargeRate", "FIRST_CAPTURE", "PAYCASH")),
    ):
        text = forked_ledger(*arguments, COLUMNS="300").stdout
        assert [choice for choice in choices if choice not in text] == []


@pytest.mark.long
def test_doctor_reports_a_wrong_setting_and_an_empty_directory(short_dir):
    wrong = ledger("doctor", LEDGER_PORT="many")
    assert (wrong.returncode, wrong.stdout[:16]) == (1, "fail  settings  ")
    data_dir = short_dir / uuid4().hex[:8]
    new = ledger("doctor", "--data-dir", data_dir)
    assert (new.returncode, new.stdout.splitlines()[-1][:16]) == (0, "warn  database  ")
    assert not data_dir.exists()
    away = ledger("doctor", "--data-dir", data_dir, LEDGER_DATABASE_URL="postgresql://u:secret@127.0.0.1:1/none")
    assert (away.returncode, away.stdout.splitlines()[-1][:16]) == (1, "fail  database  ")
    assert "secret" not in away.stdout + away.stderr


def test_the_command_line_itself_imports_nothing_heavy():
    heavy = "('psycopg', 'starlette', 'uvicorn', 'cryptography', 'eventsourcing')"
    program = f"import sys, ledger.cli.main; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], env=environment(), text=True) == "[]\n"


def test_settings_lists_every_setting_with_its_value(forked_ledger):
    result = forked_ledger("settings", "--json", LEDGER_PORT="9001")
    rows = {row["variable"]: row for row in json.loads(result.stdout)}
    assert len(rows) == len(Settings.__struct_fields__)
    assert (rows["LEDGER_PORT"]["default"], rows["LEDGER_PORT"]["value"]) == ("8000", "9001")
    for_people = forked_ledger("settings").stdout
    assert all(variable in for_people for variable in rows)


@pytest.mark.parametrize("command", ["serve", "api", "worker", "migrate", "settings"])
def test_a_wrong_setting_stops_every_command_with_one_line(forked_ledger, command):
    result = forked_ledger(command, LEDGER_BATCH_MAX="many")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "ledger: LEDGER_BATCH_MAX must be a whole number, at least 1 and at most 4096, not 'many'\n"


def test_a_misspelt_setting_is_pointed_out(forked_ledger):
    assert "LEDGER_PROT is no setting; did you mean LEDGER_PORT?" in forked_ledger("settings", LEDGER_PROT="1").stderr


def test_a_key_that_is_missing_is_not_blamed_on_the_database():
    with pytest.raises(CannotRun, match=r"^customer 1 is sealed under a key"), errors_as_cannot_run():
        raise KeyUnavailable("customer 1 is sealed under a key that LEDGER_SEALING_KEYS lacks")
    with pytest.raises(CannotRun, match=r"^the database refuses this command: no right; "), errors_as_cannot_run():
        raise psycopg.errors.InsufficientPrivilege("no right")
    with pytest.raises(CannotRun, match=r"^the database does not answer: it is away"), errors_as_cannot_run():
        raise DatabaseUnavailable("it is away")


@pytest.mark.long
def test_migrate_can_be_run_again_and_on_its_own_server(short_dir):
    data_dir = short_dir / uuid4().hex[:8]
    first, second = (ledger("migrate", "--data-dir", data_dir) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    assert first.stdout.startswith("the schema is current: ")


def test_production_does_not_start_without_a_master_key(forked_ledger, short_dir):
    result = forked_ledger(
        "serve", "--data-dir", short_dir / uuid4().hex[:8], LEDGER_ENVIRONMENT="production", LEDGER_PORT="0"
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ledger: LEDGER_MASTER_KEY or LEDGER_MASTER_KEY_FILE must be set in production"
    )


def test_a_wrong_key_of_a_processor_stops_the_start_with_one_line(short_dir):
    wrong = {"LEDGER_PROCESSOR_KEYS": "stp=12", "LEDGER_PORT": "0"}
    result = ledger("serve", "--data-dir", short_dir / uuid4().hex[:8], **wrong)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "ledger: LEDGER_PROCESSOR_KEYS must be name:key, the name in small letters, digits and -\n"
    )
