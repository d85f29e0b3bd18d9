"""Reconciliation: the processor's records against the log, once a day and by command.

In reading order:

- `comparison`: what a record and an order have to agree on. Pure.
- `reconciler`: reads both sides, reports each difference, and records what the log lacks.
"""
