"""Mexican electronic invoices (CFDI 4.0): what each document of an order states, with all of its amounts final.

Read `terms` first: the documents as events store them. `documents` composes them from an order: the `receivers` with
SAT's regimes, the `concepts` of the lines. `line_taxes` divides an amount into a base and taxes, `parts` divides the
taxes of an invoice among its payments and refunds.

Amounts are in minor units of the order's currency. `ledger.invoicing.cfdi` alone writes them in pesos or dollars.
"""
