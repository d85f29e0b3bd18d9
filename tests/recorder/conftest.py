"""A merchant's log for the library: `log_env` is the environment that `PERSISTENCE_MODULE=ledger.recorder` reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from uuid import UUID

import eventsourcing.cryptography
import pytest
from tests.databases import Databases
from tests.journal.small_log import open_log

# The library's cases import its cipher, which needs pycryptodome. The same class exists for cryptography, which is
# installed.
sys.modules.setdefault("eventsourcing.cipher", eventsourcing.cryptography)


@pytest.fixture(scope="module")
def module_url(databases: Databases) -> Iterator[str]:
    """One database for a module's tests. Each test has its own merchant, so that it sees only its own events."""
    with databases.lent() as url:
        yield url


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
