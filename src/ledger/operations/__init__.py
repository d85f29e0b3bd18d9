"""What a merchant or a worker can do: from a draft to a committed outcome.

Read `drafts` (what was asked), `ledger` (what every operation is given), `customers`, `orders` (create and charge), `acting`
(what every other action on an order has in common), `calls` and `carrying_out` (call the processor, record what came of it, go
on), `erasure`. An operation loads, lets the core decide, commits, and loads and decides again when somebody else was first. It
never decides anything itself.
"""
