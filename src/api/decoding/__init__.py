"""From what a client sends to values: bodies, query parameters, and all that is wrong with them.

In reading order:

- `types`: kinds of field, with their limits. `bodies`: from the bytes of a body to a struct. `query`: the parameters of
  the lists.
- `field_errors`: all that is wrong with the fields of a request. `unknown_names`: names that no field has.
- `stored_text`: checks every text that the ledger would store.
"""
