"""An endpoint of a merchant, to which public events are posted. A stream of its own for each.

In reading order:

- `terms`: what a merchant chooses, and why an endpoint is disabled.
- `events`: created, changed, secret rotated, disabled, enabled, deleted.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream.
"""
