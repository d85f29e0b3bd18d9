"""The benchmarks.

In reading order:

- `journal`: commits against single INSERTs. `http`: the service against the same INSERTs and an echo.
- `profile`: where the time of a create goes. `ceiling`: what further API processes add.
- `history`: the journal over millions of events. `search`: lists and searches.
- `documents`: stamps by the worker. `subscribers`: subscriptions that are due at one moment. `renewals`: how fast the
  worker bills them, and what that costs other merchants.
"""
