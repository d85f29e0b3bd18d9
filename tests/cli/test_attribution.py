"""Who changes something by a command: `--by`, `--reason` and `--yes`."""

import getpass
import json
import os
import pty
import socket
import subprocess
import sys

import psycopg
import pytest
from tests.cli.shapes import leaves
from tests.service.trees import environment

from ledger.postgres.migrate import migrations

ASKS = (
    "from ledger.cli.attribution import require_confirmation;"
    "require_confirmation('Closing it ends it', yes=False); print('went on')"
)


@pytest.fixture
def merchant(ledger):
    return ledger("merchants", "create", "Café de Prueba", "--by", "rosa", "--json").json["merchantId"]


@pytest.fixture
def operators(database_url):
    """Returns the operators of the events of the log, in order, with their topics."""

    def read():
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("select topic, context from event order by position").fetchall()
        return [(topic, json.loads(context).get("operator")) for topic, context in rows]

    return read


def test_every_change_is_recorded_with_its_operator(ledger, merchant, operators):
    ledger("merchants", "rename", merchant, "La Parroquia", "--by", "ana", "--reason", " the owner asked ")
    ledger("merchants", "set", merchant, "requestsPerMinute=10", "--by", "ana")
    key = ledger("keys", "create", merchant, "--by", "ana", "--json").json["keyId"]
    new = ledger("keys", "rotate", merchant, key, "--by", "ana", "--json").json["keyId"]
    ledger("keys", "revoke", merchant, new, "--by", "ana", "--yes")
    ledger("merchants", "close", merchant, "--by", "ana", "--yes")
    recorded = operators()
    assert [operator for _, operator in recorded[:2]] == [{"name": "rosa", "command": "merchants create"}] * 2
    renamed = {"name": "ana", "command": "merchants rename", "reason": "the owner asked"}
    assert [operator for topic, operator in recorded if topic.startswith("merchant-renamed")] == [renamed]
    assert list(dict.fromkeys(operator["command"] for _, operator in recorded[3:])) == [
        "merchants set", "keys create", "keys rotate", "keys revoke", "merchants close",
    ]  # fmt: skip
    assert {operator["name"] for _, operator in recorded[2:]} == {"ana"}


def test_without_by_the_operator_is_the_account_and_its_host(ledger, merchant, operators):
    ledger("merchants", "rename", merchant, "La Parroquia")
    assert operators()[-1][1]["name"] == f"{getpass.getuser()}@{socket.gethostname()}"


def test_a_command_without_events_is_recorded_with_its_operator(ledger, merchant):
    ledger("jobs", "retry", "--all", "--by", "ana", "--reason", "the processor is back")
    ledger("messages", "fetch", "--by", "luis")
    ledger("merchants", "set-logo", merchant)
    recorded = ledger("operations", "list", "--json").json
    account = f"{getpass.getuser()}@{socket.gethostname()}"
    assert [(each["operator"], each["command"], each["subject"], each["reason"]) for each in recorded] == [
        (account, "merchants set-logo", merchant, None),
        ("luis", "messages fetch", "", None),
        ("ana", "jobs retry", "all", "the processor is back"),
    ]
    assert "the processor is back" in ledger("operations", "list").out
    assert len(ledger("operations", "list", "--limit", "2", "--json").json) == 2


def test_a_command_that_fails_is_recorded_too(ledger):
    assert "no such job has failed" in ledger("jobs", "retry", "999999", "--by", "ana").one_line
    (recorded,) = ledger("operations", "list", "--json").json
    assert (recorded["operator"], recorded["subject"]) == ("ana", "999999")


def test_a_database_without_citus_is_not_distributed_and_the_attempt_is_recorded(ledger):
    refused = ledger("distribute", "--shards", "16", "--yes", "--by", "ana").one_line
    assert refused == "the database has no Citus: create extension citus on each node, and add the nodes"
    (recorded,) = ledger("operations", "list", "--json").json
    assert (recorded["operator"], recorded["command"], recorded["subject"]) == ("ana", "distribute", "16 shards")


def test_a_rebuild_that_only_compares_is_not_recorded(ledger, merchant):
    ledger("rebuild", "--check")
    assert ledger("operations", "list", "--json").json == []
    ledger("rebuild", "payment_order", "--merchant", merchant, "--by", "ana")
    (recorded,) = ledger("operations", "list", "--json").json
    assert (recorded["command"], recorded["subject"]) == ("rebuild", f"payment_order of merchant {merchant}")


def test_a_migration_and_a_rewrap_are_recorded(ledger):
    ledger("migrate", "--by", "ana")
    ledger("keys", "rewrap", "--by", "ana")
    recorded = ledger("operations", "list", "--json").json
    assert [each["command"] for each in recorded] == ["keys rewrap", "migrate"]
    assert recorded[1]["subject"].startswith(f"{migrations()[-1].number:04} ")


READING = {
    ("api",), ("audit",), ("backup",), ("demo",), ("doctor",), ("events", "follow"), ("export",), ("jobs", "list"), ("keys", "list"),
    ("log", "export"), ("log", "verify"), ("merchants", "list"), ("merchants", "month-end"), ("merchants", "show"), ("messages", "list"),
    ("operations", "list"), ("payouts",), ("processors", "check"),
    ("processors", "list"), ("replay",), ("serve",), ("settings",), ("worker",),
}  # fmt: skip
"""The commands that change nothing of the database by themselves, or run the service."""


def test_every_command_that_changes_something_takes_its_operator():
    without = {
        path for path, command in leaves() if "--by" not in [name for each in command.params for name in each.opts]
    }
    assert without == READING
    for path, command in leaves():
        assert path in READING or "--reason" in [name for each in command.params for name in each.opts], path


def test_a_wrong_operator_or_reason_is_one_line_and_changes_nothing(ledger, merchant, log):
    before = log()
    for option, text, wrong in (
        ("--by", " ", "--by must have 1 to 500 characters, has 0"),
        ("--reason", "x" * 501, "--reason must have 1 to 500 characters, has 501"),
        ("--reason", "two\nlines", "--reason must be one line of printable characters"),
    ):
        assert ledger("merchants", "rename", merchant, "Otro", option, text).one_line == wrong
    assert log() == before


def test_what_cannot_be_undone_is_refused_without_yes(ledger, merchant, log):
    (key,) = ledger("keys", "list", merchant, "--json").json
    before = log()
    for arguments in (("merchants", "close", merchant), ("keys", "revoke", merchant, key["keyId"]), ("distribute",)):
        assert "this cannot be undone; add --yes if it is meant" in ledger(*arguments).one_line
    assert log() == before


@pytest.mark.parametrize(("typed", "ends"), [(b"y\n", (0, "went on\n")), (b"n\n", (1, "")), (b"\n", (1, ""))])
def test_a_terminal_is_asked(typed, ends):
    """Only a clear yes goes on; the question is not part of the output."""
    keyboard, terminal = pty.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKS], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    os.close(terminal)
    os.write(keyboard, typed)
    out, err = asking.communicate(timeout=60)
    os.close(keyboard)
    assert (asking.returncode, out) == ends
    assert "Closing it ends it. This cannot be undone. Go on? [y/N]" in err
