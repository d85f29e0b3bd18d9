"""The operations on an order's electronic invoices.

In reading order:

- `stamp`: the loop that announces documents, calls the provider and records what it answered. `call`: one call.
- `recover`: looks up calls without an answer. `cancel`: cancels stamped documents.
- `deadline`: warns of missing receipts. `policy`: the settings of the merchant.
"""
