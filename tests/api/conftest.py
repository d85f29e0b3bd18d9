"""The application over a real database: one per module, with merchants of their own per test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.api.storefront import Merchant, Storefront, opened

from ledger.settings import Settings


@pytest.fixture(scope="module")
def settings(postgres_url: str, template_database: str) -> Iterator[Settings]:
    """The settings of an application with a database that the tests of one module share."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        clone = sql.SQL("create database {} template {} strategy wal_log")
        connection.execute(clone.format(sql.Identifier(name), sql.Identifier(template_database)))
        yield Settings(
            database_url=make_conninfo(postgres_url, dbname=name),
            master_key="11" * 32,
            sandbox_deadline_s=0.2,
            processor_timeout_s=15.0,
            request_timeout_s=20.0,
            body_limit=256 << 10,
        )
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    async with opened(settings) as storefront:
        yield storefront


@pytest.fixture
async def merchant(store: Storefront) -> Merchant:
    return await store.register()
