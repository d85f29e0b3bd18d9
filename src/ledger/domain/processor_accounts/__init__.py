"""A merchant's account with a payment processor. A stream of its own.

In reading order:

- `terms`: what an account can take, and what is stored of its keys. `methods`: what a merchant leaves of its methods.
- `events`: connected, changed, disconnected.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream.
"""
