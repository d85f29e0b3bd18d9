"""A client's connection: which errors of the server count as a database that is away."""

from __future__ import annotations

import psycopg
import pytest

from ledger.postgres.connection import SharedClient
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def test_a_database_that_became_read_only_is_unavailable_and_a_wrong_statement_is_not(database_url: str) -> None:
    async with SharedClient(database_url, "test-client") as client:
        with pytest.raises(psycopg.ProgrammingError):
            async with client.turn() as connection:
                await connection.execute("select no_column")
        async with client.turn() as connection:
            await connection.execute("set default_transaction_read_only = on")
        with pytest.raises(DatabaseUnavailable):
            async with client.turn() as connection:
                await connection.execute("create table written ()")
        async with client.turn() as connection:
            assert await (await connection.execute("select 1")).fetchone() == (1,)
