"""The merchant: who collects money, with its settings and its API keys. The id of its stream is the merchant's id.

In reading order:

- `settings`: the declaration of each setting, from which the command, the event, the row and every document are made.
  `setting_kinds`: how their values are written and bounded.
- `events`: registered, renamed, closed, settings changed, key issued, rotated, revoked. `state`, `commands`,
  `decide`, `evolve`: the parts of every stream.
- `messages`: a processor's message that an operator has dismissed, a stream of its own in the merchant's log.
"""
