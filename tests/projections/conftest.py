"""A journal, its queries and a shop, on an empty database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.journal.small_log import writer_kind
from tests.projections.shop import Shop
from tests.sealing import data_keys

from ledger.journal.journal import Journal
from projections.inline import Inline
from projections.queries import Queries


@pytest.fixture
async def journal(database_url: str) -> AsyncIterator[Journal]:
    journal = Journal(database_url, Inline(), data_keys(database_url), new_writer=writer_kind())
    await journal.start()
    yield journal
    await journal.stop()


@pytest.fixture
async def reader(database_url: str, journal: Journal) -> AsyncIterator[Queries]:
    reader = Queries(database_url, journal.reader.stream)
    await reader.start()
    yield reader
    await reader.stop()


@pytest.fixture
async def shop(journal: Journal) -> Shop:
    return await Shop(journal).open()
