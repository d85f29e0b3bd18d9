"""Moves of a sandbox merchant's clock.

In reading order:

- `lock`: the lease on a merchant's clock. `turns`: how the moves of a process share its connections. `advance`: moves
  the clock and does what becomes due.
"""
