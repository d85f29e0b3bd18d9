"""`ledger jobs`: failed jobs are listed and retried."""

from __future__ import annotations

import json

import psycopg
import pytest

MERCHANT, ORDER = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44", "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b45"
THING = ["CAPTURE", ORDER, "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b46", "2026-11-01T12:00:00+00:00"]


@pytest.fixture
def given_up(database_url):
    """The number of a job that was given up."""
    arguments = json.dumps({"merchant_id": MERCHANT, "things": [THING]})
    with psycopg.connect(database_url, options="-c search_path=public,public_jobs") as connection:
        return connection.execute(
            "insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)"
            " values ('q', 'ledger.due', %s, 'failed', 40) returning id",
            [arguments],
        ).fetchone()[0]


def test_a_job_that_was_given_up_is_listed_and_retried(ledger, given_up):
    (listed,) = ledger("jobs", "list", "--json").json
    assert (listed["job"], listed["givenUp"], listed["attempts"]) == (given_up, True, 40)
    assert (listed["merchantId"], listed["orderId"], listed["kind"]) == (MERCHANT, ORDER, "CAPTURE")
    assert "given up" in ledger("jobs", "list").out
    assert ledger("jobs", "retry", str(given_up), "--json").json == {"retried": [given_up]}
    (waiting,) = ledger("jobs", "list", "--json").json
    assert (waiting["givenUp"], waiting["attempts"]) == (False, 0)
    assert ledger("jobs", "retry", "--all", "--json").json == {"retried": [given_up]}


def test_a_retry_names_its_jobs_or_all(ledger, given_up):
    for arguments in ((), (str(given_up), "--all")):
        assert ledger("jobs", "retry", *arguments).code == 1
    unknown = ledger("jobs", "retry", str(given_up + 1))
    assert unknown.code == 1
    assert "no such job has failed" in unknown.err
