"""From what a client sends to values: bodies, query parameters, and the errors of their fields.

An endpoint's parser gathers its body once, checks each field once and refuses all wrong fields together:

    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        amount = errors.check(positive_amount, sent.amount, "amount")
        check_texts(sent, body, errors)
    errors.refuse()

In reading order:

- `types`: kinds of field, with their limits. `bodies`: from the bytes of a body to a struct. `query`: the parameters of
  the lists.
- `field_errors`: the errors of a request's fields.
- `unknown_names`: names that no field has. `foreign_names`: those of them that move money in other APIs.
  `choosing_names`: those that would narrow what a request acts on.
- `body_notes`: what a body leaves for the request's answer. `field_warnings`: warnings about fields that were accepted.
- `stored_text`: checks every text that the ledger would store.
- `media_types`: the type of an answer that exists in several.
- `repeated_names`: names that an object of a body has twice. `decoded_names`: the short way to most bodies without one.
"""
