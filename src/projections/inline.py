"""The read models that ride in the append's own statement: everything the journal writes beside its events.

The rule a stranger would break: a row depends on the change alone. The journal discards the rows of a command that
lost, so computing them must have no effect of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from ledger.customers.state import Customer
from ledger.journal.append import Change
from ledger.journal.inline import InlineTable, Row
from ledger.merchants.state import Merchant
from ledger.orders.state import Order
from projections import customers, merchants, orders, tally

TABLES: Final[tuple[InlineTable, ...]] = (
    orders.TABLE,
    customers.TABLE,
    tally.TABLE,
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
        version = change.expected + len(change.events)
        match change.after:
            case Order() as order:
                return {
                    orders.TABLE.name: [orders.row(merchant_id, version, order)],
                    tally.TABLE.name: tally.moves(merchant_id, change.before, order),
                }
            case Customer() as customer:
                return {customers.TABLE.name: [customers.row(merchant_id, version, customer)]}
            case Merchant() as merchant:
                return {
                    merchants.TABLE.name: [merchants.row(merchant_id, version, merchant)],
                    merchants.KEY_TABLE.name: merchants.key_rows(merchant_id, change.before, merchant),
                }
            case unknown:
                raise AssertionError(f"no read model knows {type(unknown).__name__}")
