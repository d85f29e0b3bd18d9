"""Parts of request bodies: the shape that is sent, and the parser that checks it and returns the ledger's own terms.

A parser returns only when all limits of the interface hold. It asks nothing of the ledger's state, such as whether a
customer exists. Of several faults the first one is reported.

Read `types` and `values` first, then `people`, `payment_method`, `line_items`, `product`, `durations`. `stored_text`
searches every text that would be stored. `query` has what the lists share.
"""
