"""A writer over a fresh database, with the small read model beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import psycopg
import pytest
from tests.journal.small_log import create_seen, open_writer

from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.commit.writer import Writer


@pytest.fixture
def log_url(database_url: str) -> Iterator[str]:
    create_seen(database_url)
    yield database_url
    with suppress(psycopg.Error), psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("set lock_timeout = '1s'; drop table seen")  # so that the next test can use the database


@pytest.fixture
async def writer(log_url: str) -> AsyncIterator[Writer | ShardWriters]:
    writer = open_writer(log_url)
    await writer.start()
    yield writer
    await writer.stop()
