"""The queries of reconciliation: the orders that moved money in a time, and the time up to which it has compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ledger.postgres.connection import DatabaseClient

_TOPICS: Final = [
    "payment-captured.v1",
    "payment-refunded.v1",
    "payment-cancelled.v1",
    "late-capture-reported.v1",
    "late-refund-reported.v1",
]

# The orders with such an event in this time. The index of times leaves out the rows of all other days.
_MOVED: Final = """
select distinct merchant_id, stream_id from event where topic = any(%s) and recorded_at >= %s and recorded_at < %s
"""

# Takes the next day, if one has passed: one worker's update finds the old time, the others wait and find none.
_TAKE: Final = """
update reconciliation r set compared_until = %(until)s from (select compared_until from reconciliation for update) o
 where o.compared_until <= %(before)s returning o.compared_until
"""

_GIVE_BACK: Final = "update reconciliation set compared_until = %s where compared_until = %s"


class ReconciliationLog(DatabaseClient):
    """The log as reconciliation reads it. Every method raises DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-reconciliation")

    async def moved(self, since: datetime, until: datetime) -> Sequence[tuple[UUID, UUID]]:
        """Returns the (merchant, order) with captured, refunded or released money recorded in this time."""
        async with self._connected() as connection:
            rows = await connection.execute(_MOVED, (_TOPICS, since, until), binary=True)
            return [(merchant_id, order_id) for merchant_id, order_id in await rows.fetchall()]

    async def take_day(self, until: datetime) -> datetime | None:
        """Returns the time since which this caller compares up to `until`; None if less than a day has passed."""
        async with self._connected() as connection:
            parameters = {"until": until, "before": until - timedelta(days=1)}
            row = await (await connection.execute(_TAKE, parameters)).fetchone()
            return None if row is None else row[0]

    async def give_back(self, since: datetime, until: datetime) -> None:
        """Gives back a time that `take_day` returned and that was not compared, so that it is taken again."""
        async with self._connected() as connection:
            await connection.execute(_GIVE_BACK, (since, until))
