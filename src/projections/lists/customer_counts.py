"""Counters of customers by merchant: the total of the list of customers without counting rows.

Change a counter only in the commit that creates or erases the customer, and only once: it is changed by differences.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.customers.state import Customer
from ledger.journal.inline import InlineTable, Row

# Changes the counters of a batch, each once for all customers of the batch. Merchants' heads are locked, so no other
# batch waits for a counter.
_WRITE: Final = """
insert into customer_count as t (merchant_id, n)
select merchant_id, sum(n) from {rows} group by merchant_id having sum(n) <> 0
on conflict (merchant_id) do update set n = t.n + excluded.n
"""

TABLE: Final = InlineTable("customer_count", (("merchant_id", "uuid"), ("n", "int8")), _WRITE)


def moves(merchant_id: UUID, before: Customer | None, after: Customer) -> list[Row]:
    """Returns what a change adds to the counter: 1 for a new customer, -1 for an erased one, else nothing."""
    added = (not after.erased) - (before is not None and not before.erased)
    return [(merchant_id.bytes, added)] if added else []
