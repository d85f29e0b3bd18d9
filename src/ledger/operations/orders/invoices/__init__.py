"""The operations on an order's electronic invoices.

`stamp` is the loop that announces documents, calls the provider and records what it answered; `call` is one call.
`recover` looks up calls without an answer. `cancel` cancels stamped documents, `deadline` warns of missing receipts,
`policy` reads the merchant's settings.
"""
