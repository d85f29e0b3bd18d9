"""The merchant: who collects money, with its settings and its API keys. The id of its stream is the merchant's id.

In reading order:

- `events`: registered, renamed, closed, settings changed, key issued, rotated, revoked. `state`, `commands`,
  `decide`, `evolve`: the parts of every stream.
- `settings`: converts settings between text and values.
"""
