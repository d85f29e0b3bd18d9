"""Mexican electronic invoices (CFDI 4.0): what each document of an order states, with all of its amounts final.

In reading order:

- `terms`: the documents as events store them. `events`: the part of the order's storage format that is about them.
- `documents`: composes them from an order. `receivers`: who gets one, with SAT's regimes. `concepts`: the lines.
- `line_taxes`: divides an amount into a base and taxes. `parts`: divides the taxes of an invoice among its payments and
  refunds.
- `movements`: what moved the order's money, each with the document that it needs. `due`: when a document is due, and
  the progress that the order shows.
- `state`: an order's documents. `commands`: what clients and workers ask for. `decide`: from a command to events.
  `evolve`: from an event to the next state.

Amounts are in minor units of the order's currency. `ledger.invoicing.cfdi` alone writes them in pesos or dollars.
"""
