"""A plan: what a subscription charges, how often, and what happens if a charge fails. A stream of its own.

In reading order:

- `terms`: the part of a plan that a subscription copies. `events`: created, changed, first used, archived.
- `state`, `commands`, `decide`, `evolve`: the parts of every stream.
"""
