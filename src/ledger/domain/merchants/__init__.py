"""The merchant: who collects money, with its settings and its API keys. The id of its stream is the merchant's id.

In reading order:

- `events`: registered, renamed, closed, settings changed, key issued, rotated, revoked. `state`, `commands`,
  `decide`, `evolve`: the parts of every stream.
- `settings`: converts settings between text and values.
- `messages`: a processor's message that an operator has dismissed, a stream of its own in the merchant's log.
"""
