"""What can be done with global invoices.

In reading order:

- `create`: states the orders of a period that have no invoice, in one commit with their global invoice.
- `cancel`: has a stamped one cancelled.
- `provider_call`: the calls to the stamping provider, and what their outcomes mean for the orders.
- `due`: goes on with a document whose call was not sent, or has no outcome, and with a cancellation without a result.
"""
