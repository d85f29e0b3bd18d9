"""The customer of a merchant: a stream of its own, created or reused by the orders that name it.

In reading order: `events` (created, details changed, erased), `state`, `commands`, `decide`, `evolve`.
"""
