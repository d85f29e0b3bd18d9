"""What can be done with global invoices.

In reading order:

- `create`: states the orders of a period that have no invoice, in one commit with their global invoice.
- `provider_call`: the call to the stamping provider, and what its outcome means for the orders.
- `due`: goes on with a document whose call was not sent, or has no outcome.
"""
