"""Open calls: orders with a call to a processor that was announced and has no outcome yet. Recovery looks them up.

The row holds the real time at which the call is over: its deadline, or when it came back without an answer. How long
recovery waits beyond that is a setting of the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.postgres.connection import DatabaseClient
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.skip_scan import InTurn

# The calls that were over at or before a time, without those of the skipped orders: of each merchant the oldest
# first, and of the merchants each in turn.
_DUE: Final = InTurn(
    table="payment_order",
    id="order_id",
    at="call_deadline_at",
    where="call_deadline_at is not null",
    due="call_deadline_at <= %(before)s and order_id not in (select unnest(%(skipped)s::uuid[]))",
)

# The number of open calls, and since when the oldest of them is over.
COUNT: Final = "select count(*), min(call_deadline_at) from payment_order where call_deadline_at is not null"

# The command that announced the oldest open call: its id begins with the real time. The time in the row moves on
# whenever the call is postponed, and the log's is the merchant's. Of an order with several calls it is the latest. A
# thousand orders are enough: more are open only while a processor is away.
ANNOUNCED: Final = """
with opened as materialized (
  select merchant_id, order_id from payment_order where call_deadline_at is not null
   order by call_deadline_at limit 1000)
select command_id from (
  select distinct on (e.merchant_id, e.stream_id) e.command_id
    from opened o join event e on e.merchant_id = o.merchant_id and e.stream_id = o.order_id
   where e.topic in ('authorization-requested.v1', 'authentication-requested.v1', 'capture-requested.v1',
                     'void-requested.v1', 'session-end-requested.v1', 'release-requested.v1', 'refund-requested.v1', 'payout-requested.v1',
                     'reference-requested.v1', 'stamping-requested.v1', 'document-cancellation-requested.v1')
   order by e.merchant_id, e.stream_id, e.version desc) announced
 order by command_id limit 1
"""


class OpenCalls(DatabaseClient):
    """The open calls of all merchants."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-open-intents")
        self._transactions = MerchantTransactions(url, self._name)

    async def __aexit__(self, *exception: object) -> None:
        await self._transactions.stop()
        await super().__aexit__(*exception)

    async def due(self, before: datetime, limit: int, skipped: Collection[UUID] = ()) -> Sequence[tuple[UUID, UUID]]:
        """Returns at most `limit` (merchant, order) whose call was over at or before a real time.

        The merchants follow each other in turn, each with its oldest calls first, without the `skipped` orders and
        those on a node of Citus that is down. Raises DatabaseUnavailable; the next call connects again.
        """
        values = {"before": before, "skipped": list(skipped)}
        async with self._connected() as connection:
            found = await _DUE.read(self._transactions, connection, limit, values)
            return [(merchant_id, order_id) for merchant_id, order_id in found]
