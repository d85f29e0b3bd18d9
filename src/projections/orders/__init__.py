"""One order: its documents, how they are rendered, and the table that holds them.

In reading order:

- `head`: what an order itself contains. `payments`: its payments and their history. `payer_actions`: what a payer has
  to do.
- `documents`: the whole document, put together from stored bytes.
- `refunds`, `authentication`: the documents of two operations.
- `invoices`: its electronic invoices. `month_end`: a month's documents of all orders, from the log.
  `missing_documents`: those that are not stamped.
- `table`: the order's row, and how orders are found. `open_calls`: the orders that recovery looks up.
  `operator_lookup`: orders of all merchants, for an operator. `reconciliation`: what the log holds of a processor's
  payments. `pending_payouts`: the refunds that merchants have to pay out.
"""
