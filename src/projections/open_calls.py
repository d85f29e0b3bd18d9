"""Open calls: orders with a call to a processor that was announced and has no outcome yet. Recovery looks them up.

The row holds the deadline of the call, in real time. How long recovery waits beyond it is a setting of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.postgres.connection import DatabaseClient

# The calls whose deadline lies at or before a time, the oldest first, from the partial index alone.
_DUE: Final = """
select merchant_id, order_id from payment_order
 where call_deadline_at is not null and call_deadline_at <= %s order by call_deadline_at limit %s
"""

# The number of open calls, and the oldest deadline among them.
COUNT: Final = "select count(*), min(call_deadline_at) from payment_order where call_deadline_at is not null"


class OpenCalls(DatabaseClient):
    """The open calls of all merchants."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-open-intents")

    async def due(self, before: datetime, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """Returns at most `limit` (merchant, order) whose call had its deadline at or before a real time.

        Raises DatabaseUnavailable; the next call connects again.
        """
        async with self._connected() as connection:
            cursor = await connection.execute(_DUE, (before, limit), binary=True)
            return [(merchant_id, order_id) for merchant_id, order_id in await cursor.fetchall()]
