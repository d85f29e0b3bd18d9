"""Parts of request bodies: the shape that is sent, and the parser that checks it and returns the ledger's own terms.

A parser asks nothing of the ledger's state, such as whether a customer exists. A parser of one value raises its error;
a parser of several fields takes the request's `FieldErrors`, adds every error to them, and returns what is right.

In reading order:

- `values`: the parsers of single values. `metadata`: the merchant's own JSON object, and its limits.
- `people`, `fiscal`, `payment_method`, `line_items`, `product`, `durations`: parts of bodies.
- `payer_language`: the language of texts for payers. `as_of`: the past state that a read asks for. `event_kinds`: the
  kinds of public events.
"""
