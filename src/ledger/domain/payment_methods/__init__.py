"""The saved payment methods of a customer: one stream for all of them.

One stream, because the rules are about all of them: a card is saved once, and exactly one method is the default.

In reading order:

- `events`: saved, expiry changed, billing changed, renamed, made default, deleted.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream.
"""
