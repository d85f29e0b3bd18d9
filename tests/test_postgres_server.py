"""The server of the tests themselves."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import running

from ledger.postgres.embedded.cluster import MAJOR


@pytest.mark.skipif("LEDGER_TEST_DATABASE_URL" in os.environ, reason="a given server may have any version")
def test_the_tests_run_on_the_requested_version(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.info.server_version // 10_000 == int(os.environ.get("LEDGER_TEST_POSTGRES") or MAJOR)


def test_a_missing_version_is_not_replaced_by_another(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_TEST_DATABASE_URL", raising=False)
    monkeypatch.setenv("LEDGER_TEST_POSTGRES", "9")
    with pytest.raises(AssertionError, match="apt-get install postgresql-9"), running(short_dir / "absent"):
        pass
