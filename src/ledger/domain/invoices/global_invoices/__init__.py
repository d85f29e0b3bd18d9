"""What a global invoice states, and the deciders of its document and of the orders in it.

In reading order:

- `periods`: the days that it covers. `contents`: which orders it states, and how.
- `commands`, `decide`: from a command to events. An order and its global invoice change in one commit.
- `cancellation`: from a request to cancel a stamped one to its result. `due`: when one is to be looked at.

The events and the state of its stream are in `ledger.domain.orders.global_invoices`.
"""
