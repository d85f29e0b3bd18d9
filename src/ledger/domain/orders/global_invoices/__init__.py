"""The stream of a global invoice: one document (CFDI 4.0) to the public in general for the orders without fiscal data.

In reading order:

- `events`: what is stored. `state`, `evolve`: what follows from it.

What it states, and its deciders, are in `ledger.domain.invoices.global_invoices`.
"""
