"""Mexican electronic invoices (CFDI 4.0): what each document of an order states, with all of its amounts final.

The events and the state of an order's documents are part of the order's stream: `ledger.domain.orders.invoices`.

In reading order:

- `documents`: composes them from an order. `receivers`: who gets one, with SAT's regimes. `concepts`: the lines.
- `rates`: the rates of taxes that SAT accepts. `line_taxes`: divides an amount into a base and taxes. `parts`: divides
  the taxes of an invoice among its payments and refunds.
- `movements`: what moved the order's money. `paid_in_full`: when it was enough, and what the invoice states of it.
  `split_orders`, `single_orders`: the documents that the movements need.
- `due`: when a document is due, and the progress that the order shows.
- `global_invoices`: one document for the orders without fiscal data of a period.
- `self_invoicing`: when the payer of an order may request its invoice.
- `commands`: what clients and workers ask for. `decide`: from a command to events.

Amounts are in minor units of the order's currency. `ledger.invoicing.cfdi` alone writes them in pesos or dollars.
"""
