"""The benchmarks.

In reading order:

- `journal`: commits against single INSERTs. `http`: the service against the same INSERTs and an echo.
- `profile`: where the time of a create goes. `ceiling`: what further API processes add.
- `history`: the journal over millions of events. `search`: lists and searches.
"""
