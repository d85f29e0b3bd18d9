"""`--json` of every command, suggestions for misspelt words, and completion by the shell."""

import json
import shutil
import subprocess
import sys

import pytest
from tests.cli.shapes import described, leaves
from tests.invoicing.documents import LEGAL_NAME, NUMBER, PASSWORD, RFC
from tests.service.trees import environment

from ledger.invoicing.certificates import generate_csd, locked_key

LEDGER = [sys.executable, "-P", "-c", "import sys; sys.argv[0] = 'ledger'; from ledger.cli.main import main; main()"]


def test_every_command_prints_json_and_describes_it():
    shapes = {" ".join(path): described(command) for path, command in leaves()}
    assert [name for name, shape in shapes.items() if shape is None or not shape.startswith("Print JSON: ")] == []


def test_what_changed_is_printed_as_json(ledger, tmp_path):
    """Each shape is compared with the reference where the command is run."""
    merchant = ledger("merchants", "create", "Café de Prueba", "--json").json["merchantId"]
    assert ledger("merchants", "rename", merchant, "La Parroquia", "--json").json["name"] == "La Parroquia"
    (key,) = ledger("keys", "list", merchant, "--json").json
    assert ledger("keys", "revoke", merchant, key["keyId"], "--yes", "--json").json["hint"] == key["hint"]
    csd = generate_csd(RFC, LEGAL_NAME, NUMBER)
    files = {"certificate": csd.certificate, "key": locked_key(csd, PASSWORD), "password-file": PASSWORD.encode()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    options = [part for name in files for part in (f"--{name}", tmp_path / name)]
    issuer = ["merchants", "set-issuer", merchant, "--rfc", RFC, "--tax-system", "601", "--zip-code", "42501", "--json"]
    assert ledger(*issuer, *options).json["certificateNumber"] == NUMBER
    assert ledger("merchants", "set-logo", merchant, "--json").json is None
    account = ("processors", "connect", merchant, "second", "--processor", "sandbox", "--json")
    assert ledger(*account).json["status"] == "CONNECTED"
    assert ledger("processors", "check", merchant, "second", "--json").json["reachable"]
    assert ledger("processors", "disconnect", merchant, "second", "--json").json["status"] == "DISCONNECTED"
    assert ledger("keys", "rewrap", "--json").json["cards"] == 0
    assert ledger("migrate", "--json").json["number"] > 50
    assert ledger("merchants", "close", merchant, "--yes", "--json").json["closedAt"]


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["merchnats", "list"], "Did you mean 'merchants'?"),
        (["merchants", "lst"], "'list'"),
        (["merchants", "close", "1", "--resaon", "x"], "--reason"),
    ],
)
def test_a_misspelt_word_is_answered_with_those_that_look_like_it(ledger, arguments, suggestion):
    refused = ledger(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert suggestion in refused.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes_commands(shell, tmp_path):
    def run(**variables):
        return subprocess.check_output(LEDGER, env=environment(**variables), text=True)

    script = run(_LEDGER_COMPLETE=f"source_{shell}")
    assert f"_LEDGER_COMPLETE=complete_{shell}" in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)
    words = {
        "bash": {"COMP_WORDS": "ledger merchants cl", "COMP_CWORD": "2"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "ledger merchants cl"},
        "fish": {"_TYPER_COMPLETE_ARGS": "ledger merchants cl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    assert "close" in run(_LEDGER_COMPLETE=f"complete_{shell}", **words[shell])


def test_a_service_prints_json_once_it_is_ready(settings):
    """A worker, which has no address, on the database of a test."""
    variables = environment(LEDGER_DATABASE_URL=settings.database_url, LEDGER_DATABASE_APP_URL=settings.database_url)
    worker = subprocess.Popen(
        [*LEDGER, "worker", "--data-dir", settings.data_dir, "--json"],
        env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert json.loads(worker.stdout.readline()) == {"ready": None}
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert worker.returncode == 0
