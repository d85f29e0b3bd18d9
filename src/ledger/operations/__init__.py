"""What a merchant or a worker can do: from a parsed request to a committed outcome.

An operation loads, lets the core decide, commits, and decides again on the newer state after a conflict. Decide nothing
here.

In reading order:

- `context`: what every operation is given, and what it returns.
- `pipeline`: the one way in which a stream is changed. `stamping`: the calls to the stamping provider.
- `orders`, `customers`, `payment_methods`, `products`, `plans`, `subscriptions`: a module for each operation.
  `global_invoices`: one document for many orders. `merchants`: merchants and their keys. `processor_accounts`: their
  accounts with processors. `webhooks`: where their events are posted. `erasure`: erases a customer.
- `calls`: which event announces which call to an outside system. `message_call`: a message to a customer.
- `message_delivery`: how messages of processors come to the ledger.
"""
