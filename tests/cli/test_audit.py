"""`ledger audit`: its exit statuses, its JSON and its page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from tests.cli import forked
from tests.cli.test_log import sealed
from tests.seeding.conftest import APPROVED, line, opening, order
from tests.service.trees import environment

NOON = "2026-03-02T12:00:00-06:00"


def test_an_audit_exits_by_what_it_finds(ledger, write, database_url, tmp_path):
    assert ledger("seed", write(opening(), line("create", NOON, order("A/1", APPROVED)))).code == 0
    clean = ledger("audit", "--json").json
    assert (clean["merchants"], clean["orders"], clean["violationsTotal"], clean["violations"]) == (1, 1, 0, [])
    assert clean.keys() >= {"snapshotAt", "events", "rows", "seconds", "sealedTo"}
    printed = ledger("audit", "--processor").done
    assert re.match(r"audited \d+ events, 1 order and \d+ rows of 1 merchant as of ", printed)
    assert "0 checkpoints outside the database were compared\nno violation" in printed
    with psycopg.connect(database_url, autocommit=True) as connection:
        (order_id, merchant_id) = connection.execute(
            "update payment_order set status = 'PENDING' returning order_id, merchant_id"
        ).fetchone()
    found = ledger("audit", "--json", "--merchant", merchant_id, "--workers", "2", "--html", tmp_path / "page.html")
    assert found.code == 1
    (violation,) = json.loads(found.out)["violations"]
    assert violation == {
        "invariant": "ROW",
        "merchantId": str(merchant_id),
        "orderId": str(order_id),
        "message": "status of payment_order does not follow from the log",
        "table": "payment_order",
        "column": "status",
        "expected": "COMPLETED",
        "found": "PENDING",
    }
    assert f"http://127.0.0.1:8000/api/v2/payment-orders/{order_id}/events" in (tmp_path / "page.html").read_text()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update tally set n = n + 1 where status = 'COMPLETED'")
    listed = ledger("audit")
    assert listed.code == 1
    assert "(expected COMPLETED, found PENDING)" in listed.out
    assert (
        "the counter of orders COMPLETED of 2026-03-02 does not follow from the log (expected 1, found 2)" in listed.out
    )
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from sandbox_charge")
    compared = ledger("audit", "--processor").out
    assert re.search(
        r"PROCESSOR .*: the account sandbox does not list the call under the key \S+, which the log has "
        r"\(expected 10000, found nothing\)\n",
        compared,
    )


def test_a_merchant_that_was_refused_is_not_counted(ledger, database_url):
    for refused in ((" ",), ("Tienda", "--surcharge-rate", "-1")):
        assert ledger("merchants", "create", *refused).code == 1
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("select count(*) from merchant_head").fetchone() == (0,)
        connection.execute(
            "insert into merchant_head (merchant_id) values (gen_random_uuid())"
        )  # as a lost commit does
    merchant = ledger("merchants", "create", "Tienda", "--json").json["merchantId"]
    assert [each["merchantId"] for each in ledger("merchants", "list", "--json").json] == [merchant]
    assert ledger("audit", "--json").json["merchants"] == 1


def test_an_audit_that_is_interrupted_prints_nothing(settings, database_url):
    sealed(settings, 10)
    command = [sys.executable, "-P", "-c", "from ledger.cli.main import main; main()", "audit", "--workers", "3"]
    variables = environment(LEDGER_DATABASE_URL=database_url, LEDGER_DATA_DIR=str(settings.data_dir))
    audit = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while audit.poll() is None and not imports(audit.pid):
            time.sleep(0.001)
        os.killpg(audit.pid, signal.SIGINT)
        out, err = audit.communicate(timeout=60)
    finally:
        audit.kill()
    assert err == ""
    assert (audit.returncode, out) == (130, "") or "no violation" in out  # this process had done all of it


def imports(pid):
    """Returns whether a process of the audit is among its imports."""
    children = [Path(f"/proc/{child}") for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    begun = [child for child in children if b"spawn_main" in (child / "cmdline").read_bytes()]
    return any("msgspec" in (child / "maps").read_text() for child in begun)


def test_an_audit_that_cannot_run_exits_with_2(ledger, tmp_path):
    for arguments, reason in (
        (("--merchant", "x"), "is not the id of a merchant"),
        (("--merchant", "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"), "there is no merchant"),
        (("--html", tmp_path / "none" / "page.html"), "page.html cannot be written: No such file or directory"),
        (("--html", tmp_path), "cannot be written: Is a directory"),
    ):
        ended = ledger("audit", *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert reason in ended.err
    full = ledger("audit", "--html", "/dev/full")
    assert (full.code, "/dev/full cannot be written" in full.err) == (2, True)
    assert "no violation" in full.out  # what was found is printed all the same


@pytest.mark.parametrize(
    "command",
    [
        ("audit",),
        ("rebuild", "--check"),
        ("export", "--to", "-"),
        ("log", "export", "logs"),
        ("reconcile",),
        ("operations", "list"),
        ("keys", "list", "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"),
        ("payouts",),
    ],
)
def test_no_command_answers_for_a_database_that_is_not_there(command, settings, tmp_path):
    absent = tmp_path / "mistyped"
    variables = environment(LEDGER_DATA_DIR=str(absent))
    code = forked.run([*command], variables, tmp_path, timeout=60)
    assert (code, (tmp_path / "out").read_text()) == (2 if command in (("audit",), ("rebuild", "--check")) else 1, "")
    assert (tmp_path / "err").read_text().startswith(f"ledger: {absent} has no database: ")
    assert not absent.exists()


def test_an_audit_for_which_there_is_no_room_reports_no_violation_by_its_status(settings):
    """A full disk under the output, and under the folder for temporary files, of which the hashes need some."""
    command = f"{sys.executable} -P -c 'from ledger.cli.main import main; main()'"
    sealed(settings, 10)
    variables = {"LEDGER_DATABASE_URL": settings.database_url, "LEDGER_DATABASE_APP_URL": settings.database_url}
    ended = [
        subprocess.run(
            ["bash", "-c", shell],
            env=environment(**variables, LEDGER_DATA_DIR=str(settings.data_dir)),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        for shell in (
            f"{command} audit --json > /dev/full",
            f"ulimit -f 0; {command} audit --json",
            f"{command} settings > /dev/full",
        )
    ]
    assert [each.returncode for each in ended] == [2, 2, 1]
    for each in ended:
        assert each.stderr.startswith("ledger: ")
        assert each.stderr.count("\n") == 1, each.stderr


def test_an_audit_of_a_damaged_database_or_without_its_checkpoints_cannot_run(ledger, settings, database_url):
    place = settings.data_dir / "checkpoints"
    place.write_text("a file in the place of the folder")
    refused = ledger("audit")
    place.unlink()
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith("ledger: the store of checkpoints failed")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table log_checkpoint rename column size to entries")
    damaged = ledger("audit")
    assert (damaged.code, damaged.err.count("\n")) == (2, 1)
    assert "the database cannot be read" in damaged.err
