"""Orders with a call to a processor that was announced and has no outcome yet: what the recovery looks up.

The rule a stranger would break: the row says until when the call was to be answered, in real time. How long to wait
beyond that is a setting of whoever asks, and stands in no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Self
from uuid import UUID

import psycopg

from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable

# The calls that were to be answered before a moment, the oldest first, from the partial index alone.
_DUE: Final = """
select merchant_id, order_id from payment_order
 where call_deadline_at is not null and call_deadline_at <= %s order by call_deadline_at limit %s
"""

# How many there are, and the oldest.
COUNT: Final = "select count(*), min(call_deadline_at) from payment_order where call_deadline_at is not null"


class OpenCalls:
    """Finds open calls over all merchants, on a connection of its own that is opened again when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = await connect(self._url, "ledger-open-intents")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def due(self, before: datetime, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """At most `limit` (merchant, order) whose call was to be answered before a moment of real time.

        Raises DatabaseUnavailable; the next call connects again.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self._url, "ledger-open-intents")
            rows = await self._connection.execute(_DUE, (before, limit), binary=True)
            return [(merchant_id, order_id) for merchant_id, order_id in await rows.fetchall()]
        except psycopg.OperationalError as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
