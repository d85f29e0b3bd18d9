"""Rows of all merchants in turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from uuid_utils.compat import uuid7

from ledger.postgres.connection import connect
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.skip_scan import InTurn

pytestmark = pytest.mark.anyio

DESTROYED = InTurn(
    table="data_key",
    id="customer_id",
    at="destroyed_at",
    where="destroyed_at is not null and forgotten_at is null",
    due="customer_id <> all(%(skipped)s::uuid[])",
)
EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


def destroyed_keys(url: str) -> list[UUID]:
    """Stores destroyed keys of three merchants, 4, 1 and 2 of them, of which the first merchant's are the oldest."""
    customers = []
    with psycopg.connect(url, autocommit=True) as connection:
        for count in (4, 1, 2):
            merchant = uuid7()
            for _ in range(count):
                customers.append(customer := uuid7())
                destroyed_at = EPOCH + timedelta(minutes=len(customers))
                connection.execute(
                    "insert into data_key (merchant_id, customer_id, destroyed_at) values (%s, %s, %s)",
                    (merchant, customer, destroyed_at),
                )
    return customers


async def test_merchants_take_turns(database_url: str) -> None:
    await assert_turns(database_url)


async def assert_turns(url: str) -> None:
    """Asserts that the keys of merchants are read in turn, on one server or on nodes of Citus."""
    a1, a2, a3, a4, b1, c1, c2 = destroyed_keys(url)
    async with await connect(url, "test") as connection, MerchantTransactions(url, "test-node") as transactions:

        async def found(limit: int, *skipped: UUID) -> list[UUID]:
            rows = await DESTROYED.read(transactions, connection, limit, {"skipped": list(skipped)})
            return [customer_id for _, customer_id in rows]

        assert await found(10) == [a1, b1, c1, a2, c2, a3, a4]
        assert await found(2) == [a1, b1]
        assert await found(10, a1, b1) == [a2, c1, a3, c2, a4]
