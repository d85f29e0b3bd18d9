"""Whose orders are whose, and whose erasure is not finished: what forgetting a person asks.

The rule a stranger would break: an erasure is finished only when no row shows the person any more, and it is noted only
then. Until it is noted, somebody will look again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self
from uuid import UUID

import psycopg

from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable

# A stretch of a customer's orders.
_ORDERS_OF: Final = """
select order_id from payment_order
 where merchant_id = %s and customer_id = %s and order_id > %s order by order_id limit %s
"""

# Erased customers whose orders have not all been seen to, the first erased first.
_UNFINISHED: Final = """
select merchant_id, customer_id from data_key
 where destroyed_at is not null and forgotten_at is null order by destroyed_at limit %s
"""

# Every order of an erased customer has been seen to.
_FINISHED: Final = """
update data_key set forgotten_at = current_timestamp
 where merchant_id = %s and customer_id = %s and destroyed_at is not null and forgotten_at is null
"""


class Erasures:
    """Asks on a connection of its own that is opened again when it was lost. Every question raises DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = await connect(self._url, "ledger-payers")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def orders_of(self, merchant_id: UUID, customer_id: UUID, after: UUID, limit: int) -> Sequence[UUID]:
        """At most `limit` orders of a customer whose ids come after `after`, in the order of their ids."""
        return [order_id for (order_id,) in await self._ask(_ORDERS_OF, (merchant_id, customer_id, after, limit))]

    async def unfinished(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """At most `limit` (merchant, customer) that were erased and may still stand in rows of orders."""
        return [(merchant_id, customer_id) for merchant_id, customer_id in await self._ask(_UNFINISHED, (limit,))]

    async def finished(self, merchant_id: UUID, customer_id: UUID) -> None:
        """Note that a person stands in no row any more."""
        await self._ask(_FINISHED, (merchant_id, customer_id))

    async def _ask(self, query: str, parameters: tuple[object, ...]) -> list[tuple[UUID, ...]]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self._url, "ledger-payers")
            answer = await self._connection.execute(query, parameters, binary=True)
            return await answer.fetchall() if answer.description else []
        except psycopg.OperationalError as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
