"""The application over a real database: one per module, with merchants of their own per test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from tests.api.storefront import Merchant, Storefront, opened
from tests.databases import Databases

from ledger.settings import Settings


@pytest.fixture(scope="module")
def settings(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of an application with a database that the tests of one module share."""
    with databases.lent() as url:
        yield Settings(
            database_url=url,
            database_vault_url=url,
            data_dir=tmp_path_factory.mktemp("data"),
            master_key="11" * 32,
            sandbox_deadline_s=0.2,
            processor_timeout_s=15.0,
            request_timeout_s=20.0,
            body_limit=256 << 10,
        )


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    async with opened(settings) as storefront:
        yield storefront


@pytest.fixture
def reacted(settings: Settings) -> None:
    """Records that reactions are up to date: no worker runs, and the database is as old as its template."""
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("update reaction_progress set as_of = now()")


@pytest.fixture
async def merchant(store: Storefront) -> Merchant:
    return await store.register()
