"""How many orders stand in which status, by the UTC day of their creation: exact totals without counting rows.

The rule a stranger would break: the counters move by differences, so they are right only because they move in the commit
that moves the order, and only once. Nothing else may write them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.orders.state import Order
from ledger.journal.inline import InlineTable, Row
from projections.binary import micros, utc_day

# Move the counters of a batch, each once, however many orders moved it. Heads are locked, so no merchant's counter is
# contended; a counter whose moves cancel out is left alone.
_WRITE: Final = """
insert into tally as t (merchant_id, day, status, n)
select merchant_id, day, status, sum(n) from {rows} group by merchant_id, day, status having sum(n) <> 0
on conflict (merchant_id, day, status) do update set n = t.n + excluded.n
"""

TABLE: Final = InlineTable(
    "tally", (("merchant_id", "uuid"), ("day", "date"), ("status", "text"), ("n", "int8")), _WRITE
)


def moves(merchant_id: UUID, before: Order | None, after: Order) -> list[Row]:
    """What a change adds to the counters: nothing where the status stays."""
    now = after.status
    was = None if before is None else before.status
    if was == now:
        return []
    merchant, day = merchant_id.bytes, utc_day(micros(after.terms.at))
    counted = (merchant, day, now.encode(), 1)
    return [counted] if was is None else [(merchant, day, was.encode(), -1), counted]
