"""The product of a merchant's catalogue: a stream of its own, written by imports.

In reading order:

- `events`: imported. `state`, `commands`, `decide`, `evolve`: the parts of every stream.
"""
