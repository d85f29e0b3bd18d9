"""What is true now, for reading: rows that are written in the append's own transaction, and the queries over them.

The rule a stranger would break: a projection of one stream is `render(state)`, never a second fold, so that the decider
and the read model cannot disagree about money. Nothing here reads a clock, draws a random number or looks at the
environment: replaying the log gives the same bytes.

Read `documents` (what a client sees), `orders`, `customers`, `merchants`, `tally` (a table each), `inline` (what the
journal writes), then `loader` and `pages` (how it is read) and `rebuild` (the same rows from the log alone).
"""
