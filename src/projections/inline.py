"""The read models that ride in the append's own statement: everything the journal writes beside its events.

The rule a stranger would break: a row depends on the change alone. The journal discards the rows of a command that
lost, so computing them must have no effect of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.customers.state import Customer
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.state import Order
from ledger.journal.append import Change
from ledger.journal.inline import InlineTable, Row
from projections import customers, merchants
from projections.lists import tally
from projections.orders import table
from projections.search import lines

TABLES: Final[tuple[InlineTable, ...]] = (
    table.TABLE,
    customers.TABLE,
    tally.TABLE,
    lines.TABLE,
    merchants.TABLE,
    merchants.KEY_TABLE,
)


class Inline:
    """Turns changes into rows; stateless."""

    tables: Sequence[InlineTable] = TABLES

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        """The rows of a change, by table name; none for a change without events."""
        if not change.events:
            return {}
        return rows_of(merchant_id, change.expected + len(change.events), change.before, change.after)


def rows_of(merchant_id: UUID, version: int, before: Any, after: Any) -> dict[str, list[Row]]:
    """The rows of a stream that stands at `version` in the state `after`, and stood in the state `before` (None: nowhere)."""
    match after:
        case Order():
            return {
                table.TABLE.name: [table.row(merchant_id, version, after)],
                tally.TABLE.name: tally.moves(merchant_id, before, after),
                lines.TABLE.name: lines.order_rows(merchant_id, before, after),
            }
        case Customer():
            return {
                customers.TABLE.name: [customers.row(merchant_id, version, after)],
                lines.TABLE.name: lines.customer_rows(merchant_id, before, after),
            }
        case IdempotencyRecord():
            return {}  # what answers a repeated request is the log itself
        case Merchant():
            return {
                merchants.TABLE.name: [merchants.row(merchant_id, version, after)],
                merchants.KEY_TABLE.name: merchants.key_rows(merchant_id, before, after),
            }
        case unknown:
            raise AssertionError(f"no read model knows {type(unknown).__name__}")
