"""What the erasure of a customer reads: the customer's orders, and the erasures that are unfinished.

Record an erasure as finished only when every row of the customer's orders is free of personal data. The worker looks at
an unfinished erasure again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from ledger.postgres.connection import DatabaseClient
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.skip_scan import InTurn

# The next orders of a customer, by their ids.
_ORDERS_OF: Final = """
select order_id from payment_order
 where merchant_id = %(merchant_id)s and customer_id = %(customer_id)s and order_id > %(after)s
 order by order_id limit %(limit)s
"""

# Erased customers with orders that may still hold personal data, without the skipped ones: of each merchant the first
# erased first, and of the merchants each in turn.
_UNFINISHED: Final = InTurn(
    table="data_key",
    id="customer_id",
    at="destroyed_at",
    where="destroyed_at is not null and forgotten_at is null",
    due="customer_id not in (select unnest(%(skipped)s::uuid[]))",
)

# Records that every order of an erased customer is free of personal data.
_FINISHED: Final = """
update data_key set forgotten_at = current_timestamp
 where merchant_id = %s and customer_id = %s and destroyed_at is not null and forgotten_at is null
"""


def orders_of_statement(merchant_id: UUID, customer_id: UUID, after: UUID, limit: int) -> tuple[str, dict[str, object]]:
    """Returns the statement for at most `limit` orders of a customer whose ids come after `after`, and its
    parameters.
    """
    return _ORDERS_OF, {"merchant_id": merchant_id, "customer_id": customer_id, "after": after, "limit": limit}


class Erasures(DatabaseClient):
    """The erasures of all merchants' customers. Every method raises DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-payers")
        self._lock = asyncio.Lock()
        self._transactions = MerchantTransactions(url, self._name)

    async def __aexit__(self, *exception: object) -> None:
        await self._transactions.stop()
        await super().__aexit__(*exception)

    async def orders_of(self, merchant_id: UUID, customer_id: UUID, after: UUID, limit: int) -> Sequence[UUID]:
        """Returns at most `limit` orders of a customer whose ids come after `after`, in the order of their ids."""
        rows = await self._rows(*orders_of_statement(merchant_id, customer_id, after, limit))
        return [order_id for (order_id,) in rows]

    async def unfinished(self, limit: int, skipped: Collection[UUID] = ()) -> Sequence[tuple[UUID, UUID]]:
        """Returns at most `limit` (merchant, customer) that were erased and may still appear in rows of orders.

        The merchants follow each other in turn, without the `skipped` customers and those on a node of Citus that is
        down.
        """
        async with self._lock, self._connected() as connection:
            found = await _UNFINISHED.read(self._transactions, connection, limit, {"skipped": list(skipped)})
            return [(merchant_id, customer_id) for merchant_id, customer_id in found]

    async def finished(self, merchant_id: UUID, customer_id: UUID) -> None:
        """Records that no row of an order shows the customer any more."""
        await self._rows(_FINISHED, (merchant_id, customer_id))

    async def _rows(
        self, statement: str, parameters: tuple[object, ...] | Mapping[str, object]
    ) -> list[tuple[UUID, ...]]:
        async with self._lock, self._connected() as connection:
            cursor = await connection.execute(statement, parameters, binary=True)
            return await cursor.fetchall() if cursor.description else []
