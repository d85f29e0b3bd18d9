"""Parts of request bodies: the shape that is sent, and the parser that checks it and returns the ledger's own terms.

A parser returns only when all limits of the interface hold. It asks nothing of the ledger's state, such as whether a
customer exists. It raises the first of several errors; the function `check_…` beside it adds all of them.

In reading order:

- `values`: the parsers of single values.
- `people`, `fiscal`, `payment_method`, `line_items`, `product`, `durations`: parts of bodies.
- `payer_language`: the language of texts for payers.
"""
