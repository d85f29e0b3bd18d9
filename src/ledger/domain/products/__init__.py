"""The product of a merchant's catalogue: a stream of its own, written by imports.

In reading order:

- `terms`: what the event and the state have in common. `events`: imported. `state`, `commands`, `decide`, `evolve`:
  the parts of every stream.
"""
