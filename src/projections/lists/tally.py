"""Counters of orders by status and UTC day of creation: exact totals without counting rows.

Change the counters only in the commit that changes the order, and only once: they are changed by differences.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.orders.state import Order
from ledger.journal.inline import InlineTable, Row
from projections.binary import micros, utc_day

# Changes the counters of a batch, each once for all orders of the batch. Merchants' heads are locked, so no other batch
# waits for a counter. A counter whose changes cancel out is not written.
_WRITE: Final = """
insert into tally as t (merchant_id, day, status, n)
select merchant_id, day, status, sum(n) from {rows} group by merchant_id, day, status having sum(n) <> 0
on conflict (merchant_id, day, status) do update set n = t.n + excluded.n
"""

# The orders of all merchants by status.
BY_STATUS: Final = "select status, sum(n)::int8 from tally group by status"

TABLE: Final = InlineTable(
    "tally", (("merchant_id", "uuid"), ("day", "date"), ("status", "text"), ("n", "int8")), _WRITE
)


def moves(merchant_id: UUID, before: Order | None, after: Order) -> list[Row]:
    """Returns the differences that a change adds to the counters; none if the status stays."""
    current = after.status
    previous = None if before is None else before.status
    if previous == current:
        return []
    merchant, day = merchant_id.bytes, utc_day(micros(after.terms.at))
    added = (merchant, day, current.encode(), 1)
    return [added] if previous is None else [(merchant, day, previous.encode(), -1), added]
