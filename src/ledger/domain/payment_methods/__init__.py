"""The saved payment methods of a customer: one stream for all of them.

One stream, because the rules are about all of them: a card is saved once, and exactly one method is the default.

In reading order:

- `events`: saved, expiry changed, billing changed, renamed, made default, deleted; and the verification of a card that
  is saved without a payment. `terms`: the words of the latter.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream. `verification`, `evolve_verification`: those of a
  verification. `due`: when it is looked up, and when its payer's time ends.
"""
