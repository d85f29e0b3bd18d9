"""What a merchant or a worker can do: from a parsed request to a committed outcome.

An operation loads, lets the core decide, commits, and decides again on the newer state after a conflict. Decide nothing
here.

In reading order:

- `inputs`: parsed requests. `results`: what an operation returns. `ledger`: what every operation is given.
- `pipeline`: the one way in which a stream is changed.
- `orders`, `customers`, `payment_methods`, `products`, `plans`, `subscriptions`: a module for each operation.
  `merchants`: merchants and their keys.
- `clock`: the merchants' time.
- `message_delivery`: how messages of processors come to the ledger.
"""
