"""The customer of a merchant: a stream of its own, created by itself or by the first order that names it.

In reading order:

- `details`: what the creation, the state and the requests have in common. `events`: created, changed, erased.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream.
- `terms`: the terms on which orders and subscriptions send messages to a customer.
"""
