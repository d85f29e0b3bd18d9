"""From a decoded request to a draft: one value per field, every limit checked, in the ledger's words.

The rule a stranger would break: a draft exists only when all of the interface's limits hold. What needs the ledger's
state, such as whether the customer is known, is not asked here. Of several faults the first is reported.

Read `payment_orders` (the whole), then `values`, `people`, `payment_methods`, `line_items`, `stored_text` (its parts).
"""
