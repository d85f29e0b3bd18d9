"""A merchant's log for the library: `log_env` is the environment that `PERSISTENCE_MODULE=ledger.recorder` reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from uuid import UUID, uuid4

import eventsourcing.cryptography
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.journal.small_log import open_log

# The library's cases import its cipher over pycryptodome. It ships the same class over cryptography, which we have.
sys.modules.setdefault("eventsourcing.cipher", eventsourcing.cryptography)


@pytest.fixture(scope="module")
def module_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """One database for a module's tests, each with a merchant of its own: what one does must not be seen by another."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        clone = sql.SQL("create database {} template {} strategy wal_log")
        connection.execute(clone.format(sql.Identifier(name), sql.Identifier(template_database)))
        yield make_conninfo(postgres_url, dbname=name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def merchant(module_url: str) -> UUID:
    return open_log(module_url)


@pytest.fixture
def log_env(module_url: str, merchant: UUID) -> dict[str, str]:
    return {
        "PERSISTENCE_MODULE": "ledger.recorder",
        "LEDGER_DATABASE_URL": module_url,
        "LEDGER_MERCHANT_ID": str(merchant),
    }
