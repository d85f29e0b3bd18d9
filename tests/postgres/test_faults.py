"""How an error of the database is shown to a person."""

from __future__ import annotations

import psycopg
import pytest

from ledger.postgres.faults import DatabaseUnavailable, one_line


def test_an_error_is_one_line_without_its_statement(database_url: str) -> None:
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute("select *\n  from nowhere")
    assert "nowhere" in str(raised.value)
    assert "LINE" in str(raised.value)
    assert one_line(raised.value) == 'relation "nowhere" does not exist'


def test_an_error_without_an_answer_has_its_own_words() -> None:
    assert one_line(psycopg.OperationalError("connection failed:\n\tIs it there?")) == "connection failed: Is it there?"
    assert one_line(DatabaseUnavailable()) == "DatabaseUnavailable"
